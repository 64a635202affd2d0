package kernel

import (
	"fmt"
	"strings"
	"testing"

	"texttax/kernel/gbm42"
)

// BenchmarkSweep runs every variant on series of every kind, with few and with
// many combos of the golden grid, on one worker and on two. The references run
// only the whole grid over gbm42.
func BenchmarkSweep(b *testing.B) {
	grid := combosOf(goldenGrid(b))
	series := adversarial(gbm42.Bars)
	series["gbm42"] = gbm42.Close()
	run := func(name string, v Variant, combos, workers int) {
		b.Run(fmt.Sprintf("series=%s/kernel=%s/combos=%d/workers=%d", strings.ReplaceAll(name, " ", "-"), v.Name(), combos, workers), func(b *testing.B) {
			var some []Params
			for i := range combos {
				some = append(some, grid[i*len(grid)/combos])
			}
			for b.Loop() {
				sweepBy(b, v, series[name], some, DefaultFee, workers)
			}
			barCombos := float64(b.N) * float64(gbm42.Bars) * float64(combos)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/barCombos, "ns/bar-combo")
		})
	}
	for _, v := range Variants()[:2] {
		run("gbm42", v, len(grid), 1)
		run("gbm42", v, len(grid), 2)
	}
	for _, name := range []string{"gbm42", "constant", "ticks with flats", "1e6 with noise of 1e-3", "1e6 with noise of 1e-9", "huge range", "spikes of 1e150", "scattered NaN"} {
		for _, v := range Variants()[2:] {
			for _, combos := range []int{1, 4, len(grid)} {
				for _, workers := range []int{1, 2} {
					run(name, v, combos, workers)
				}
			}
		}
	}
}
