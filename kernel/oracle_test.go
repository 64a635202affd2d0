package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// The oracle is a second implementation of the package comment, written
// against its formulas and sharing nothing with the kernel: a series is a
// function of the bar, an average is a recurrence over partial sums, and the
// trades are read off the list of changes of side.

type oracleSeries func(bar int) float64

// times is a product that no compiler can fuse with what is done to it.
//
//go:noinline
func times(a, b float64) float64 { return a * b }

func oracleWMA(x oracleSeries, p int64) oracleSeries {
	var weights float64
	return remember(func(bar int) float64 {
		if int64(bar) < p-1 {
			return math.NaN()
		}
		first := bar - int(p) + 1
		var partial func(terms int) float64
		partial = func(terms int) float64 {
			if terms == 0 {
				return 0
			}
			return partial(terms-1) + times(x(first+terms-1), float64(terms))
		}
		if weights == 0 {
			for w := range p {
				weights += float64(w + 1)
			}
		}
		return partial(int(p)) / weights
	})
}

func remember(x oracleSeries) oracleSeries {
	known := map[int]float64{}
	return func(bar int) float64 {
		v, ok := known[bar]
		if !ok {
			v = x(bar)
			known[bar] = v
		}
		return v
	}
}

// An oracleFlip is a bar at which a position of a new side is entered.
type oracleFlip struct {
	bar  int
	side float64
}

func oracleFlips(closes []float64, p Params) []oracleFlip {
	price := func(bar int) float64 { return closes[bar] }
	half, full := oracleWMA(price, p[0]), oracleWMA(price, p[1])
	hma := oracleWMA(func(bar int) float64 { return times(2, half(bar)) - full(bar) }, p[2])
	third, half3, full3 := oracleWMA(price, p[3]), oracleWMA(price, p[4]), oracleWMA(price, p[5])
	hma3 := oracleWMA(func(bar int) float64 { return (times(3, third(bar)) - half3(bar)) - full3(bar) }, p[5])

	flips := []oracleFlip{{-1, 0}}
	for bar := range closes {
		a, b := hma(bar), hma3(bar)
		if math.IsNaN(a) || math.IsNaN(b) || a == b {
			continue
		}
		side := 1.0
		if a > b {
			side = -1
		}
		if side != flips[len(flips)-1].side {
			flips = append(flips, oracleFlip{bar, side})
		}
	}
	return flips[1:]
}

func oracleSweep(closes []float64, combos []Params, fee float64) *Results {
	out := &Results{}
	for _, p := range combos {
		flips := oracleFlips(closes, p)
		pnl := 0.0
		for i := 1; i < len(flips); i++ {
			entered, left := flips[i-1], flips[i]
			gain := times(times(entered.side, closes[left.bar]/closes[entered.bar]-1), 100)
			pnl = pnl + (gain - times(fee, 100))
		}
		open := int8(0)
		if len(flips) > 0 {
			open = int8(flips[len(flips)-1].side)
		}
		out.PnL = append(out.PnL, pnl)
		out.Trades = append(out.Trades, int64(max(0, len(flips)-1)))
		out.Open = append(out.Open, open)
	}
	return out
}

// oracleCloses lets each byte of the shape add a stretch to a series: the
// upper three bits say of what kind, the lower five how long or how large.
func oracleCloses(seed uint64, shape []byte) []float64 {
	const most = 400 // bars; the oracle is slow
	rnd := rand.New(rand.NewPCG(seed, 0))
	last, closes := 100.0, []float64(nil)
	add := func(v float64) { closes = append(closes, v) }
	for _, b := range shape {
		if len(closes) >= most {
			break
		}
		k := int(b & 31)
		switch b >> 5 {
		case 0: // ticks: many ties
			last += 0.25 * float64(k-16)
			add(last)
		case 1: // flat
			for range k + 1 {
				add(last)
			}
		case 2, 3: // a random walk
			for range k + 1 {
				last *= math.Exp(0.0008 * rnd.NormFloat64())
				add(last)
			}
		case 4: // one spike, as far as overflow
			add(last * math.Pow(10, float64(10*k-150)))
		case 5: // a different magnitude from here on
			last *= math.Pow(10, float64(k-16))
			add(last)
		case 6: // again what was there k bars ago
			if k < len(closes) {
				last = closes[len(closes)-1-k]
			}
			add(last)
		case 7: // no price at all
			add([]float64{nan, inf, -inf, 0, math.Copysign(0, -1), -last, 0x1p-1074, math.MaxFloat64}[k%8])
		}
	}
	return closes[:min(len(closes), most)]
}

// oracleCombos reads one window from each byte; the highest bytes stand for
// the interesting lengths around and beyond n bars.
func oracleCombos(windows []byte, n int) []Params {
	special := []int64{int64(n - 1), int64(n), int64(n + 1), 1 << 31, 1 << 62, math.MaxInt64}
	combos := make([]Params, min(len(windows)/6, 4))
	for c := range combos {
		for w := range combos[c] {
			b := int(windows[6*c+w])
			v := int64(b%40 + 1)
			if from := 256 - len(special); b >= from {
				v = special[b-from]
			}
			combos[c][w] = max(1, v)
		}
	}
	return combos
}

func FuzzSweepAgainstOracle(f *testing.F) {
	f.Add(uint64(1), []byte{95, 127, 63, 95, 127}, []byte{2, 5, 1, 0, 1, 2}, DefaultFee)
	f.Fuzz(func(t *testing.T, seed uint64, shape, windows []byte, fee float64) {
		closes := oracleCloses(seed, shape)
		combos := oracleCombos(windows, len(closes))
		var got Results
		if err := Sweep(t.Context(), closes, combos, fee, int(seed%3), &got); err != nil {
			t.Fatal(err)
		}
		wantSame(t, &got, oracleSweep(closes, combos, fee))
	})
}

// The fuzzer's inputs are small. This walks the same generator at random, a
// little on every run of the tests.
func TestSweepEqualsTheOracleOnRandomSeries(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	random := func(n int) []byte {
		b := binary.LittleEndian.AppendUint64(nil, rnd.Uint64())
		for len(b) < n {
			b = binary.LittleEndian.AppendUint64(b, rnd.Uint64())
		}
		return b[:n]
	}
	for range 100 {
		closes := oracleCloses(rnd.Uint64(), random(5+rnd.IntN(30)))
		combos := oracleCombos(random(24), len(closes))
		wantSame(t, sweep1(t, closes, combos, DefaultFee), oracleSweep(closes, combos, DefaultFee))
	}
}
