package study

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/loadtest"
)

// Options say what to study.
type Options struct {
	Work       loadtest.Work       // nothing means 80 combos over the demo series
	Boundaries []loadtest.Boundary // with a server behind each, in the order of the tables
	Spawn      *loadtest.Spawn     // a process per call; nil for none
	Python     string              // interpreter that may have numpy; "" for none
	Quick      bool                // fewer calls, and none that take long
	Budget     time.Duration       // no round begins that would end after it, but for the first three
	// Progress is told, from 0 to 1, how much of the time is over, and what
	// comes next.
	Progress func(share float64, left time.Duration, what string)
}

// minRounds are what a median needs.
const minRounds = 3

// Run studies this machine until the budget is used up. When ctx ends, or a
// server fails, or gives wrong answers, there are both results, as far as they
// go, and an error.
func Run(ctx context.Context, o Options) (*Results, error) {
	s := &study{Options: o, results: new(Results), began: time.Now()}
	defer s.close()
	defer func() {
		for i := range s.results.Crossings {
			s.results.Crossings[i].finish()
		}
	}()
	if err := s.plan(ctx); err != nil {
		return nil, err
	}
	for {
		began := time.Now()
		for i, t := range s.trials {
			if t.slow && s.results.Rounds >= minRounds {
				continue
			}
			s.tell(i)
			if err := t.run(ctx); err != nil {
				err = fmt.Errorf("%s: %w", t.name, err)
				if errors.Is(err, loadtest.ErrWrongReply) || errors.Is(err, errOutcomes) {
					s.results.Gate.Failure = err.Error()
				}
				return s.results, err
			}
			s.took(i, time.Since(began))
			began = time.Now()
		}
		if s.results.Rounds++; s.results.Rounds == minRounds {
			for i, t := range s.trials {
				if t.slow {
					s.took(i, 0)
				}
			}
		}
		if s.results.Rounds >= minRounds && time.Since(s.began)+s.round > o.Budget {
			return s.results, nil
		}
	}
}

// A trial is measured once a round.
type trial struct {
	name string
	slow bool          // and measured in the first minRounds only
	took time.Duration // in the round before
	run  func(ctx context.Context) error
}

type study struct {
	Options
	results *Results
	began   time.Time
	round   time.Duration // of all trials, as far as known
	trials  []*trial
	closers []func()
}

func (s *study) close() {
	for _, c := range s.closers {
		c()
	}
}

func (s *study) took(i int, d time.Duration) {
	s.round += d - s.trials[i].took
	s.trials[i].took = d
}

// tell reports the progress before trial i.
func (s *study) tell(i int) {
	if s.Progress == nil {
		return
	}
	elapsed := time.Since(s.began)
	total := max(s.Budget, elapsed)
	if rounds := s.results.Rounds; rounds > 0 && rounds < minRounds {
		left := time.Duration(minRounds-rounds) * s.round
		for _, t := range s.trials[:i] {
			left -= t.took
		}
		total = max(total, elapsed+left)
	}
	s.Progress(elapsed.Seconds()/total.Seconds(), total-elapsed, s.trials[i].name)
}

func (s *study) add(name string, run func(ctx context.Context) error) *trial {
	t := &trial{name: name, run: run}
	s.trials = append(s.trials, t)
	return t
}

// plan makes the trials. What can't be measured here leaves a note.
func (s *study) plan(ctx context.Context) error {
	work := s.Work
	if work.Close == nil {
		var err error
		if work, err = loadtest.Demo(80); err != nil {
			return err
		}
	}
	s.results.Bars, s.results.Combos = len(work.Close), len(work.Combos)
	s.planTax(ctx, work.Close)
	if err := s.planFloor(work.Close[:1]); err != nil {
		return err
	}
	boundaries := s.Boundaries
	if s.Spawn != nil {
		if err := s.probe(ctx, s.Spawn, work); err != nil {
			s.note("a process per call is left out: %v", err)
		} else {
			boundaries = append(boundaries[:len(boundaries):len(boundaries)], s.Spawn)
		}
	}
	// The tables' rows are made before any trial has a pointer to one.
	s.planCurves(boundaries, work)
	if err := s.planCrossings(boundaries, work); err != nil {
		return err
	}
	// Last: a server that is not there shows without waiting for the slow ones.
	return s.planKernels(ctx, work)
}

func (s *study) note(format string, args ...any) {
	s.results.Notes = append(s.results.Notes, fmt.Sprintf(format, args...))
}

// probe makes one small call.
func (s *study) probe(ctx context.Context, b loadtest.Boundary, work loadtest.Work) error {
	octet, err := loadtest.FormatByName("octet")
	if err != nil {
		return err
	}
	_, err = loadtest.Run(ctx, loadtest.Plan{
		Scenario: loadtest.Scenario{Boundary: b, Format: octet, Granularity: loadtest.PerBar},
		Work:     work, Count: 1, Timeout: 10 * time.Second,
	})
	return err
}

var errOutcomes = errors.New("this variant has not the same outcomes")

// planKernels adds the variants of the kernel, each on one goroutine. Their
// answers must have the bits of the default's.
func (s *study) planKernels(ctx context.Context, work loadtest.Work) error {
	var want kernel.Results
	if err := kernel.Sweep(ctx, work.Close, work.Combos, kernel.DefaultFee, 0, &want); err != nil {
		return err
	}
	variants := kernel.Variants()
	s.results.Kernels = make([]Kernel, len(variants))
	for i, v := range variants {
		k := &s.results.Kernels[i]
		k.Name = v.Name()
		var got kernel.Results
		t := s.add("kernel "+k.Name, func(ctx context.Context) error {
			began := loadtest.Now()
			if err := (kernel.Sweeper{Workers: 1, Variant: v}).Sweep(ctx, work.Close, work.Combos, kernel.DefaultFee, &got); err != nil {
				return err
			}
			k.Seconds = append(k.Seconds, (loadtest.Now() - began).Seconds())
			if !got.Identical(&want) {
				return fmt.Errorf("%w as %s", errOutcomes, kernel.Implementation)
			}
			s.results.Gate.Verified++
			return nil
		})
		t.slow = strings.HasPrefix(k.Name, "reference") // of which there need be no more than a median
	}
	return nil
}

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

// planFloor adds what the generator itself costs, over the first boundary that
// is HTTP over TCP.
func (s *study) planFloor(series []float64) error {
	var http *loadtest.HTTP
	for _, b := range s.Boundaries {
		if h, ok := b.(*loadtest.HTTP); ok && h.Network == "tcp" && !h.TLS {
			http = h
			break
		}
	}
	if http == nil {
		return nil
	}
	body, err := encoding.Octet.Append(nil, &encoding.Request{Close: series})
	if err != nil {
		return err
	}
	const calls = 300
	measure := func(c echoer, to *[]float64) error {
		defer c.close()
		for range calls / 10 {
			if err := c.echo(); err != nil {
				return err
			}
		}
		m, err := medianOf(calls, c.echo)
		if err == nil {
			*to = append(*to, m)
		}
		return err
	}
	g := &s.results.Generator
	s.add("8-byte echo, lean client", func(ctx context.Context) error {
		octet, err := loadtest.FormatByName("octet")
		if err != nil {
			return err
		}
		job, err := loadtest.Work{Close: series}.Cut(loadtest.PerBar, octet)
		if err != nil {
			return err
		}
		r, err := s.drive(ctx, loadtest.Scenario{Boundary: http, Format: octet, Granularity: loadtest.PerBar}, job, calls, nil)
		if err == nil {
			g.Lean = append(g.Lean, r.Latency.P50)
		}
		return err
	})
	s.add("8-byte echo, minimal client", func(context.Context) error {
		c, err := newMinimalClient(http, body)
		if err != nil {
			return err
		}
		return measure(c, &g.Minimal)
	})
	s.add("8-byte echo, net/http client", func(context.Context) error {
		return measure(newStandardClient(http, body), &g.Standard)
	})
	return nil
}

// drive sends so many calls of a job on one connection, and counts what has
// been verified. A call that is not answered is an error.
func (s *study) drive(ctx context.Context, sc loadtest.Scenario, job *loadtest.Job, calls int, observe func(*loadtest.Record)) (*loadtest.Result, error) {
	r, err := loadtest.Run(ctx, loadtest.Plan{Scenario: sc, Job: job, Count: int64(calls), Observe: observe})
	if r == nil {
		return nil, err
	}
	s.results.Gate.Verified += r.Answered()
	if err == nil && r.Failed() > 0 {
		err = fmt.Errorf("%d of %d calls were not answered: %s", r.Failed(), calls, r.Failures[0])
	}
	return r, err
}

// sizes are the lengths of the echo curve, in floats.
func sizes(bars int) []int {
	var all []int
	for n := 1; n < bars && n <= 10_000; n *= 10 {
		all = append(all, n)
	}
	return append(all, bars)
}

func (s *study) planCurves(boundaries []loadtest.Boundary, work loadtest.Work) {
	type planned struct {
		boundary loadtest.Boundary
		format   loadtest.Format
		job      *loadtest.Job
		curve    int
		point    int
	}
	var all []planned
	for _, b := range boundaries {
		for _, f := range loadtest.Formats() {
			curve := Curve{Boundary: b.Name(), Format: f.Name}
			for _, n := range sizes(len(work.Close)) {
				job, err := loadtest.Work{Close: work.Close[:n]}.Cut(loadtest.Echo, f)
				if err != nil || b.Check(job.Calls[0], f) != nil {
					continue
				}
				all = append(all, planned{b, f, job, len(s.results.Curves), len(curve.Points)})
				curve.Points = append(curve.Points, Point{Floats: n})
			}
			if len(curve.Points) > 0 {
				s.results.Curves = append(s.results.Curves, curve)
			}
		}
	}
	for _, p := range all {
		point := &s.results.Curves[p.curve].Points[p.point]
		sc := loadtest.Scenario{Boundary: p.boundary, Format: p.format, Granularity: loadtest.Echo}
		s.add(fmt.Sprintf("echo of %s, %s %s", count(point.Floats), p.boundary.Name(), p.format.Name), func(ctx context.Context) error {
			r, err := s.drive(ctx, sc, p.job, s.echoes(p.boundary, point.Floats), nil)
			if err == nil {
				point.Seconds = append(point.Seconds, r.Latency.P50)
			}
			return err
		})
	}
}

// echoes is how many echoes of a length are worth a median.
func (s *study) echoes(b loadtest.Boundary, floats int) int {
	n := min(max(100_000/floats, 3), 100)
	if b == loadtest.Boundary(s.Spawn) {
		n = 3
	}
	return n
}

func (s *study) planCrossings(boundaries []loadtest.Boundary, work loadtest.Work) error {
	type planned struct {
		loadtest.Scenario
		job *loadtest.Job
	}
	var all []planned
	add := func(b loadtest.Boundary, f loadtest.Format, g loadtest.Granularity) error {
		job, err := work.Cut(g, f)
		if err != nil {
			return err
		}
		if b.Check(job.Calls[0], f) != nil {
			return nil
		}
		measured := job.Size()
		switch {
		case b == loadtest.Boundary(s.Spawn) && g == loadtest.PerBar:
			return nil // hours of it
		case b == loadtest.Boundary(s.Spawn) && g == loadtest.Chatty:
			measured = 10
		case g == loadtest.PerBar && s.Quick:
			measured = 2_000
		case g == loadtest.PerBar:
			measured = 20_000
		}
		all = append(all, planned{loadtest.Scenario{Boundary: b, Format: f, Granularity: g}, job})
		s.results.Crossings = append(s.results.Crossings, Crossing{
			Boundary: b.Name(), Format: f.Name, Granularity: g, Calls: job.Size(), Measured: min(measured, job.Size()), Phases: map[string][]float64{},
		})
		return nil
	}
	var errs []error
	for _, g := range []loadtest.Granularity{loadtest.Chunky, loadtest.Chatty} {
		errs = append(errs, add(loadtest.InProcess, loadtest.Format{}, g))
	}
	for _, b := range boundaries {
		for _, g := range []loadtest.Granularity{loadtest.Chunky, loadtest.Chatty, loadtest.Preloaded, loadtest.PerBar} {
			if g == loadtest.Preloaded && work.Dataset == "" {
				continue // the server has no copy of the series
			}
			for _, f := range loadtest.Formats() {
				// The formats differ most where the series is sent; the rest
				// of the story is told by the fastest and the usual one.
				if g == loadtest.Chunky || f.Name == "octet" || f.Name == "json" {
					errs = append(errs, add(b, f, g))
				}
			}
		}
	}
	for i, p := range all {
		c := &s.results.Crossings[i]
		s.add(c.String(), func(ctx context.Context) error { return s.cross(ctx, p.Scenario, p.job, c) })
	}
	return errors.Join(errs...)
}

// A round's sample of a work in one call is the median of as many calls as fit
// into chunkyTime, by how long they took before, within the bounds: a sweep on
// several cores takes one core's time where the other is slow to wake up.
const (
	chunkyTime  = 100 * time.Millisecond
	minChunkies = 3
	maxChunkies = 25
)

// chunkies is how many calls of a work in one call make a round. Its phases are
// the median call's.
func (c *Crossing) chunkies() int {
	if len(c.Seconds) == 0 {
		return minChunkies
	}
	return min(max(int(chunkyTime.Seconds()/Median(c.Seconds)), minChunkies), maxChunkies)
}

// cross does the work across a boundary once, or in the part that is measured.
func (s *study) cross(ctx context.Context, sc loadtest.Scenario, job *loadtest.Job, c *Crossing) error {
	calls := c.Measured
	if c.Calls == 1 {
		calls = c.chunkies()
	}
	var records []loadtest.Record
	_, err := s.drive(ctx, sc, job, calls, func(r *loadtest.Record) { records = append(records, *r) })
	if err != nil {
		return err
	}
	for i := range records {
		c.single = append(c.single, records[i].Service().Seconds())
	}
	if c.Calls == 1 {
		slices.SortFunc(records, func(a, b loadtest.Record) int { return cmp.Compare(a.Service(), b.Service()) })
		records = records[len(records)/2:][:1]
	}
	scale := float64(c.Calls) / float64(len(records))
	total := 0.0
	spent, in := map[loadtest.Phase]float64{}, map[loadtest.Phase]bool{}
	for i := range records {
		total += records[i].Service().Seconds() * scale
		for _, p := range loadtest.Phases() {
			if d, ok := records[i].Phase(p); ok {
				spent[p] += d.Seconds() * scale
				in[p] = true
			}
		}
	}
	c.Seconds = append(c.Seconds, total)
	for p := range in {
		c.Phases[p.String()] = append(c.Phases[p.String()], spent[p])
	}
	if in[loadtest.Compute] {
		c.Compute = append(c.Compute, spent[loadtest.Compute])
	}
	return nil
}
