package study

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"texttax/loadtest"
)

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
