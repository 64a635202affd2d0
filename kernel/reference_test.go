package kernel

import (
	"context"
	"math"
	"slices"
	"testing"

	"texttax/kernel/gbm42"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

var averagers = map[string]averager{"checked": wma, "unchecked": wmaUnchecked}

func wmaOf(wma averager, x []float64, p int64) []float64 {
	dst := make([]float64, len(x))
	wma(dst, x, p, &meter{sweep: &sweep{ctx: context.Background()}})
	return dst
}

func TestWMA(t *testing.T) {
	half := 0x1p-53 // half an ulp of 1: lost when added to 1, kept in a sum of its own
	for _, tc := range []struct {
		name string
		p    int64
		x    []float64
		want []float64
	}{
		{"of nothing", 3, nil, nil},
		{"over 1 bar is the series", 1, []float64{5, -7, 0.1}, []float64{5, -7, 0.1}},
		{"weighs the last bar most", 3, []float64{6, 12, 18, 0}, []float64{nan, nan, (6*1 + 12*2 + 18*3) / 6.0, (12*1 + 18*2) / 6.0}},
		{"of a line lags by a third of the span", 4, []float64{1, 2, 3, 4, 5}, []float64{nan, nan, nan, 3, 4}},
		{"over the whole series", 2, []float64{3, 9}, []float64{nan, 7}},
		{"over one bar more than there is", 3, []float64{3, 9}, []float64{nan, nan}},
		{"over 2^31 bars", 1 << 31, []float64{3, 9}, []float64{nan, nan}},
		{"over MaxInt64 bars", math.MaxInt64, []float64{3, 9}, []float64{nan, nan}},
		{"recovers once a NaN has left the window", 2, []float64{3, nan, 3, 9, 3}, []float64{nan, nan, nan, 7, 5}},
		{"recovers once an infinity has left the window", 2, []float64{inf, 3, 9, -inf, 3, 9}, []float64{nan, inf, 7, -inf, -inf, 7}},
		{"of both infinities is NaN", 2, []float64{inf, -inf, 3}, []float64{nan, nan, -inf}},
		{"starts from +0", 1, []float64{math.Copysign(0, -1)}, []float64{0}},
		{"adds from the left: small first survives", 3, []float64{2 * half, half, 1}, []float64{nan, nan, (3 + 4*half) / 6}},
		{"adds from the left: small last is lost", 3, []float64{6, half, half}, []float64{nan, nan, 1}},
		// 1/3*3 rounds to 1. Fused with the addition of -1, it would be -2^-54 short of it.
		{"rounds each product", 3, []float64{-1, 0, 1.0 / 3}, []float64{nan, nan, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for name, wma := range averagers {
				if got := wmaOf(wma, tc.x, tc.p); !slices.EqualFunc(got, tc.want, sameBits) {
					t.Errorf("%s: got %v, want %v", name, got, tc.want)
				}
			}
		})
	}
}

func TestWMARefillsEveryElement(t *testing.T) {
	dst := []float64{1, 2, 3, 4}
	wma(dst, []float64{1, 1, 1, 1}, 3, &meter{sweep: &sweep{ctx: context.Background()}})
	if want := []float64{nan, nan, 1, 1}; !slices.EqualFunc(dst, want, sameBits) {
		t.Errorf("got %v, want %v", dst, want)
	}
}

// A window longer than the poll interval is summed in pieces; the sum must not
// show the seams.
func TestWMAOverMoreBarsThanAPollInterval(t *testing.T) {
	const p = 2*pollEvery + 3
	x := make([]float64, p+1)
	for i := range x {
		x[i] = gbm42.Close()[i%gbm42.Bars]
	}
	for name, wma := range averagers {
		got := wmaOf(wma, x, p)
		for last := p - 1; last < len(x); last++ {
			sum := 0.0
			for j := range p {
				sum += float64(x[last-p+1+j] * float64(j+1))
			}
			if want := sum / (p * (p + 1) / 2); !sameBits(got[last], want) {
				t.Errorf("%s, bar %d: %v, want %v", name, last, got[last], want)
			}
		}
	}
}

// hand is a combo whose averages are easy to follow: with all windows 1, HMA
// is the close itself, and so is HMA3; a longer hma_smooth makes HMA lag.
var hand = Params{HMAHalf: 1, HMAFull: 1, HMASmooth: 2, HMA3Third: 1, HMA3Half: 1, HMA3Full: 1}

func TestTrades(t *testing.T) {
	for _, tc := range []struct {
		name   string
		p      Params
		closes []float64
		fee    float64
		want   outcome
	}{
		{"none on an empty series", hand, nil, 0, outcome{}},
		{"none on one bar", hand, []float64{1}, 0, outcome{}},
		{"none while the averages are equal", Params{1, 1, 1, 1, 1, 1}, []float64{1, 2, 1, 2}, 0, outcome{}},
		{"a position left open is reported, not counted", hand, []float64{1, 2, 4}, 0, outcome{0, 0, +1}},
		{"a short position left open", hand, []float64{4, 2, 1}, 0, outcome{0, 0, -1}},
		{"a long trade, then short", hand, []float64{1, 2, 4, 3}, 0, outcome{50, 1, -1}},
		{"a short trade, then long", hand, []float64{8, 4, 2, 3}, 0, outcome{25, 1, +1}},
		{"every trade pays the fee, the open position does not", hand, []float64{1, 2, 4, 3, 6}, 0.5, outcome{-150, 2, +1}},
		{"equal averages keep the side", hand, []float64{1, 2, 2, 2, 4}, 0, outcome{0, 0, +1}},
		{"a NaN keeps the side", hand, []float64{1, 2, nan, 4, 8, 6}, 0, outcome{200, 1, -1}},
		{"an infinity makes HMA NaN and keeps the side", hand, []float64{1, 2, inf, 4, 8, 6}, 0, outcome{200, 1, -1}},
		{"a negative infinity, too", hand, []float64{1, 2, -inf, 4, 8, 6}, 0, outcome{200, 1, -1}},
		{"an entry at 0 is divided by as floats are", hand, []float64{-1, 0, 1, -1}, 0, outcome{-inf, 1, -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := sweep1(t, tc.closes, []Params{tc.p}, tc.fee)
			wantSame(t, out, &Results{[]float64{tc.want.pnl}, []int64{tc.want.trades}, []int8{tc.want.open}})
		})
	}
}

func TestWindowsAroundTheSeriesLength(t *testing.T) {
	closes := gbm42.Close()[:300]
	n := int64(len(closes))
	for _, tc := range []struct {
		name   string
		window int64
		never  bool // whether a combo with one such window cannot trade
	}{
		{"1", 1, false},
		{"n", n, false},
		{"n+1", n + 1, true},
		{"2^31", 1 << 31, true},
		{"MaxInt64", math.MaxInt64, true},
	} {
		for w, name := range WindowNames {
			t.Run(name+"="+tc.name, func(t *testing.T) {
				p := Params{1, 1, 2, 1, 1, 1}
				p[w] = tc.window
				got := sweep1(t, closes, []Params{p}, DefaultFee)
				wantSame(t, got, oracleSweep(closes, []Params{p}, DefaultFee))
				if tc.never && (got.PnL[0] != 0 || got.Trades[0] != 0 || got.Open[0] != 0) {
					t.Errorf("pnl %v, %d trades, open %d; want none", got.PnL[0], got.Trades[0], got.Open[0])
				}
			})
		}
	}
}

// Sums that are carried from bar to bar never recover from a spike. These
// must: every average depends on the bars of its windows and on nothing else.
func TestASpikeIsForgottenOnceItHasLeftTheWindows(t *testing.T) {
	closes := slices.Clone(gbm42.Close())
	closes[100_000] *= 1e9
	const tail = 2_000
	p := Expand(200)
	reach := int(p[HMAFull]+p[HMASmooth]) - 2 // how many bars before its own a side depends on
	slice := closes[len(closes)-tail-reach:]

	t.Run("averages", func(t *testing.T) {
		for _, window := range p {
			whole, part := wmaOf(wma, closes, window), wmaOf(wma, slice, window)
			if !slices.EqualFunc(whole[len(whole)-tail:], part[len(part)-tail:], sameBits) {
				t.Errorf("window %d: the tail depends on what came before it", window)
			}
		}
	})
	t.Run("trades", func(t *testing.T) {
		run := func(series []float64) outcome {
			out := sweep1(t, series, []Params{p}, 0)
			return outcome{out.PnL[0], out.Trades[0], out.Open[0]}
		}
		head, whole, part := run(closes[:len(closes)-tail]), run(closes), run(slice)
		want := part.trades
		if first := run(slice[:reach+1]).open; first != head.open {
			want++ // where the slice enters its first position, the whole changes sides
		}
		if got := whole.trades - head.trades; got != want || whole.open != part.open {
			t.Errorf("%d trades in the tail, then open %d; want %d and %d as in the tail alone", got, whole.open, want, part.open)
		}
	})
}
