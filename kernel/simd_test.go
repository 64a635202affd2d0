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
	emit       func(dst *float64, acc *[32]float64, divisor float64)
	combine2   func(dst, a, b *float64, n int)
	combine3   func(dst, a, b, c *float64, n int)
	compare    func(hma, hma3 *float64, up, down *[8]uint64)
	build      func(sums, closes *float64, rows int, m *maxima)
}

// simdImplementations holds what this build has; files with build constraints
// add to it.
var simdImplementations = []simdImplementation{
	{"go", true, filterGo, accumulateGo, emitGo, combine2Go, combine3Go, compareGo, buildGo},
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

func TestSIMDLayout(t *testing.T) {
	var m term
	if unsafe.Sizeof(m) != 16 || unsafe.Offsetof(m.back) != 0 || unsafe.Offsetof(m.coef) != 8 {
		t.Fatal("the generator assumes another layout of term")
	}
	var x maxima
	if unsafe.Sizeof(x) != 5*64 || unsafe.Offsetof(x.closes) != 0 || unsafe.Offsetof(x.sums) != 64 {
		t.Fatal("the generator assumes another layout of maxima")
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

// guarded is memory for n floats between canaries.
type guarded struct {
	all    []float64
	floats []float64
}

const guardFloats = 72 // more than any vector, or a lane

// newGuarded returns floats that begin offset elements after a multiple of 64
// bytes. All memory is a NaN of its own kind at first.
func newGuarded(n, offset int) guarded {
	all := floatsBeyond(n+2*guardFloats, offset)
	for i := range all {
		all[i] = math.Float64frombits(0x7ff8_5a5a_0000_0000 + uint64(i))
	}
	return guarded{all, all[guardFloats:][:n:n]}
}

// check compares the floats with want, bit by bit but for NaNs, and the
// canaries with what they were.
func (g guarded) check(t *testing.T, what string, want []float64) {
	t.Helper()
	for i := range want {
		if !sameFloat(g.floats[i], want[i]) {
			t.Fatalf("%s: element %d is %x, want %x", what, i, g.floats[i], want[i])
		}
	}
	for i := range g.all {
		inside := i >= guardFloats && i < guardFloats+len(want)
		if !inside && math.Float64bits(g.all[i]) != 0x7ff8_5a5a_0000_0000+uint64(i) {
			t.Fatalf("%s: wrote to element %d", what, i-guardFloats)
		}
	}
}

// unchanged fails if any bit of the input differs from the copy before.
func unchanged(t *testing.T, what string, now, before []float64) {
	t.Helper()
	for i := range before {
		if math.Float64bits(now[i]) != math.Float64bits(before[i]) {
			t.Fatalf("%s: wrote to input element %d", what, i)
		}
	}
}

func TestEmit(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(13, 14))
		divisors := []float64{1, 3, 10, 171, 23436, 0, math.Inf(1), math.NaN(), 5e-324, math.MaxFloat64}
		for round := range 400 {
			var acc [32]float64
			for k := range acc {
				acc[k] = awkwardFloat(r, round%2 == 0)
			}
			divisor := awkwardFloat(r, round%2 == 0)
			if round%4 > 1 {
				divisor = divisors[round/4%len(divisors)]
			}
			want, before := make([]float64, 32), acc
			for k := range want {
				want[k] = acc[k] / divisor
			}
			dst := newGuarded(32, round/4%8)
			s.emit(&dst.floats[0], &acc, divisor)
			dst.check(t, "quotients", want)
			unchanged(t, "acc", acc[:], before[:])
		}
	})
}

func TestCombine(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(15, 16))
		for round := range 600 {
			n := []int{0, 8, 16, 24, 40, 512, 600}[round%7]
			var in [3]guarded
			var before [3][]float64
			for i := range in {
				in[i] = newGuarded(n, r.IntN(8))
				for k := range in[i].floats {
					in[i].floats[k] = awkwardFloat(r, round%2 == 0)
					if round%3 > 0 { // neighbours in magnitude, where roundings show
						in[i].floats[k] = 100 + r.NormFloat64()
					}
				}
				before[i] = append([]float64(nil), in[i].all...)
			}
			a, b, c := in[0].floats, in[1].floats, in[2].floats
			two, three := make([]float64, n), make([]float64, n)
			for i := range n {
				two[i] = float64(2*a[i]) - b[i]
				three[i] = float64(3*a[i]) - b[i] - c[i]
			}
			at := func(g guarded) *float64 { return &g.all[guardFloats] }
			dst := newGuarded(n, r.IntN(8))
			s.combine2(at(dst), at(in[0]), at(in[1]), n)
			dst.check(t, "2a-b", two)
			dst = newGuarded(n, r.IntN(8))
			s.combine3(at(dst), at(in[0]), at(in[1]), at(in[2]), n)
			dst.check(t, "3a-b-c", three)
			for i := range in {
				unchanged(t, "operand", in[i].all, before[i])
			}
		}
	})
}

func TestCompare(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(17, 18))
		values := []float64{0, math.Copysign(0, -1), 1, -1, 5e-324, -5e-324, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), -math.NaN()}
		check := func(hma, hma3 []float64) {
			t.Helper()
			const canary = 0x5a5a5a5a5a5a5a5a
			var words [5][8]uint64 // canary, up, canary, down, canary
			for i := range words {
				for l := range words[i] {
					words[i][l] = canary
				}
			}
			want := words
			want[1], want[3] = [8]uint64{}, [8]uint64{}
			for i := range 512 {
				if hma3[i] > hma[i] {
					want[1][i/64] |= 1 << (i % 64)
				}
				if hma3[i] < hma[i] {
					want[3][i/64] |= 1 << (i % 64)
				}
			}
			s.compare(&hma[0], &hma3[0], &words[1], &words[3])
			if words != want {
				t.Fatalf("\ngot  %x\nwant %x", words, want)
			}
		}
		for round := range 200 {
			hma, hma3 := floatsBeyond(512, r.IntN(8)), floatsBeyond(512, r.IntN(8))
			for i := range hma {
				if round%2 == 0 {
					hma[i], hma3[i] = values[r.IntN(len(values))], values[r.IntN(len(values))]
				} else {
					hma[i], hma3[i] = awkwardFloat(r, true), awkwardFloat(r, true)
				}
			}
			check(hma, hma3)
		}
		// Each pair has a bit of its own.
		hma, hma3 := floatsBeyond(512, 0), floatsBeyond(512, 0)
		for i := range hma {
			for _, v := range []float64{1, -1} {
				hma3[i] = v
				check(hma, hma3)
			}
			hma3[i] = 0
		}
	})
}

// buildWant is what build replaces, lane by lane.
func buildWant(sums, closes []float64, rows int) (m maxima) {
	larger := func(a, b float64) float64 {
		if a != a || math.Abs(b) <= a {
			return a
		}
		return math.Abs(b)
	}
	for l := range 8 {
		var s [4]float64
		for r := range rows {
			c := closes[64*l+r]
			s[0] += c - closes[64*l]
			for k := range 3 {
				s[k+1] += s[k]
			}
			sums[8*r+l] = s[3]
			m.closes[l] = larger(m.closes[l], c)
			for k := range s {
				m.sums[k][l] = larger(m.sums[k][l], s[k])
			}
		}
	}
	return m
}

func TestBuild(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		r := rand.New(rand.NewPCG(19, 20))
		for _, rows := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 282, 321} {
			for round := range 48 {
				closes := newGuarded(448+rows, round%8)
				// What lies between the lanes stays a NaN, which would show.
				for l := range 8 {
					price := 100.0
					for i := range rows {
						price *= math.Exp(0.01 * r.NormFloat64())
						v := price
						switch round / 8 {
						case 1:
							v = awkwardFloat(r, false)
						case 2: // few specials, so that sums are finite before them
							if r.IntN(2*rows) == 0 {
								v = []float64{math.NaN(), -math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(4)]
							}
						case 3: // subnormal
							v = math.Float64frombits(r.Uint64N(1<<40) | r.Uint64()&(1<<63))
						case 4: // sums that overflow, and infinities that cancel
							v = math.Copysign(math.MaxFloat64, r.Float64()-0.5)
						case 5: // equal or of negative zeros
							v = math.Copysign(float64(l%2), -1)
						}
						closes.floats[64*l+i] = v
					}
				}
				before := append([]float64(nil), closes.all...)
				want := make([]float64, 8*rows)
				wantMax := buildWant(want, closes.floats, rows)

				sums := newGuarded(8*rows, 0)
				var m struct{ before, got, after maxima }
				for l := range 8 {
					m.before.sums[3][l], m.after.closes[l] = 7, 7
					m.got.closes[l], m.got.sums[1][l] = math.NaN(), math.Inf(1) // to be overwritten
				}
				beside := m
				s.build(&sums.floats[0], &closes.floats[0], rows, &m.got)
				sums.check(t, "sums", want)
				unchanged(t, "closes", closes.all, before)
				if m.before != beside.before || m.after != beside.after {
					t.Fatal("wrote beside maxima")
				}
				for l := range 8 {
					if !sameFloat(m.got.closes[l], wantMax.closes[l]) || math.Signbit(m.got.closes[l]) {
						t.Fatalf("%d rows, round %d, lane %d: close %v, want %v", rows, round, l, m.got.closes[l], wantMax.closes[l])
					}
					for k := range 4 {
						if got, want := m.got.sums[k][l], wantMax.sums[k][l]; !sameFloat(got, want) || math.Signbit(got) {
							t.Fatalf("%d rows, round %d, lane %d: S%d %v, want %v", rows, round, l, k+1, got, want)
						}
					}
				}
			}
		}
	})
}

// Nothing is read or written if there are no rows.
func TestBuildNothing(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s simdImplementation) {
		for rows := -2; rows <= 0; rows++ {
			m := maxima{closes: [8]float64{1}, sums: [4][8]float64{3: {7: 1}}}
			s.build(nil, nil, rows, &m)
			if m != (maxima{}) {
				t.Fatal(m)
			}
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

func BenchmarkBuild(b *testing.B) {
	const rows = 282
	r := rand.New(rand.NewPCG(21, 22))
	closes, sums := floatsBeyond(448+rows, 3), floatsBeyond(8*rows, 0)
	for i := range closes {
		closes[i] = 100 + r.NormFloat64()
	}
	for _, s := range simdImplementations {
		b.Run(s.name, func(b *testing.B) {
			if !s.available {
				b.Skip("this machine cannot run it")
			}
			var m maxima
			for b.Loop() {
				s.build(&sums[0], &closes[0], rows, &m)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}

func BenchmarkEmit(b *testing.B) {
	dst := floatsBeyond(32, 3)
	var acc [32]float64
	for k := range acc {
		acc[k] = float64(k)
	}
	for _, s := range simdImplementations {
		b.Run(s.name, func(b *testing.B) {
			if !s.available {
				b.Skip("this machine cannot run it")
			}
			for b.Loop() {
				s.emit(&dst[0], &acc, 171)
			}
		})
	}
}

func BenchmarkCombine(b *testing.B) {
	const n = 728
	x, y, z, dst := floatsBeyond(n, 0), floatsBeyond(n, 0), floatsBeyond(n, 0), floatsBeyond(n, 0)
	for _, s := range simdImplementations {
		b.Run(s.name, func(b *testing.B) {
			if !s.available {
				b.Skip("this machine cannot run it")
			}
			for b.Loop() {
				s.combine2(&dst[0], &x[0], &y[0], n)
				s.combine3(&dst[0], &x[0], &y[0], &z[0], n)
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	hma, hma3 := floatsBeyond(512, 0), floatsBeyond(512, 0)
	var up, down [8]uint64
	for _, s := range simdImplementations {
		b.Run(s.name, func(b *testing.B) {
			if !s.available {
				b.Skip("this machine cannot run it")
			}
			for b.Loop() {
				s.compare(&hma[0], &hma3[0], &up, &down)
			}
		})
	}
}
