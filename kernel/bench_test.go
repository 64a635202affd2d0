package kernel

import (
	"fmt"
	"strings"
	"testing"

	"texttax/kernel/gbm42"
)

// BenchmarkSweep runs every implementation on series of every kind, with few
// and with many combos of the golden grid, on one worker and on two. The
// reference runs only the whole grid over gbm42.
func BenchmarkSweep(b *testing.B) {
	grid := combosOf(goldenGrid(b))
	series := adversarial(gbm42.Bars)
	series["gbm42"] = gbm42.Close()
	run := func(name, kernel string, impl *implementation, combos, workers int) {
		b.Run(fmt.Sprintf("series=%s/kernel=%s/combos=%d/workers=%d", strings.ReplaceAll(name, " ", "-"), kernel, combos, workers), func(b *testing.B) {
			var some []Params
			for i := range combos {
				some = append(some, grid[i*len(grid)/combos])
			}
			for b.Loop() {
				sweepBy(b, impl, series[name], some, DefaultFee, workers)
			}
			barCombos := float64(b.N) * float64(gbm42.Bars) * float64(combos)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/barCombos, "ns/bar-combo")
		})
	}
	run("gbm42", "reference", nil, len(grid), 1)
	run("gbm42", "reference", nil, len(grid), 2)
	for _, name := range []string{"gbm42", "constant", "ticks with flats", "1e6 with noise of 1e-3", "1e6 with noise of 1e-9", "huge range", "spikes of 1e150", "scattered NaN"} {
		for _, impl := range implementations {
			for _, combos := range []int{1, 4, len(grid)} {
				for _, workers := range []int{1, 2} {
					run(name, impl.name, impl, combos, workers)
				}
			}
		}
	}
}
