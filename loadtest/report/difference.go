package report

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"texttax/loadtest"
	"texttax/loadtest/study"
)

// A Difference is how a figure of one report stands to the same of another.
type Difference struct {
	Name      string
	Rate      bool // of calls a second; else of seconds
	A, B      float64
	Ratio     float64 // B/A, of the medians
	Low, High float64 // between which the ratio is with 95 % confidence; both 0 where there are too few samples to say
}

// Differs tells whether the ratio is not 1, with 95 % confidence.
func (d Difference) Differs() bool { return d.Low > 1 || d.High < 1 && d.High > 0 }

// fewest samples that an interval can be told from.
const fewest = 3

// Compare compares all figures that both reports have. The intervals are by
// the bootstrap: medians of samples drawn again, from fixed seeds, so that the
// same reports give the same intervals.
func Compare(a, b *Report) []Difference {
	var all []Difference
	others := b.Samples()
	for _, x := range a.Samples() {
		i := slices.IndexFunc(others, func(y Sample) bool { return y.Name == x.Name })
		if i < 0 {
			continue
		}
		y := others[i]
		d := Difference{Name: x.Name, Rate: x.Rate, A: study.Median(x.Values), B: study.Median(y.Values)}
		d.Ratio = d.B / d.A
		if len(x.Values) >= fewest && len(y.Values) >= fewest {
			d.Low, d.High = interval(x.Values, y.Values)
		}
		all = append(all, d)
	}
	return all
}

// interval returns the 2.5 % and 97.5 % quantiles of the ratio of medians.
func interval(a, b []float64) (low, high float64) {
	const draws = 2000
	random := rand.New(rand.NewPCG(1, 2))
	again := func(from, to []float64) float64 {
		for i := range to {
			to[i] = from[random.IntN(len(from))]
		}
		return study.Median(to)
	}
	ratios := make([]float64, draws)
	roomA, roomB := make([]float64, len(a)), make([]float64, len(b))
	for i := range ratios {
		ratios[i] = again(b, roomB) / again(a, roomA)
	}
	slices.Sort(ratios)
	return ratios[draws/40], ratios[draws-1-draws/40]
}

// WriteDifferences writes a comparison for people to read.
func WriteDifferences(out io.Writer, a, b *Report) error {
	all := Compare(a, b)
	if len(all) == 0 {
		return fmt.Errorf("the reports have no figure in common")
	}
	for _, r := range []struct {
		name string
		*Report
	}{{"A", a}, {"B", b}} {
		if _, err := fmt.Fprintf(out, "%s: %s\n", r.name, r.Manifest); err != nil {
			return err
		}
		if r.Error != "" {
			fmt.Fprintf(out, "   NOT complete: %s\n", r.Error)
		}
	}
	fmt.Fprintln(out)
	rows := [][]string{{"", "A", "B", "B/A", "95 % confidence", ""}}
	differ := 0
	for _, d := range all {
		write := loadtest.Seconds
		if d.Rate {
			write = func(v float64) string { return fmt.Sprintf("%.1f/s", v) }
		}
		between, verdict := "too few samples", ""
		if d.High > 0 {
			between, verdict = fmt.Sprintf("%.2f to %.2f", d.Low, d.High), "the same"
		}
		if d.Differs() {
			verdict = "differs"
			differ++
		}
		rows = append(rows, []string{d.Name, write(d.A), write(d.B), fmt.Sprintf("%.2f", d.Ratio), between, verdict})
	}
	if err := loadtest.WriteColumns(out, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%d of %d figures differ. By chance alone one in twenty would.\n", differ, len(all))
	return err
}
