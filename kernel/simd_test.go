package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// eachSIMD runs a test of the inner loops on every implementation that this
// machine has; TestCIHasEveryImplementation says where it must have all.
func eachSIMD(t *testing.T, f func(t *testing.T, s *implementation)) {
	for _, s := range implementations {
		t.Run(s.name, func(t *testing.T) { f(t, s) })
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
	var f signFilter
	if unsafe.Offsetof(f.n) != 27*16 || unsafe.Offsetof(f.pairs) != 27*16+8 || unsafe.Offsetof(f.weights) != 27*16+16 {
		t.Fatal("the generator assumes another layout of signFilter")
	}
	var w sides
	if unsafe.Offsetof(w.down) != 64 {
		t.Fatal("the generator assumes another layout of sides")
	}
	var p prefixStep
	if unsafe.Sizeof(p) != 24 || unsafe.Offsetof(p.to) != 8 || unsafe.Offsetof(p.divisor) != 16 {
		t.Fatal("the generator assumes another layout of prefixStep")
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

func TestPrefix(t *testing.T) {
	cases := [][]int64{
		{1}, {2}, {3}, {4}, {5}, {7}, {8}, {9}, {100}, {1, 2}, {1, 4, 5}, {3, 20}, {7, 8, 41}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		{16, 48}, {99, 100, 132}, {217, 300}, {5, 5, 9},
	}
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(1, 2))
		for offset := range 8 {
			for _, windows := range cases {
				for round := range 12 {
					testPrefix(t, s, r, offset, windows, round%3 == 0)
				}
			}
		}
	})
}

func testPrefix(t *testing.T, s *implementation, r *rand.Rand, offset int, windows []int64, specials bool) {
	t.Helper()
	// The canaries around x are NaN: reading them would show.
	longest := int(windows[len(windows)-1])
	x := newGuarded(longest+prefixBlock-1, offset)
	for i := range x.floats {
		x.floats[i] = awkwardFloat(r, specials)
	}
	before := append([]float64(nil), x.all...)

	// Quotients lie in the opposite order of the windows, with gaps.
	const gap = 3
	at := r.IntN(5)
	dst := newGuarded(at+len(windows)*(prefixBlock+gap), r.IntN(8))
	want := append([]float64(nil), dst.floats...)
	var steps []prefixStep
	for i, w := range windows {
		to := (len(windows) - 1 - i) * (prefixBlock + gap)
		divisor := float64(w*(w+1)) / 2
		if specials {
			divisor = awkwardFloat(r, true)
		}
		steps = append(steps, prefixStep{w, int64(to), divisor})
		for k := range prefixBlock {
			sum := 0.0
			for j := range int(w) {
				sum += float64(x.floats[k+j] * float64(j+1))
			}
			want[at+to+k] = sum / divisor
		}
	}
	s.prefix(&dst.floats[0], &x.floats[0], &steps[0], len(steps), at)
	what := fmt.Sprintf("offset %d, windows %v", offset, windows)
	dst.check(t, what, want)
	unchanged(t, what, x.all, before)
}

// filterCase is one call of a filter; sums lie between guards.
type filterCase struct {
	sums   []float64 // all rows, the first 8*lead of them before row 0
	lead   int       // rows before row 0
	filter signFilter
	max    maxima // all 0 but for the closes, which have the weight 1: the bounds, less tiny
}

// newFilterCase returns a case with random values below 4, as whole numbers,
// and pairs and singles of random delays.
func newFilterCase(r *rand.Rand, lead, offset, pairs, singles int) *filterCase {
	c := &filterCase{lead: lead, sums: floatsBeyond(8*(lead+64), offset)}
	for i := range c.sums {
		c.sums[i] = float64(r.IntN(7) - 3)
	}
	coef := func() float64 { return float64(r.IntN(5) - 2) }
	for i := range pairs {
		back := r.IntN(lead)
		if i == 0 {
			back = lead - 1 // the farthest row, and so the first element
		}
		c.filter.terms[2*i] = term{int64(64 * back), coef()}
		c.filter.terms[2*i+1] = term{int64(64 * (back + 1)), coef()}
	}
	for i := range singles {
		c.filter.terms[2*pairs+i] = term{int64(64 * r.IntN(lead+1)), coef()}
	}
	c.filter.pairs, c.filter.n = pairs, 2*pairs+singles
	c.filter.weights[0] = 1
	return c
}

// each calls f with every value of the filter, and its bit.
func (c *filterCase) each(f func(lane, bit int, d float64)) {
	for l := range 8 {
		for t := range 64 {
			var d float64
			for _, m := range c.filter.terms[:c.filter.n] {
				d += m.coef * c.sums[8*(c.lead+t)+l-int(m.back/8)]
			}
			f(l, t, d)
		}
	}
}

// check runs the filter and looks at each bit: it must be set well above the
// bound, and must not be set otherwise.
func (c *filterCase) check(t *testing.T, s *implementation) {
	t.Helper()
	const canary = 0x5a5a5a5a5a5a5a5a
	var words [3]sides // canary, result, canary
	for i := range words {
		for l := range 8 {
			words[i].up[l], words[i].down[l] = canary, canary
		}
	}
	before := words
	filter, max := c.filter, c.max
	s.filter(&c.sums[8*c.lead], &filter, &max, &words[1])
	if words[0] != before[0] || words[2] != before[2] || filter != c.filter {
		t.Fatal("wrote beside the sides")
	}
	got := words[1]
	c.each(func(l, bit int, d float64) {
		bound := c.max.closes[l] + tiny
		for _, side := range []struct {
			name string
			set  bool
			d    float64
		}{{"up", got.up[l]>>bit&1 != 0, d}, {"down", got.down[l]>>bit&1 != 0, -d}} {
			if side.set && !(side.d > bound) || !side.set && side.d > bound*(1+1.0/16) && !math.IsInf(bound, 1) {
				t.Fatalf("%d pairs, %d terms, row %d of lane %d: %s is %t for %v beside the bound %v", c.filter.pairs, c.filter.n, bit, l, side.name, side.set, side.d, bound)
			}
		}
	})
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
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(5, 6))
		met := 0
		for pairs := 1; pairs <= 11; pairs++ {
			for round := range 60 {
				c := newFilterCase(r, []int{1, 7, 30, 217}[round%4], round/5%8, pairs, r.IntN(maxTerms-2*pairs+1))
				for l := range c.max.closes {
					c.max.closes[l] = float64(r.IntN(6))
				}
				c.check(t, s)
				c.each(func(l, _ int, d float64) {
					if math.Abs(d) == c.max.closes[l] {
						met++
					}
				})
			}
		}
		if met < 1000 {
			t.Fatalf("d met bounds only %d times", met)
		}
	})
}

// Whatever the values, nothing is decided in a lane whose bound is not finite,
// and the other lanes do not notice.
func TestFilterWithBoundsThatAreNotFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(25, 26))
		for round := range 200 {
			c := newFilterCase(r, 30, 0, 1+r.IntN(5), r.IntN(5))
			c.max.closes = [8]float64{nan, inf, 1, math.Copysign(nan, -1), 2, inf, 0, nan}
			for i := 0; i < len(c.sums); i += 8 {
				if r.IntN(5) == 0 {
					v := []float64{nan, math.Copysign(nan, -1), inf, -inf, math.MaxFloat64, math.Float64frombits(0x7fff_ffff_ffff_ffff)}[round%6]
					c.sums[i], c.sums[i+1], c.sums[i+3], c.sums[i+5], c.sums[i+7] = v, v, v, v, v
				}
			}
			c.check(t, s)
		}
	})
}

// Each of the 512 values has a bit of its own.
func TestFilterEveryBit(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s *implementation) {
		for i := range 512 {
			for _, v := range []float64{3, -3} {
				c := filterCase{lead: 1, sums: floatsBeyond(8+512, 0)}
				c.filter.terms = [termRoom]term{{0, 1}, {64, 0}}
				c.filter.n, c.filter.pairs = 2, 1
				c.filter.weights[0] = 1
				for l := range c.max.closes {
					c.max.closes[l] = 2
				}
				c.sums[8+i] = v
				c.check(t, s)
			}
		}
	})
}

// The bound is the sum of all maxima by their weights, in each lane.
func TestFilterBound(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(27, 28))
		for range 200 {
			var f signFilter
			f.terms = [termRoom]term{{0, 1}, {64, 0}}
			f.n, f.pairs = 2, 1
			var m maxima
			for k := range f.weights {
				f.weights[k] = math.Exp(5 * r.NormFloat64())
				for l := range lanes {
					*[]*float64{&m.closes[l], &m.sums[0][l], &m.sums[1][l], &m.sums[2][l], &m.sums[3][l]}[k] = math.Exp(5 * r.NormFloat64())
				}
			}
			sums := floatsBeyond(8+512, 0)
			for i := range 512 {
				bound, above := f.bound(&m, i%8), 1.07
				if i%16 < 8 {
					above = 0.999
				}
				sums[8+i] = bound * above * []float64{1, -1}[i/16%2]
			}
			var got sides
			s.filter(&sums[8], &f, &m, &got)
			for l := range lanes {
				if got.up[l] != 0x2222222222222222 || got.down[l] != 0x8888888888888888 {
					t.Fatalf("lane %d: %x up, %x down", l, got.up[l], got.down[l])
				}
			}
		}
	})
}

// Where rounding matters, values away from the bound still decide alike.
func TestFilterRandom(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(7, 8))
		for pairs := 1; pairs <= 11; pairs++ {
			for singles := 0; 2*pairs+singles <= maxTerms; singles++ {
				c := newFilterCase(r, 217, 0, pairs, singles)
				for i := range c.sums {
					c.sums[i] = r.NormFloat64()
				}
				for i := range c.filter.n {
					c.filter.terms[i].coef = r.NormFloat64()
				}
				// Rounding moves d by less than 1e-12. That one of the values is
				// that close to 0.5 has a chance of 1e-7, and the seed is fixed.
				for l := range c.max.closes {
					c.max.closes[l] = 0.5
				}
				c.check(t, s)
			}
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

func TestCombine(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s *implementation) {
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
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(17, 18))
		values := []float64{0, math.Copysign(0, -1), 1, -1, 5e-324, -5e-324, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(), -math.NaN()}
		check := func(hma, hma3 []float64) {
			t.Helper()
			const canary = 0x5a5a5a5a5a5a5a5a
			var words [3]sides // canary, result, canary
			for i := range words {
				for l := range 8 {
					words[i].up[l], words[i].down[l] = canary, canary
				}
			}
			want := words
			want[1] = sides{}
			for i := range 512 {
				if hma3[i] > hma[i] {
					want[1].up[i/64] |= 1 << (i % 64)
				}
				if hma3[i] < hma[i] {
					want[1].down[i/64] |= 1 << (i % 64)
				}
			}
			s.compare(&hma[0], &hma3[0], &words[1])
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
	eachSIMD(t, func(t *testing.T, s *implementation) {
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
	eachSIMD(t, func(t *testing.T, s *implementation) {
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
	p := Expand(100)
	f := newSignFilter(&p)
	r := rand.New(rand.NewPCG(9, 10))
	sums := floatsBeyond(8*(f.lag+64), 0)
	for i := range sums {
		sums[i] = r.NormFloat64()
	}
	var m maxima
	var got sides
	for _, s := range implementations {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				s.filter(&sums[8*f.lag], &f, &m, &got)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/512, "ns/d")
		})
	}
}

func BenchmarkPrefix(b *testing.B) {
	const to = 100
	r := rand.New(rand.NewPCG(11, 12))
	x := floatsBeyond(prefixBlock-1+to, 0)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	every := make([]prefixStep, to)
	for i := range every {
		every[i] = prefixStep{int64(i + 1), 0, 3}
	}
	dst := floatsBeyond(prefixBlock, 3)
	for _, s := range implementations {
		for name, steps := range map[string][]prefixStep{"windows=1": every[to-1:], "windows=100": every} {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					s.prefix(&dst[0], &x[0], &steps[0], len(steps), 0)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(prefixBlock*to), "ns/product")
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	const rows = 282
	r := rand.New(rand.NewPCG(21, 22))
	closes, sums := floatsBeyond(448+rows, 3), floatsBeyond(8*rows, 0)
	for i := range closes {
		closes[i] = 100 + r.NormFloat64()
	}
	for _, s := range implementations {
		b.Run(s.name, func(b *testing.B) {
			var m maxima
			for b.Loop() {
				s.build(&sums[0], &closes[0], rows, &m)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}

func BenchmarkCombine(b *testing.B) {
	const n = 728
	x, y, z, dst := floatsBeyond(n, 0), floatsBeyond(n, 0), floatsBeyond(n, 0), floatsBeyond(n, 0)
	for _, s := range implementations {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				s.combine2(&dst[0], &x[0], &y[0], n)
				s.combine3(&dst[0], &x[0], &y[0], &z[0], n)
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	hma, hma3 := floatsBeyond(512, 0), floatsBeyond(512, 0)
	var got sides
	for _, s := range implementations {
		b.Run(s.name, func(b *testing.B) {
			for b.Loop() {
				s.compare(&hma[0], &hma3[0], &got)
			}
		})
	}
}
