package kernel

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestExpand(t *testing.T) {
	const top = math.MaxInt64
	for _, tc := range []struct {
		n    int64
		want Params
	}{
		{2, Params{1, 2, 1, 1, 1, 1}},
		{3, Params{1, 3, 2, 1, 1, 1}},
		{4, Params{2, 4, 2, 1, 1, 2}},
		{5, Params{2, 5, 2, 1, 1, 2}},
		{6, Params{3, 6, 2, 1, 2, 3}},
		{7, Params{3, 7, 3, 1, 2, 3}},
		{8, Params{4, 8, 3, 1, 2, 4}},
		{10, Params{5, 10, 3, 2, 3, 5}},
		{11, Params{5, 11, 3, 2, 3, 5}},
		{200, Params{100, 200, 14, 33, 50, 100}},
		{1 << 62, Params{1 << 61, 1 << 62, 1 << 31, 768614336404564651, 1 << 60, 1 << 61}},
		{top, Params{top / 2, top, 3037000500, 1537228672809129301, 1 << 61, top / 2}},
	} {
		t.Run(fmt.Sprint(tc.n), func(t *testing.T) {
			if got := Expand(tc.n); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestExpandGivesTheGoldenWindows(t *testing.T) {
	for _, combo := range goldenGrid(t) {
		if got := Expand(combo.Length); got != combo.Windows {
			t.Errorf("length %d: got %v, want %v", combo.Length, got, combo.Windows)
		}
	}
}

func TestExpandRefusesLengthsBelow2(t *testing.T) {
	for _, n := range []int64{1, 0, -1, math.MinInt64} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("length %d: no panic", n)
				}
			}()
			Expand(n)
		}()
	}
}

// bigRoundSqrt rounds the square root of n by way of that of 4n: the root is
// at least s+1/2 exactly if that of 4n is at least 2s+1.
func bigRoundSqrt(n int64) int64 {
	root := new(big.Int).Sqrt(new(big.Int).Lsh(big.NewInt(n), 2))
	return root.Add(root, big.NewInt(1)).Rsh(root, 1).Int64()
}

func TestRoundSqrt(t *testing.T) {
	check := func(n int64) {
		t.Helper()
		if got, want := roundSqrt(n), bigRoundSqrt(n); n > 0 && got != want {
			t.Errorf("of %d: got %d, want %d", n, got, want)
		}
	}
	for n := range int64(20_000) {
		check(n + 1)
	}
	const largest = 3037000499 // whose square is below 2^63
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range int64(20_000) {
		s := 1 + rnd.Int64N(largest-1)
		if i < 1_000 {
			s = largest - i
		}
		for d := int64(-2); d <= 2; d++ {
			check(s*s + d) // around a square
			if s < largest {
				check(s*s + s + d) // around where the rounding turns
			}
		}
		check(math.MaxInt64 - i)
		check(1 + rnd.Int64N(math.MaxInt64))
	}
}

func TestWindowsBelow1AreNamed(t *testing.T) {
	for w, name := range WindowNames {
		for _, value := range []int64{0, -1, math.MinInt64} {
			t.Run(fmt.Sprintf("%s=%d", name, value), func(t *testing.T) {
				combos := []Params{Expand(6), Expand(6)}
				combos[1][w] = value
				out := Results{PnL: []float64{42}}
				err := Sweep(t.Context(), []float64{1, 2, 3}, combos, 0, 1, &out)
				var got *WindowError
				if !errors.As(err, &got) || *got != (WindowError{Combo: 1, Window: w, Value: value}) {
					t.Fatalf("error %v, want a *WindowError of combo 1, window %d, value %d", err, w, value)
				}
				if want := fmt.Sprintf("combo 1: %s must be at least 1, not %d", name, value); err.Error() != want {
					t.Errorf("error %q, want %q", err, want)
				}
				if len(out.PnL) != 1 || out.PnL[0] != 42 {
					t.Errorf("the results were touched: %v", out.PnL)
				}
			})
		}
	}
}

func TestTheFirstWrongWindowIsTheOneNamed(t *testing.T) {
	err := CheckParams([]Params{{1, 1, 1, 1, 1, 1}, {1, 1, 0, -5, 1, 1}, {0, 0, 0, 0, 0, 0}})
	if got, ok := err.(*WindowError); !ok || *got != (WindowError{1, HMASmooth, 0}) {
		t.Errorf("error %v, want combo 1, hma_smooth, 0", err)
	}
}
