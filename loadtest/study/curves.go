package study

import (
	"context"
	"fmt"

	"texttax/loadtest"
)

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
