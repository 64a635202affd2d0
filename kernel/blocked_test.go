package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"texttax/kernel/gbm42"
)

// reference is the variant that all others must agree with.
var reference = Variants()[0]

// sweepBy runs a sweep by a variant.
func sweepBy(t testing.TB, v Variant, closes []float64, combos []Params, fee float64, workers int) *Results {
	t.Helper()
	var out Results
	out.Resize(len(combos))
	s := takeSweep(t.Context(), closes, combos, fee, &out)
	s.run(v, workers)
	if p := s.panicked.Load(); p != nil {
		t.Fatal(p)
	}
	s.giveBack()
	return &out
}

// wantReference checks every implementation against the reference, on one
// worker and on two.
func wantReference(t *testing.T, closes []float64, combos []Params, fee float64) {
	t.Helper()
	want := sweepBy(t, reference, closes, combos, fee, 0)
	for _, impl := range implementations {
		for workers := 1; workers <= 2; workers++ {
			got := sweepBy(t, filteredBy(impl), closes, combos, fee, workers)
			for c := range combos {
				if !sameBits(got.PnL[c], want.PnL[c]) || got.Trades[c] != want.Trades[c] || got.Open[c] != want.Open[c] {
					t.Fatalf("%s, %d workers, %d bars, combo %v: pnl %v on %d trades, open %d; the reference has %v on %d, %d", impl.name, workers, len(closes), combos[c],
						got.PnL[c], got.Trades[c], got.Open[c], want.PnL[c], want.Trades[c], want.Open[c])
				}
			}
		}
	}
}

func TestCIHasEveryImplementation(t *testing.T) {
	var names []string
	for _, impl := range implementations {
		names = append(names, impl.name)
	}
	t.Logf("implementations: %s; in use: %s", strings.Join(names, ", "), Implementation)
	if os.Getenv("CI") != "" && assemblyBuilt && len(names) < 3 {
		t.Errorf("this machine has only %q: the others are not tested", names)
	}
}

// adversarial are series that are hard on the filter: its value is zero or
// drowned in rounding, or nothing is finite.
func adversarial(n int) map[string][]float64 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	make1 := func(f func(i int) float64) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = f(i)
		}
		return s
	}
	level := 100.0
	tick := func(i int) float64 {
		if i%50 < 12 {
			level = max(1, level+0.01*float64(r.IntN(3)-1))
		}
		return level
	}
	walk := 100.0
	step := func(int) float64 { walk *= math.Exp(r.NormFloat64() * 0.0008); return walk }
	sometimes := func(every int, v float64, f func(int) float64) func(int) float64 {
		return func(i int) float64 {
			if r.IntN(every) == 0 {
				return v
			}
			return f(i)
		}
	}
	return map[string][]float64{
		"random walk":            make1(step),
		"constant":               make1(func(int) float64 { return 100.1 }),
		"ticks with flats":       make1(tick),
		"1e6 with noise of 1e-3": make1(func(int) float64 { return 1e6 + 1e-3*r.NormFloat64() }),
		"1e6 with noise of 1e-9": make1(func(int) float64 { return 1e6 + 1e-9*r.NormFloat64() }),
		"huge range":             make1(func(int) float64 { return math.Exp(40 * r.NormFloat64()) }),
		"range beyond all":       make1(func(int) float64 { return math.Exp(300 * r.NormFloat64()) }),
		"spikes of 1e150":        make1(sometimes(300, 1e150, step)),
		"spikes of 1e9":          make1(sometimes(1000, 1e9, step)),
		"scattered NaN":          make1(sometimes(700, math.NaN(), step)),
		"scattered infinities":   make1(sometimes(700, math.Inf(1), step)),
		"NaN and infinities":     make1(sometimes(900, math.Inf(-1), sometimes(900, math.NaN(), step))),
		"rising line":            make1(func(i int) float64 { return 100 + 0.5*float64(i) }),
		"falling line":           make1(func(i int) float64 { return 1e6 - 0.25*float64(i) }),
		"zigzag":                 make1(func(i int) float64 { return 100 + float64(i%2) }),
		"two levels, long":       make1(func(i int) float64 { return 100 + float64(i/300%2) }),
		"denormal":               make1(func(int) float64 { return float64(1+r.IntN(1000)) * 5e-324 }),
		"near the largest":       make1(func(int) float64 { return math.MaxFloat64 * (0.5 + r.Float64()/2) }),
		"near the huge limit":    make1(func(int) float64 { return hugeClose * (0.9 + 0.2*r.Float64()) }),
		"zeros and negatives":    make1(func(int) float64 { return float64(r.IntN(3) - 1) }),
		"quadratic":              make1(func(i int) float64 { return 1 + 1e-6*float64(i)*float64(i) }),
		"one NaN at the end": make1(func(i int) float64 {
			return map[bool]float64{true: math.NaN(), false: 100 + math.Sin(float64(i))}[i == n-1]
		}),
		"flat, then a random walk": make1(func(i int) float64 {
			if i < n/2 {
				return 100
			}
			return step(i)
		}),
	}
}

// manyCombos is a grid with every kind of window: equal, of 1, of a tile's
// length and more, longer than the series, and beyond the filters.
func manyCombos(n int) []Params {
	combos := []Params{
		{1, 1, 1, 1, 1, 1}, {2, 7, 3, 1, 4, 9}, {30, 10, 5, 9, 3, 2}, {1, 200, 1, 1, 1, 200}, {5, 5, 5, 5, 5, 5},
		{200, 1, 1, 200, 100, 1}, {64, 64, 64, 64, 64, 64}, {63, 65, 8, 31, 32, 33}, {1, 2, 300, 1, 2, 3}, {511, 512, 513, 2, 3, 4},
		{int64(n), int64(n), 1, 1, 1, 1}, {1, 1, 1, int64(n), 1, 1}, {int64(n) + 1, 2, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1 << 31}, {1 << 31, 1, 1, 1, 1, 1}, {1, 1, math.MaxInt64, 1, 1, 1},
		{maxLag, 1, 1, 1, 1, 1}, {maxLag - 3, 1, 1, 1, 1, 1}, {maxLag - 2, 1, 1, 1, 1, 1},
	}
	for _, length := range []int64{2, 3, 6, 8, 13, 50, 99, 200, 400} {
		combos = append(combos, Expand(length))
	}
	return combos
}

func TestEveryImplementationIsTheReferenceOnAdversarialSeries(t *testing.T) {
	for name, closes := range adversarial(3 * tileBars) {
		t.Run(name, func(t *testing.T) { wantReference(t, closes, manyCombos(len(closes)), DefaultFee) })
	}
}

func TestEveryImplementationIsTheReferenceAtEveryLength(t *testing.T) {
	closes := gbm42.Close()
	combos := []Params{Expand(6), Expand(50), {64, 100, 9, 20, 33, 50}}
	for _, around := range []int{0, fewBars, tileBars, 2 * tileBars, tileBars + laneBars, chunkTiles * tileBars} {
		for n := max(0, around-10); n <= around+10; n++ {
			wantReference(t, closes[:n], combos, DefaultFee)
		}
	}
}

func TestEveryVariantGivesTheGoldenGrid(t *testing.T) {
	for _, v := range Variants() {
		t.Run(v.Name(), func(t *testing.T) {
			grid := goldenGrid(t)
			if v.inner == nil { // or it would take seconds, and minutes under the race detector
				grid = []goldenCombo{grid[0], grid[len(grid)/2], grid[len(grid)-1]}
			}
			var got Results
			if err := (Sweeper{Variant: v}).Sweep(t.Context(), gbm42.Close(), combosOf(grid), DefaultFee, &got); err != nil {
				t.Fatal(err)
			}
			for i, want := range grid {
				if math.Float64bits(got.PnL[i]) != math.Float64bits(want.PnL) || got.Trades[i] != want.Trades {
					t.Errorf("length %d: pnl %v on %d trades, numba has %v on %d", want.Length, got.PnL[i], got.Trades[i], want.PnL, want.Trades)
				}
			}
		})
	}
}

func TestTheZeroVariantIsTheFastest(t *testing.T) {
	all := Variants()
	if got, want := (Variant{}).Name(), all[len(all)-1].Name(); got != want || got != Implementation {
		t.Errorf("it is %s; the last is %s, and in use is %s", got, want, Implementation)
	}
}

// Its bars are those of a window's seam, and of series that are no longer than
// the window.
func TestTheUncheckedReferenceIsTheReference(t *testing.T) {
	unchecked := Variants()[1]
	check := func(t *testing.T, closes []float64, combos ...Params) {
		t.Helper()
		wantSame(t, sweepBy(t, unchecked, closes, combos, DefaultFee, 2), sweepBy(t, reference, closes, combos, DefaultFee, 2))
	}
	for name, closes := range adversarial(700) {
		t.Run(name, func(t *testing.T) {
			for n := range 40 {
				check(t, closes[:n], Expand(6), Expand(20), Params{1, 1, 1, 1, 1, 1}, Params{40, 39, 38, 37, 1, math.MaxInt64})
			}
			check(t, closes, Expand(6), Expand(200), Params{700, 699, 1, 2, 3, 4})
		})
	}
}

func TestNothingDependsOnAlignmentOrOnWhatLiesAround(t *testing.T) {
	const n = 2000
	combos := []Params{Expand(6), Expand(200), {30, 10, 5, 9, 3, 2}}
	want := sweepBy(t, reference, gbm42.Close()[:n], combos, DefaultFee, 1)
	for shift := range 8 {
		padded := make([]float64, n+16)
		for i := range padded {
			padded[i] = math.NaN()
		}
		closes := padded[shift : shift+n]
		copy(closes, gbm42.Close())
		before := slices.Clone(padded)
		for _, impl := range implementations {
			t.Run(fmt.Sprint(impl.name, " at ", shift), func(t *testing.T) {
				wantSame(t, sweepBy(t, filteredBy(impl), closes, combos, DefaultFee, 1), want)
			})
		}
		if !slices.EqualFunc(padded, before, sameBits) {
			t.Errorf("shift %d: the input has changed", shift)
		}
	}
}

// So many combos make chunks short, so that filters rest until a chunk ends, and
// try again in the next.
func TestAHostileStretchInTheMiddleChangesNothing(t *testing.T) {
	closes := slices.Clone(gbm42.Close()[:40*tileBars])
	for i := 7 * tileBars; i < 30*tileBars; i++ {
		closes[i] = 100.5
	}
	combos := slices.Repeat([]Params{{2, 7, 3, 1, 4, 9}, {3, 8, 2, 2, 3, 4}}, chunkSides/11/2)
	combos = append(combos, Expand(51))
	wantReference(t, closes, combos, DefaultFee)
	if least := 3 * chunkSides / len(combos); least >= 40 {
		t.Errorf("%d tiles are three chunks", least)
	}
}

// A tile is shared out among the workers if there are few, and a first level
// comes in batches if the windows are many and long.
func TestManyCombosAtFewTilesChangeNothing(t *testing.T) {
	closes := slices.Clone(gbm42.Close()[:5*tileBars])
	for i := 3 * tileBars; i < 4*tileBars; i++ {
		closes[i] = 100.5
	}
	var combos []Params
	for n := int64(2); n < 200; n++ {
		combos = append(combos, Expand(n))
	}
	for n := int64(1); n < 40; n++ {
		combos = append(combos, Params{20 * n, 1000 - 20*n, 7, 900 - 9*n, 11 * n, 30})
	}
	wantReference(t, closes, combos, DefaultFee)
	wantReference(t, closes[:300], combos, DefaultFee)
}

func TestAPooledSweepLetsGoOfTheCallersCombos(t *testing.T) {
	closes := gbm42.Close()[:1000]
	many := slices.Repeat([]Params{Expand(6)}, 100)
	s := takeSweep(t.Context(), closes, append(many, Expand(400)), 0, &Results{PnL: make([]float64, 101), Trades: make([]int64, 101), Open: make([]int8, 101)})
	s.run(filteredBy(best), 1)
	s.filtered.giveBack()
	for i := range cap(s.filtered.chosen) {
		if s.filtered.chosen[:i+1][i].params != nil {
			t.Fatalf("combo %d is still held", i)
		}
	}
	for range 2 * keptCombos {
		many = append(many, Expand(6))
	}
	s = takeSweep(t.Context(), closes[:300], many, 0, &Results{PnL: make([]float64, len(many)), Trades: make([]int64, len(many)), Open: make([]int8, len(many))})
	s.run(filteredBy(best), 1)
	if cap(s.filtered.places) < len(many) {
		t.Fatalf("only %d combos have a filter", cap(s.filtered.places))
	}
	s.filtered.giveBack()
	if cap(s.filtered.places) > keptCombos || cap(s.filtered.chosen) > 2*chunkCombos {
		t.Errorf("%d places and %d combos are kept", cap(s.filtered.places), cap(s.filtered.chosen))
	}
}

// The case that once took longer between two looks at the context than a
// client should wait: a flat series, and windows whose single bars are dear.
func TestALongUncertainSweepAsksTheContextOften(t *testing.T) {
	closes := make([]float64, 8*tileBars)
	for i := range closes {
		closes[i] = 100.1
	}
	combos := slices.Repeat([]Params{{1023, 1023, 1023, 1023, 1023, 1023}}, 16)
	asked := 0
	ctx := probe{t.Context(), func(string) { asked++ }}
	if err := Sweep(ctx, closes, combos, 0, 1, new(Results)); err != nil {
		t.Fatal(err)
	}
	// Each combo does a million multiply-adds in each tile behind bar 2,044.
	if least := len(combos) * 4; asked < least {
		t.Errorf("asked %d times, less than once for each of %d tiles and combos", asked, least)
	}
}

// exactDifference computes HMA3 - HMA at a bar without any rounding.
func exactDifference(closes []float64, p *Params, bar int) *big.Rat {
	wma := func(x func(int) *big.Rat, p, i int) *big.Rat {
		sum := new(big.Rat)
		for j := range p {
			sum.Add(sum, new(big.Rat).Mul(x(i-p+1+j), big.NewRat(int64(j+1), 1)))
		}
		return sum.Quo(sum, big.NewRat(int64(p)*int64(p+1)/2, 1))
	}
	price := func(i int) *big.Rat { return new(big.Rat).SetFloat64(closes[i]) }
	times := func(k int64, r *big.Rat) *big.Rat { return new(big.Rat).Mul(big.NewRat(k, 1), r) }
	hma := wma(func(i int) *big.Rat {
		return new(big.Rat).Sub(times(2, wma(price, int(p[HMAHalf]), i)), wma(price, int(p[HMAFull]), i))
	}, int(p[HMASmooth]), bar)
	hma3 := wma(func(i int) *big.Rat {
		d := new(big.Rat).Sub(times(3, wma(price, int(p[HMA3Third]), i)), wma(price, int(p[HMA3Half]), i))
		return d.Sub(d, wma(price, int(p[HMA3Full]), i))
	}, int(p[HMA3Full]), bar)
	return hma3.Sub(hma3, hma)
}

func TestTheFilterErrsLessThanItsBound(t *testing.T) {
	const n = 2 * tileBars
	r := rand.New(rand.NewPCG(5, 5))
	worst := 0.0
	for name, closes := range adversarial(n) {
		if slices.ContainsFunc(closes, func(v float64) bool { return !(math.Abs(v) < 1e200) }) {
			continue // whose bounds are infinite
		}
		for _, p := range []Params{{1, 1, 1, 1, 1, 1}, Expand(2), Expand(6), {2, 7, 3, 1, 4, 9}, Expand(30), {20, 9, 30, 2, 40, 11}, Expand(80)} {
			f := newSignFilter(&p)
			tl := tile{sums: alignedFloats((f.lag + laneBars) * lanes)}
			tl.build(closes, tileBars, f.lag, implementations[0])
			for range 6 {
				lane, row := r.IntN(lanes), r.IntN(laneBars)
				bar := tileBars + lane*laneBars + row
				got := 0.0
				for _, m := range f.terms[:f.n] {
					got += float64(m.coef * tl.sums[(f.lag+row)*lanes+lane-int(m.back)/8])
				}
				exact, _ := new(big.Rat).Sub(new(big.Rat).SetFloat64(got), exactDifference(closes, &p, bar)).Float64()
				bound := f.bound(&tl.max, lane)
				ratio := math.Abs(exact) / bound
				if worst = max(worst, ratio); !(ratio < 1) {
					t.Errorf("%s, %v, bar %d: the error is %v, the bound %v", name, p, bar, exact, bound)
				}
			}
		}
	}
	t.Logf("the largest error was %.4f of its bound", worst)
	if worst == 0 {
		t.Error("nothing was compared")
	}
}

// FuzzImplementations compares every implementation with the reference on
// generated series.
func FuzzImplementations(f *testing.F) {
	f.Add(uint64(1), uint16(600), uint8(0), []byte{6, 50, 200})
	f.Add(uint64(2), uint16(1100), uint8(1), []byte{3, 9, 100, 1, 1, 1})
	f.Add(uint64(3), uint16(700), uint8(7), []byte{2, 2, 2})
	for kind := range uint8(16) {
		f.Add(uint64(kind), 300+100*uint16(kind), kind, []byte{kind, 3 * kind, 200 - kind})
	}
	f.Fuzz(func(t *testing.T, seed uint64, bars uint16, kind uint8, windows []byte) {
		n := int(bars) % 3000
		r := rand.New(rand.NewPCG(seed, uint64(kind)))
		closes := generated(r, n, kind)
		var combos []Params
		for i := 0; i < len(windows) && len(combos) < 4; i++ {
			p := Expand(2 + int64(windows[i]))
			if kind&64 != 0 {
				for w := range p {
					p[w] = 1 + r.Int64N(1+int64(windows[i]))
				}
			}
			combos = append(combos, p)
		}
		if len(combos) > 0 {
			wantReference(t, closes, combos, float64(kind)/1e4)
		}
	})
}

// generated makes a series of ties, flats, lines, spikes, NaN and infinities,
// in stretches, as the bits of kind say.
func generated(r *rand.Rand, n int, kind uint8) []float64 {
	closes := make([]float64, n)
	level := math.Exp(r.NormFloat64() * []float64{1, 10, 100}[r.IntN(3)])
	stretch, left, slope := 0, 0, 0.0
	tick := level * []float64{1e-2, 1e-4, 1e-9, 1e-15}[r.IntN(4)]
	for i := range closes {
		if left == 0 {
			stretch, left, slope = r.IntN(5), 1+r.IntN(400), tick*float64(r.IntN(5)-2)
		}
		left--
		switch stretch {
		case 0:
			level *= math.Exp(r.NormFloat64() * 1e-3)
		case 1: // flat
		case 2:
			level += slope
		case 3:
			level += tick * float64(r.IntN(3)-1)
		case 4:
			level = math.Round(level/tick) * tick
		}
		closes[i] = level
		if r.IntN(200) == 0 {
			switch kind & 15 {
			case 1:
				closes[i] = math.NaN()
			case 2:
				closes[i] = math.Inf(1 - 2*r.IntN(2))
			case 3:
				closes[i] *= 1e150
			case 4:
				closes[i] = 0
			case 5:
				closes[i] = -level
			case 6:
				closes[i] = math.Float64frombits(r.Uint64())
			case 7:
				closes[i] *= 1e9
			}
		}
	}
	return closes
}

// A turn of a nanosecond is over after each task, so that every chunk is cut
// short.
func TestWhereTurnsEndChangesNothing(t *testing.T) {
	combos := []Params{Expand(6), Expand(50), {64, 100, 9, 20, 33, 50}, Expand(200)}
	for range 40 { // so that tiles are shared out
		combos = append(combos, Expand(31))
	}
	for name, closes := range adversarial(20*tileBars + 77) {
		for _, v := range Variants()[2:] {
			for workers := 1; workers <= 2; workers++ {
				t.Run(fmt.Sprint(name, " ", v.Name(), " ", workers), func(t *testing.T) {
					want := sweepBy(t, v, closes, combos, DefaultFee, workers)
					yields := 0
					var got Results
					got.Resize(len(combos))
					s := takeSweep(t.Context(), closes, combos, DefaultFee, &got)
					s.yield = func(pausing, _ int) { yields += min(pausing, 1) }
					s.turn = 1
					s.run(v, workers)
					s.giveBack()
					wantSame(t, &got, want)
					if yields < 20/2 {
						t.Errorf("over 21 tiles it yielded %d times", yields)
					}
				})
			}
		}
	}
}
