package kernel

import (
	"fmt"
	"testing"

	"texttax/kernel/gbm42"
)

// BenchmarkSweepReference runs the golden grid: 80 combos, 150,000 bars.
func BenchmarkSweepReference(b *testing.B) {
	combos := combosOf(goldenGrid(b))
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			closes := gbm42.Close()
			var out Results
			for b.Loop() {
				if err := Sweep(b.Context(), closes, combos, DefaultFee, workers, &out); err != nil {
					b.Fatal(err)
				}
			}
			barCombos := float64(b.N) * float64(len(closes)) * float64(len(combos))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/barCombos, "ns/bar-combo")
		})
	}
}
