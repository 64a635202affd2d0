package kernel

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"
)

type simdImplementation struct {
	name       string
	available  bool
	filter     func(sums *float64, terms *term, n int, bound *[8]float64, up, down *[8]uint64)
	accumulate func(acc *[32]float64, x *float64, from, to int64)
}

// simdImplementations holds what this build has; files with build constraints
// add to it.
var simdImplementations = []simdImplementation{
	{"go", true, filterGo, accumulateGo},
}

func eachSIMD(t *testing.T, f func(t *testing.T, s simdImplementation)) {
	for _, s := range simdImplementations {
		t.Run(s.name, func(t *testing.T) {
			if !s.available {
				// Elsewhere a machine may be old; where the build is judged, a
				// skipped test would be an untested implementation.
				if os.Getenv("CI") == "true" {
					t.Fatal("this machine cannot run it")
				}
				t.Skip("this machine cannot run it")
			}
			f(t, s)
		})
	}
}

func TestSIMDTermLayout(t *testing.T) {
	var m term
	if unsafe.Sizeof(m) != 16 || unsafe.Offsetof(m.back) != 0 || unsafe.Offsetof(m.coef) != 8 {
		t.Fatal("the generator assumes another layout of term")
	}
}

// sameFloat compares bits, but takes every NaN for the same: which operand's
// payload survives is up to the compiler.
func sameFloat(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// awkwardFloat yields ordinary values most of the time, and everything that
// floating point has to offer at others. Without specials, no value is NaN or
// infinite, so that the test sees the order of additions and their roundings.
func awkwardFloat(r *rand.Rand, specials bool) float64 {
	pick := r.IntN(40)
	switch {
	case specials && pick == 0:
		return math.NaN()
	case specials && pick == 1:
		return math.Inf(1)
	case specials && pick == 2:
		return math.Inf(-1)
	case specials && pick == 3:
		return math.Copysign(math.MaxFloat64, r.Float64()-0.5)
	case pick == 4:
		return math.Copysign(0, -1)
	case pick == 5:
		return math.Float64frombits(r.Uint64N(1 << 52)) // subnormal
	case pick == 6:
		return r.NormFloat64() * 1e300
	}
	return r.NormFloat64() * math.Exp(20*r.NormFloat64())
}

func TestAccumulate(t *testing.T) {
	ranges := [][2]int64{
		{0, 0}, {5, 5}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 7}, {0, 8}, {0, 9}, {0, 100},
		{1, 2}, {1, 4}, {3, 3}, {3, 4}, {3, 20}, {7, 8}, {8, 41}, {16, 48}, {99, 132}, {217, 300},
	}
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(1, 2))
		for offset := range 8 {
			for _, rg := range ranges {
				for round := range 12 {
					testAccumulate(t, s, r, offset, rg[0], rg[1], round%3 == 0)
				}
			}
		}
	})
}

func testAccumulate(t *testing.T, s simdImplementation, r *rand.Rand, offset int, from, to int64, specials bool) {
	t.Helper()
	// Everything outside of x[from .. to+30] is NaN: reading it would show.
	const guard = 16
	buf := make([]float64, guard+offset+int(to)+31+guard)
	for i := range buf {
		buf[i] = math.NaN()
	}
	x := buf[guard+offset:]
	if from < to {
		for i := from; i < to+31; i++ {
			x[i] = awkwardFloat(r, specials)
		}
	}
	before := append([]float64(nil), buf...)

	// acc has guards too.
	var got struct{ before, acc, after [32]float64 }
	for i := range 32 {
		got.before[i], got.after[i] = 7, 7
		got.acc[i] = awkwardFloat(r, specials)
	}
	want := got
	for k := range want.acc {
		for j := from; j < to; j++ {
			want.acc[k] += float64(x[int64(k)+j] * float64(j+1))
		}
	}

	s.accumulate(&got.acc, &x[0], from, to)
	for k := range want.acc {
		if !sameFloat(got.acc[k], want.acc[k]) {
			t.Fatalf("offset %d, from %d to %d: sum %d is %x, want %x", offset, from, to, k, got.acc[k], want.acc[k])
		}
	}
	if got.before != want.before || got.after != want.after {
		t.Fatalf("offset %d, from %d to %d: wrote beside acc", offset, from, to)
	}
	for i := range buf {
		if math.Float64bits(buf[i]) != math.Float64bits(before[i]) {
			t.Fatalf("offset %d, from %d to %d: wrote to x", offset, from, to)
		}
	}
}

// filterCase is one call of a filter; sums lie between guards.
type filterCase struct {
	sums  []float64 // all rows, the first 8*lead of them before row 0
	lead  int       // rows before row 0
	terms []term
	bound [8]float64
}

func (c *filterCase) want() (up, down [8]uint64) {
	for l := range 8 {
		for t := range 64 {
			var d float64
			for _, m := range c.terms {
				d += m.coef * c.sums[8*(c.lead+t)+l-int(m.back/8)]
			}
			if d > c.bound[l] {
				up[l] |= 1 << t
			}
			if d < -c.bound[l] {
				down[l] |= 1 << t
			}
		}
	}
	return up, down
}

func (c *filterCase) check(t *testing.T, s simdImplementation) {
	t.Helper()
	const canary = 0x5a5a5a5a5a5a5a5a
	var words [5][8]uint64 // canary, up, canary, down, canary
	for i := range words {
		for l := range words[i] {
			words[i][l] = canary
		}
	}
	want := words
	want[1], want[3] = c.want()
	bound := c.bound
	s.filter(&c.sums[8*c.lead], &c.terms[0], len(c.terms), &bound, &words[1], &words[3])
	if words != want {
		t.Fatalf("%d terms %v, bounds %v:\ngot  %x\nwant %x", len(c.terms), c.terms, c.bound, words, want)
	}
	for l := range bound {
		if math.Float64bits(bound[l]) != math.Float64bits(c.bound[l]) {
			t.Fatal("wrote to bound")
		}
	}
}

// floatsBeyond returns n floats that begin offset elements after a multiple
// of 64 bytes.
func floatsBeyond(n, offset int) []float64 {
	buf := make([]float64, n+16)
	skip := 0
	for uintptr(unsafe.Pointer(&buf[skip]))%64 != 0 {
		skip++
	}
	return buf[skip+offset:][:n:n]
}

// Small integers make all arithmetic exact, so every order of a sum and every
// fusing gives the same bits, and d often meets a bound exactly.
func TestFilterExact(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(5, 6))
		met := [2]int{}
		for n := 1; n <= 24; n++ {
			for round := range 40 {
				lead := []int{0, 1, 7, 30, 217}[round%5]
				c := filterCase{lead: lead, sums: floatsBeyond(8*(lead+64), round/5)}
				for i := range c.sums {
					c.sums[i] = float64(r.IntN(7) - 3)
				}
				for m := range n {
					back := r.IntN(lead + 1)
					if m == 0 {
						back = lead // the farthest row, and so the first element
					}
					c.terms = append(c.terms, term{int64(64 * back), float64(r.IntN(5) - 2)})
				}
				for l := range c.bound {
					c.bound[l] = float64(r.IntN(6))
				}
				switch round % 4 {
				case 1: // NaN and infinite values here and there
					for range 20 {
						c.sums[r.IntN(len(c.sums))] = []float64{nan, inf, -inf}[r.IntN(3)]
					}
				case 2: // bounds that never, always and almost always let pass
					c.bound = [8]float64{nan, inf, -inf, 0, math.Copysign(0, -1), -2, -nan, 3}
				case 3: // whole lanes
					for i := 0; i < len(c.sums); i += 8 {
						c.sums[i+1], c.sums[i+4], c.sums[i+6] = nan, inf, -inf
					}
					c.bound[4+r.IntN(4)] = inf
				}
				c.check(t, s)
				a, b := c.meets()
				met[0] += a
				met[1] += b
			}
		}
		if met[0] < 1000 || met[1] < 1000 {
			t.Fatalf("d met bounds only %v times", met)
		}
	})
}

// meets counts how often d equals a bound and a negated bound.
func (c *filterCase) meets() (above, below int) {
	for i := range 512 {
		var d float64
		for _, m := range c.terms {
			d += m.coef * c.sums[8*c.lead+i-int(m.back/8)]
		}
		if d == c.bound[i%8] {
			above++
		}
		if d == -c.bound[i%8] {
			below++
		}
	}
	return above, below
}

// Each of the 512 values has a bit of its own.
func TestFilterEveryBit(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		for i := range 512 {
			for _, v := range []float64{3, -3} {
				c := filterCase{sums: floatsBeyond(512, 0), terms: []term{{0, 1}}}
				for l := range c.bound {
					c.bound[l] = 2
				}
				c.sums[i] = v
				c.check(t, s)
			}
		}
	})
}

// Where rounding matters, values away from the bound still decide alike.
func TestFilterRandom(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(7, 8))
		for n := 1; n <= 24; n++ {
			const lead = 217
			c := filterCase{lead: lead, sums: floatsBeyond(8*(lead+64), 0)}
			for i := range c.sums {
				c.sums[i] = r.NormFloat64()
			}
			for range n {
				c.terms = append(c.terms, term{int64(64 * r.IntN(lead+1)), r.NormFloat64()})
			}
			// Rounding moves d by less than 1e-12. That one of the 12,288 values
			// is that close to 0.5 has a chance of 1e-8, and the seed is fixed.
			for l := range c.bound {
				c.bound[l] = 0.5
			}
			c.check(t, s)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	const n, lead = 18, 217
	r := rand.New(rand.NewPCG(9, 10))
	sums := floatsBeyond(8*(lead+64), 0)
	for i := range sums {
		sums[i] = r.NormFloat64()
	}
	var terms [n]term
	for m := range terms {
		terms[m] = term{int64(64 * (lead * m / (n - 1))), r.NormFloat64()}
	}
	var bound [8]float64
	var up, down [8]uint64
	for _, s := range simdImplementations {
		b.Run(s.name, func(b *testing.B) {
			if !s.available {
				b.Skip("this machine cannot run it")
			}
			for b.Loop() {
				s.filter(&sums[8*lead], &terms[0], n, &bound, &up, &down)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/d")
		})
	}
}

func BenchmarkAccumulate(b *testing.B) {
	const to = 100
	r := rand.New(rand.NewPCG(11, 12))
	x := floatsBeyond(31+to, 0)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	for _, s := range simdImplementations {
		b.Run(s.name, func(b *testing.B) {
			if !s.available {
				b.Skip("this machine cannot run it")
			}
			var acc [32]float64
			for b.Loop() {
				s.accumulate(&acc, &x[0], 0, to)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(32*to), "ns/product")
		})
	}
}
