package encoding

import (
	"fmt"
	"strings"

	"texttax/kernel"
)

// Arrow is application/vnd.apache.arrow.stream: the IPC streaming format of
// the Arrow columnar format 1.0, uncompressed or with LZ4 or ZSTD buffers.
//
// A request is one or two streams, one after the other and in any order: a
// table with the column close, and a table with the six windows of
// kernel.WindowNames. The answer of /sweep is one stream with the columns pnl
// (float64), trades (int64) and open (int8). Columns are found by name, others
// are passed over, and a table may come in any number of batches. Closes of
// float64 that come in one batch are not copied.
//
// Everything is read by this package itself, which believes no length: Arrow's
// own reader is made for streams that one trusts, and allocates what the
// metadata says.
//
// A body of no bytes is no stream: it says nothing, as a request does that
// puts all into the query.
var Arrow Codec = arrowCodec{}

type arrowCodec struct{}

func (arrowCodec) Name() string      { return "arrow" }
func (arrowCodec) MediaType() string { return "application/vnd.apache.arrow.stream" }

// requestColumns are the columns of a request: close, then the windows.
var requestColumns = append([]string{"close"}, kernel.WindowNames[:]...)

// resultColumns are the columns of an answer, with their types.
var (
	resultColumns = []string{"pnl", "trades", "open"}
	resultKinds   = [...]numberKind{float64s, int64s, int8s}
	resultTypes   = [...]string{"float64", "int64", "int8"}
)

func (arrowCodec) Decode(body []byte, req *Request) error {
	messages := messageReader{bytes: body}
	for messages.at < len(body) {
		if req.Close != nil && req.Params != nil {
			return malformed("at byte %d something follows the two tables, of closes and of combos, that a request can have", messages.at)
		}
		var t table
		if err := t.open(&messages, requestColumns); err != nil {
			return err
		}
		closes, err := isSeries(&t.schema)
		if err != nil {
			return err
		}
		if closes {
			err = decodeSeries(&t, req)
		} else {
			err = decodeCombos(&t, req)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isSeries tells whether the schema is that of closes, or else of combos. It
// is an error if it is neither or both.
func isSeries(s *arrowSchema) (bool, error) {
	given := 0
	for i := range requestColumns {
		if s.columns[i].count > 1 {
			return false, malformedAt(requestField(i), -1, "the table has %d columns of this name", s.columns[i].count)
		}
		given += s.columns[i].count
	}
	closes := s.columns[0].count == 1
	switch {
	case given == 0:
		return false, invalidAt("", -1, "a table has neither the column close nor the windows %s; its columns: %s",
			strings.Join(kernel.WindowNames[:], ", "), s.names())
	case closes && given > 1:
		return false, invalidAt("", -1, "a table has the column close and windows, which can't be of one length; send two streams, one after the other")
	case !closes && given < len(kernel.WindowNames):
		var missing []string
		for w, name := range kernel.WindowNames {
			if s.columns[1+w].count == 0 {
				missing = append(missing, name)
			}
		}
		return false, invalidAt("params", -1, "a table has only some of the six windows; missing: %s", strings.Join(missing, ", "))
	}
	return closes, nil
}

// requestField names one of requestColumns in errors.
func requestField(i int) string {
	if i == 0 {
		return "close"
	}
	return paramsField(i - 1)
}

// notNumbers is the error for a column of a type that isn't read.
func notNumbers(field string, c *column) error {
	return invalidAt(field, -1, "the column is of the type %s; it must be a plain column of float16 to float64, int8 to int64 or uint8 to uint64", c.typeName)
}

func decodeSeries(t *table, req *Request) error {
	if req.Close != nil {
		return malformedAt("close", -1, "two tables have this column")
	}
	t.columns = t.schema.columns[:1]
	c := &t.columns[0]
	if c.kind == noNumber {
		return notNumbers("close", c)
	}
	var only batch
	rows, filled, err := t.survey(&only, req.checkBars)
	if err != nil {
		return err
	}
	f := newInflater()
	defer f.release()
	if rows == 0 {
		req.Close = []float64{}
		return nil
	}
	if filled == 1 && c.kind == float64s && only.parts[0].values.codec == uncompressed {
		values, validity, err := f.load(&only.parts[0], rows)
		if err != nil {
			return err
		}
		if in, ok := view[float64](values); ok && validity == nil {
			req.Close = in
			return nil
		}
	}
	// Numbers of 8 bytes are decompressed to where they will be, with what pads
	// them; there is no second copy of a long series.
	if err := req.limits.take(rows, bytesPrice); err != nil {
		return err
	}
	series := grow(&req.series, rows+padding/8)[:rows]
	err = t.each(func(b *batch, before int) error {
		scratch := &f.values
		if numberSizes[c.kind] == 8 {
			in := bytesOf(req.series[before:])
			scratch = &in
		}
		values, validity, err := f.loadTo(scratch, &b.parts[0], b.rows)
		if err != nil {
			return err
		}
		if fault, detail := prices(series[before:][:b.rows], values, validity, c.kind); fault >= 0 {
			req.invalidPrice(before+fault, detail)
		}
		return nil
	})
	if err != nil {
		return err
	}
	req.Close = series
	return nil
}

func decodeCombos(t *table, req *Request) error {
	if req.Params != nil {
		return malformedAt("params", -1, "two tables have the windows")
	}
	t.columns = t.schema.columns[1:len(requestColumns)]
	for w := range t.columns {
		if t.columns[w].kind == noNumber {
			return notNumbers(paramsField(w), &t.columns[w])
		}
	}
	var only batch
	rows, _, err := t.survey(&only, func(rows int) error { return req.checkCombos("params", rows) })
	if err != nil {
		return err
	}
	f := newInflater()
	defer f.release()
	if err := req.limits.take(rows, bytesParams); err != nil {
		return err
	}
	params := grow(&req.params, rows)
	err = t.each(func(b *batch, before int) error {
		// Columns are read one after the other, but the fault to tell of is
		// that of the first combo.
		var first *Error
		for w := range t.columns {
			values, validity, err := f.load(&b.parts[w], b.rows)
			if err != nil {
				return err
			}
			fault, detail := windows(params[before:][:b.rows], w, values, validity, t.columns[w].kind)
			if fault >= 0 && (first == nil || before+fault < first.Index) {
				first = invalidAt(paramsField(w), before+fault, "%s", detail)
			}
		}
		if first != nil {
			return first
		}
		return nil
	})
	if err != nil {
		return err
	}
	if params == nil {
		params = []kernel.Params{} // given, but empty
	}
	req.Params = params
	return nil
}

func (arrowCodec) DecodeResults(body []byte, res *kernel.Results) error {
	messages := messageReader{bytes: body}
	var t table
	if err := t.open(&messages, resultColumns); err != nil {
		return err
	}
	t.columns = t.schema.columns[:len(resultColumns)]
	for i, name := range resultColumns {
		switch c := &t.columns[i]; {
		case c.count == 0:
			return invalidAt(name, -1, "the column is missing; the table's columns: %s", t.schema.names())
		case c.count > 1:
			return malformedAt(name, -1, "the table has %d columns of this name", c.count)
		case c.kind != resultKinds[i]:
			return invalidAt(name, -1, "the column must be of the type %s, not %s", resultTypes[i], c.typeName)
		}
	}
	var only batch
	rows, _, err := t.survey(&only, func(int) error { return nil })
	if err != nil {
		return err
	}
	if messages.at < len(body) {
		return malformed("at byte %d something follows the one table that an answer is", messages.at)
	}
	f := newInflater()
	defer f.release()
	res.Resize(rows)
	err = t.each(func(b *batch, before int) error {
		for i, name := range resultColumns {
			values, validity, err := f.load(&b.parts[i], b.rows)
			if err != nil {
				return err
			}
			if validity != nil {
				return invalidAt(name, -1, "the column has nulls")
			}
			switch i {
			case 0:
				copyNumbers(res.PnL[before:][:b.rows], values)
			case 1:
				copyNumbers(res.Trades[before:][:b.rows], values)
			case 2:
				copyNumbers(res.Open[before:][:b.rows], values)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return checkSides(res.Open)
}

func inexactDetail(v any) string {
	return fmt.Sprintf("%d is no number that float64 can hold exactly", v)
}

func notWholeDetail(v float64) string {
	return fmt.Sprintf("must be a whole number, not %v", v)
}

func tooLargeDetail(v uint64) string {
	return fmt.Sprintf("%d is over the largest window, 2^63-1", v)
}
