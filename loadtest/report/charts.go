package report

import (
	"fmt"
	"math"
	"slices"

	"texttax/loadtest"
	"texttax/loadtest/chart"
	"texttax/loadtest/study"
)

// A Chart is a picture with the name of its files.
type Chart struct {
	Name string
	*chart.Picture
}

// Charts draws what the report has data for.
func (r *Report) Charts() []Chart {
	var all []Chart
	if s := r.Study; s != nil {
		if rows := s.Chunkies(); len(rows) > 0 {
			all = append(all, Chart{"phases", phasesOf(rows, s)})
		}
		all = append(all, echoes(s)...)
		if s.Baseline() != nil {
			all = append(all, Chart{"shares", shares(s)})
		}
		all = append(all, callLatencies(s)...)
	}
	if l := r.Load; l != nil && l.Latency.Count > 0 {
		all = append(all, Chart{"phases", loadPhases(l)}, Chart{"latency", loadLatency(l)})
	}
	return all
}

// phaseInks are the inks of the phases: the text in warm ones, the work in
// green, the wire in grey. Compression shares one with what can't be split.
var phaseInks = map[loadtest.Phase]chart.Ink{
	loadtest.ClientEncode: chart.Series + 1, loadtest.Transit: chart.Series + 6, loadtest.Decompress: chart.Series + 5,
	loadtest.Decode: chart.Series + 3, loadtest.Queue: chart.Series + 7, loadtest.Compute: chart.Series + 2,
	loadtest.Encode: chart.Series + 4, loadtest.Compress: chart.Series + 5, loadtest.ClientDecode: chart.Series + 0, loadtest.Unsplit: chart.Series + 5,
}

// stack draws bars of phases; of gives a bar's time of a phase in seconds.
func stack(title, subtitle string, names []string, of func(bar int, p loadtest.Phase) float64) *chart.Picture {
	var series []string
	var inks []chart.Ink
	bars := make([]chart.Bar, len(names))
	for i, n := range names {
		bars[i].Name = n
	}
	for _, p := range loadtest.Phases() {
		parts, any := make([]float64, len(names)), false
		for i := range names {
			if v := of(i, p); v > 0 {
				parts[i], any = v, true
			}
		}
		if !any {
			continue
		}
		series, inks = append(series, p.String()), append(inks, phaseInks[p])
		for i := range bars {
			bars[i].Parts = append(bars[i].Parts, parts[i])
		}
	}
	return chart.Stacked(title, subtitle, series, inks, bars, milliseconds)
}

func milliseconds(seconds float64) string {
	switch ms := seconds * 1e3; {
	case ms == 0:
		return "0"
	case ms < 1:
		return fmt.Sprintf("%.3g ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

func phasesOf(rows []*study.Crossing, s *study.Results) *chart.Picture {
	names := make([]string, len(rows))
	for i, c := range rows {
		names[i] = c.Boundary
		if c.Format != "" {
			names[i] += " " + c.Format
		}
	}
	return stack("Where one call's time goes",
		fmt.Sprintf("A sweep of %d combos over %d bars in one call; medians of %d rounds.", s.Combos, s.Bars, s.Rounds), names,
		func(bar int, p loadtest.Phase) float64 {
			if samples := rows[bar].Phases[p.String()]; len(samples) > 0 {
				return study.Median(samples)
			}
			return 0
		})
}

// formatInk is a format's ink in all charts.
func formatInk(format string) chart.Ink {
	return chart.Series + chart.Ink(max(0, slices.Index([]string{"octet", "json", "arrow", "json-std", "msgpack", "msgpack-bin"}, format)))
}

// echoes draws the curve of each boundary.
func echoes(s *study.Results) []Chart {
	byBoundary := map[string][]chart.Line{}
	var order []string
	var xs, ys []float64
	for _, c := range s.Curves {
		l := chart.Line{Name: c.Format, Ink: formatInk(c.Format)}
		for _, p := range c.Points {
			if len(p.Seconds) > 0 {
				l.X, l.Y = append(l.X, float64(p.Floats)), append(l.Y, study.Median(p.Seconds))
			}
		}
		if len(l.X) == 0 {
			continue
		}
		xs, ys = append(xs, l.X...), append(ys, l.Y...)
		if byBoundary[c.Boundary] == nil {
			order = append(order, c.Boundary)
		}
		byBoundary[c.Boundary] = append(byBoundary[c.Boundary], l)
	}
	var all []Chart
	for _, b := range order {
		all = append(all, Chart{"echo-" + b, chart.Lines("The echo curve, "+b,
			"So many floats there and back, both sides' encoding and decoding included, nothing computed. Both axes are logarithmic.",
			chart.Axis{Name: "floats", Ticks: chart.Decades(xs...), Place: chart.Log10, Label: func(v float64) string { return fmt.Sprintf("%.0f", v) }},
			chart.Axis{Name: "time of a call", Ticks: chart.Decades(ys...), Place: chart.Log10, Label: tick}, byBoundary[b])})
	}
	return all
}

// tick writes a time at an axis.
func tick(seconds float64) string {
	for _, u := range []struct {
		unit string
		s    float64
	}{{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}} {
		if seconds >= 0.9999*u.s {
			return fmt.Sprintf("%.3g %s", seconds/u.s, u.unit)
		}
	}
	return "0"
}

func shares(s *study.Results) *chart.Picture {
	var rows []chart.Bar
	for i := range s.Crossings {
		c := &s.Crossings[i]
		if len(c.Seconds) == 0 || c.Boundary == loadtest.InProcess.Name() {
			continue
		}
		share := s.ShareOf(c)
		predicted := math.NaN()
		if share.HasFloor {
			predicted = share.Predicted
		}
		rows = append(rows, chart.Bar{Name: c.String(), Parts: []float64{share.Measured, predicted}})
	}
	return chart.Grouped("The boundary's share of the time",
		"Measured, and as 1/(1+G) predicts it for the bare call without its text, G being compute per call over the floor.",
		[]string{"measured", "predicted"}, []chart.Ink{chart.Series + 0, chart.Series + 6}, rows)
}

// quantileAxis spreads quantiles so that each nine has as much room.
func quantileAxis() chart.Axis {
	return chart.Axis{Name: "share of the calls that are no slower", Ticks: []float64{0, 0.5, 0.9, 0.99, 0.999, 0.9999},
		Place: func(q float64) float64 { return -math.Log10(max(1-q, 1e-5)) },
		Label: func(q float64) string { return fmt.Sprintf("%.6g %%", 100*q) }}
}

// curve is a line of quantiles, without those that the axis has no room for.
func curve(name string, ink chart.Ink, points []loadtest.Point) chart.Line {
	l := chart.Line{Name: name, Ink: ink}
	for _, p := range points {
		if p.Quantile <= 0.9999 && p.Seconds > 0 {
			l.X, l.Y = append(l.X, p.Quantile), append(l.Y, p.Seconds)
		}
	}
	return l
}

func latencyChart(title, subtitle string, lines []chart.Line) Chart {
	var ys []float64
	for _, l := range lines {
		ys = append(ys, l.Y...)
	}
	return Chart{"latency", chart.Lines(title, subtitle, quantileAxis(),
		chart.Axis{Name: "time of a call", Ticks: chart.Decades(ys...), Place: chart.Log10, Label: tick}, lines)}
}

// callLatencies draws the quantiles of single calls where there are many.
func callLatencies(s *study.Results) []Chart {
	var lines []chart.Line
	for i := range s.Crossings {
		c := &s.Crossings[i]
		if c.Calls > 1 && len(c.Latency) > 1 && len(lines) < chart.SeriesInks {
			lines = append(lines, curve(c.String(), chart.Series+chart.Ink(len(lines)), c.Latency))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return []Chart{latencyChart("How slow the slow calls are", "Single calls of the work that is cut into many, over all rounds.", lines)}
}

func loadPhases(l *loadtest.Result) *chart.Picture {
	return stack("Where a call's time goes", l.Scenario+", "+l.Model+"; means, and medians of each phase.", []string{"mean", "median"},
		func(bar int, p loadtest.Phase) float64 {
			if d := l.Phase(p); bar == 0 {
				return d.Total / float64(max(l.Latency.Count, 1))
			} else {
				return d.P50
			}
		})
}

func loadLatency(l *loadtest.Result) *chart.Picture {
	lines := []chart.Line{curve("from the intended start", chart.Series, l.Latency.Curve)}
	if l.Model != "closed" {
		service := curve("from the true start", chart.Series+1, l.Service.Curve)
		service.Dashed = true
		lines = append(lines, service)
	}
	if l.Refusals.Count > 0 {
		lines = append(lines, curve("refusals", chart.Series+3, l.Refusals.Curve))
	}
	return latencyChart("How slow the slow calls are", fmt.Sprintf("%s, %s; %d answered calls.", l.Scenario, l.Model, l.Latency.Count), lines).Picture
}
