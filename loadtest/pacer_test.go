package loadtest

import (
	"math"
	"testing"
	"time"
)

func TestConstantPaceDoesNotDrift(t *testing.T) {
	for _, test := range []struct {
		rate float64
		n    int64
		want time.Duration
	}{
		{1, 0, 0}, {1, 1, time.Second}, {5000, 1, 200 * time.Microsecond}, {5000, 50_000, 10 * time.Second},
		{3, 1, 333_333_333}, {3, 3_000_000, 1_000_000 * time.Second}, {0.5, 2, 4 * time.Second},
	} {
		if got := Constant(test.rate).Next(test.n, time.Hour); got != test.want {
			t.Errorf("call %d at %v/s begins at %v, not %v", test.n, test.rate, got, test.want)
		}
	}
}

// Exponential gaps of mean m are longer than m in a share of 1/e, and have a
// standard deviation of m.
func TestPoissonPaceHasExponentialGaps(t *testing.T) {
	const calls, rate = 200_000, 1000.0
	for seed := range uint64(3) {
		p := Poisson{Rate: rate, Seed: seed}
		previous, long, squares := time.Duration(0), 0, 0.0
		for n := range int64(calls) {
			at := p.Next(n, previous)
			gap := (at - previous).Seconds() * rate
			if gap > 1 {
				long++
			}
			squares += (gap - 1) * (gap - 1)
			previous = at
		}
		if mean := previous.Seconds() * rate / calls; math.Abs(mean-1) > 0.01 {
			t.Errorf("seed %d: the mean gap is %v of 1/rate", seed, mean)
		}
		if share := float64(long) / calls; math.Abs(share-1/math.E) > 0.005 {
			t.Errorf("seed %d: %v of the gaps are longer than the mean", seed, share)
		}
		if deviation := math.Sqrt(squares / calls); math.Abs(deviation-1) > 0.02 {
			t.Errorf("seed %d: the standard deviation is %v of the mean", seed, deviation)
		}
	}
}

func TestPacesArePure(t *testing.T) {
	p := Poisson{Rate: 10, Seed: 7}
	first := p.Next(3, time.Second)
	p.Next(99, time.Minute)
	if p.Next(3, time.Second) != first {
		t.Error("the same call begins at another time")
	}
	if first == p.Next(4, time.Second) || first == (Poisson{Rate: 10, Seed: 8}).Next(3, time.Second) {
		t.Error("other calls, or other seeds, have the same gap")
	}
}
