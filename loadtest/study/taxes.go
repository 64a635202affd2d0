package study

import (
	"context"

	"texttax/encoding"
	"texttax/loadtest"
)

// planTax adds what encoding and decoding cost in this process.
func (s *study) planTax(ctx context.Context, series []float64) {
	tax := map[string]*Tax{}
	var names []string
	row := func(name string) *Tax {
		if tax[name] == nil {
			tax[name] = &Tax{Name: name}
			names = append(names, name)
		}
		return tax[name]
	}
	finish := func() {
		s.results.Tax = s.results.Tax[:0]
		for _, name := range names {
			s.results.Tax = append(s.results.Tax, *tax[name])
		}
	}
	raw, _ := encoding.Octet.Append(nil, &encoding.Request{Close: series}) // octets can say any series
	into := make([]byte, len(raw))
	// Beside each format, since all are measured by it.
	copies := func() error {
		m, err := medianOf(21, func() error { copy(into, raw); return nil })
		s.results.Copy = append(s.results.Copy, m)
		return err
	}
	for _, f := range loadtest.Formats() {
		var body []byte
		var req encoding.Request
		runs := 11
		if f.Name == "json" || f.Name == "json-std" {
			runs = 3
		}
		s.add("tax of "+f.Name, func(context.Context) error {
			if err := copies(); err != nil {
				return err
			}
			encode, err := medianOf(runs, func() (err error) {
				body, err = f.Codec.Append(body[:0], &encoding.Request{Close: series})
				return err
			})
			if err != nil {
				return err
			}
			// Where the service puts it, so that its numbers are aligned.
			offset := encoding.BodyOffset(f.Codec, int64(len(body)))
			placed := append(make([]byte, offset, offset+len(body)), body...)[offset:]
			decode, err := medianOf(runs, func() error {
				req.Reset(encoding.Limits{})
				return f.Codec.Decode(placed, &req)
			})
			if err != nil {
				return err
			}
			r := row(f.Name)
			r.Bytes = len(body)
			r.Encode, r.Decode = append(r.Encode, encode), append(r.Decode, decode)
			finish()
			return nil
		})
	}
	if s.Python == "" {
		return
	}
	p, err := startPython(ctx, s.Python, series)
	if err != nil {
		s.note("Python's own formats are left out: %v", err)
		return
	}
	s.closers = append(s.closers, func() { _ = p.stop() })
	s.note("Python's rows are by Python %s with numpy %s", p.Version.Python, p.Version.Numpy)
	s.add("tax in Python", func(context.Context) error {
		rows, err := p.round()
		for _, got := range rows {
			r := row(got.Name)
			r.Python, r.Bytes = true, got.Bytes
			r.Encode, r.Decode = append(r.Encode, got.Encode), append(r.Decode, got.Decode)
		}
		finish()
		return err
	})
}

// medianOf returns the median time of so many calls, in seconds.
func medianOf(runs int, call func() error) (float64, error) {
	times := make([]float64, runs)
	for i := range times {
		began := loadtest.Now()
		if err := call(); err != nil {
			return 0, err
		}
		times[i] = (loadtest.Now() - began).Seconds()
	}
	return Median(times), nil
}
