package kernel

import (
	"math"
	"math/bits"
	"unsafe"
)

// term is one term of a combo's linear filter: coef times the sum that lies
// back bytes before.
type term struct {
	back int64
	coef float64
}

// filterGo computes 64 rows of 8 lanes of a linear filter and compares them
// with the lanes' bounds: d[t][l] is the sum over the terms of coef times the
// float64 back bytes before sums[8*t+l], bit t of s.up[l] says that d is above
// the bound of lane l, and bit t of s.down[l] that -d is. Where d is not
// finite, neither is the bound, and neither bit is set.
//
// Implementations may leave the bits of a d unset that is less than a
// sixteenth above its bound.
func filterGo(sums *float64, f *signFilter, m *maxima, s *sides) {
	// Rows lie one after the other, so 64 rows less a lag are 512 neighbours,
	// and lanes need no attention until the comparison.
	var d [tileBars]float64
	lagged := func(m *term) *[tileBars]float64 {
		return (*[tileBars]float64)(unsafe.Add(unsafe.Pointer(sums), -m.back))
	}
	// Nine terms a pass, which is half of what a single length has: one load and
	// one store of d for nine products. Behind the terms are others of 0.
	for ms := f.terms[:(f.n+8)/9*9]; len(ms) > 0; ms = ms[9:] {
		x0, c0 := lagged(&ms[0]), ms[0].coef
		x1, c1 := lagged(&ms[1]), ms[1].coef
		x2, c2 := lagged(&ms[2]), ms[2].coef
		x3, c3 := lagged(&ms[3]), ms[3].coef
		x4, c4 := lagged(&ms[4]), ms[4].coef
		x5, c5 := lagged(&ms[5]), ms[5].coef
		x6, c6 := lagged(&ms[6]), ms[6].coef
		x7, c7 := lagged(&ms[7]), ms[7].coef
		x8, c8 := lagged(&ms[8]), ms[8].coef
		for i := range d {
			d[i] += (c0*x0[i] + c1*x1[i]) + (c2*x2[i] + c3*x3[i]) + (c4*x4[i] + c5*x5[i]) + (c6*x6[i] + c7*x7[i]) + c8*x8[i]
		}
	}

	// As whole numbers, positive floats are in the order of their values. So the
	// sign of bound - d as such is set where d is above it; if d has a sign, it is
	// the other way round.
	const sign = 1 << 63
	value := (*[laneBars][lanes]uint64)(unsafe.Pointer(&d))
	for l := range lanes {
		bound := f.bound(m, l)
		limit := math.Float64bits(bound)
		if !(bound <= math.MaxFloat64) {
			limit = math.MaxInt64 // which no d is above
		}
		var negative, above uint64
		// Four rows at a time, for each would wait for the one before.
		for t := 0; t < laneBars; t += 4 {
			v0, v1, v2, v3 := value[t][l], value[t+1][l], value[t+2][l], value[t+3][l]
			negative = negative>>4 | (v0&sign>>3 | v1&sign>>2) | (v2&sign>>1 | v3&sign)
			above = above>>4 | ((limit-v0)&sign>>3 | (limit-v1)&sign>>2) | ((limit-v2)&sign>>1 | (limit-v3)&sign)
		}
		s.up[l], s.down[l] = above&^negative, negative&^above
	}
}

// prefixStep is one window of a pass that computes WMAs of many: its length in
// bars, where its quotients go, in elements, and its divisor.
type prefixStep struct {
	bars, to int64
	divisor  float64
}

// prefixGo computes WMAs of n windows, which ascend, over prefixBlock
// neighbouring first bars: dst[at+to+k] of a step is the sum of x[k+j]*(j+1)
// over j = 0..bars-1, in this order and each product rounded before it is
// added, over the divisor.
func prefixGo(dst, x *float64, steps *prefixStep, n, at int) {
	// Six sums at a time: fewer would wait for their own additions, and more
	// don't fit into the registers with their products.
	for k := 0; k < prefixBlock; k += 6 {
		var a0, a1, a2, a3, a4, a5 float64
		done := int64(0)
		next := unsafe.Add(unsafe.Pointer(x), 8*k)
		for _, step := range unsafe.Slice(steps, n) {
			for ; done+2 <= step.bars; done += 2 {
				w := (*[2]float64)(unsafe.Add(unsafe.Pointer(&weights), 8*done))
				v := (*[7]float64)(next)
				a0 += float64(v[0] * w[0])
				a1 += float64(v[1] * w[0])
				a2 += float64(v[2] * w[0])
				a3 += float64(v[3] * w[0])
				a4 += float64(v[4] * w[0])
				a5 += float64(v[5] * w[0])
				a0 += float64(v[1] * w[1])
				a1 += float64(v[2] * w[1])
				a2 += float64(v[3] * w[1])
				a3 += float64(v[4] * w[1])
				a4 += float64(v[5] * w[1])
				a5 += float64(v[6] * w[1])
				next = unsafe.Add(next, 16)
			}
			if done < step.bars {
				w := weights[done]
				v := (*[6]float64)(next)
				a0 += float64(v[0] * w)
				a1 += float64(v[1] * w)
				a2 += float64(v[2] * w)
				a3 += float64(v[3] * w)
				a4 += float64(v[4] * w)
				a5 += float64(v[5] * w)
				next = unsafe.Add(next, 8)
				done++
			}
			to := (*[6]float64)(unsafe.Add(unsafe.Pointer(dst), 8*(step.to+int64(at+k))))
			to[0], to[1], to[2] = a0/step.divisor, a1/step.divisor, a2/step.divisor
			to[3], to[4], to[5] = a3/step.divisor, a4/step.divisor, a5/step.divisor
		}
	}
}

// weights are those of a WMA. To read them is cheaper than to count: prefixGo
// has additions enough.
var weights = func() (w [maxLag]float64) {
	for j := range w {
		w[j] = float64(j + 1)
	}
	return w
}()

// combine2Go computes the inner series of an HMA: dst[i] = 2*a[i] - b[i] for
// the first n elements, a multiple of 8, with each operation rounded.
func combine2Go(dst, a, b *float64, n int) {
	n = max(n, 0)
	to, as, bs := unsafe.Slice(dst, n), unsafe.Slice(a, n), unsafe.Slice(b, n)
	for i := range to {
		to[i] = float64(2*as[i]) - bs[i]
	}
}

// combine3Go computes the inner series of an HMA3: dst[i] = 3*a[i] - b[i] -
// c[i] for the first n elements, a multiple of 8, with each operation rounded.
func combine3Go(dst, a, b, c *float64, n int) {
	n = max(n, 0)
	to, as, bs, cs := unsafe.Slice(dst, n), unsafe.Slice(a, n), unsafe.Slice(b, n), unsafe.Slice(c, n)
	for i := range to {
		to[i] = float64(3*as[i]) - bs[i] - cs[i]
	}
}

// compareGo compares 512 pairs of averages: bit i of s.up[w] says that
// hma3[64*w+i] > hma[64*w+i], and of s.down[w] that it is less. A NaN sets
// neither.
func compareGo(hma, hma3 *float64, s *sides) {
	as, bs := (*[8][64]float64)(unsafe.Pointer(hma)), (*[8][64]float64)(unsafe.Pointer(hma3))
	for w := range as {
		var u, d uint64
		a, b := &as[w], &bs[w]
		// Backwards, so that doubling makes room for the bit of the pair before.
		for i := len(a) - 1; i >= 0; i-- {
			var over, under uint64 // no branches, as in filterGo
			if b[i] > a[i] {
				over = 1
			}
			if b[i] < a[i] {
				under = 1
			}
			u = 2*u + over
			d = 2*d + under
		}
		s.up[w], s.down[w] = u, d
	}
}

// buildGo computes the fourfold prefix sums of 8 lanes, and their largest
// magnitudes. Lane l is closes[64*l+r] for r < rows, less its first close, and
// its fourth sums become sums[8*r+l].
func buildGo(sums, closes *float64, rows int, m *maxima) {
	*m = maxima{}
	if rows <= 0 {
		return
	}
	series, fourth := unsafe.Slice(closes, (lanes-1)*laneBars+rows), unsafe.Slice(sums, lanes*rows)
	for lane := range lanes {
		sumLane(series[lane*laneBars:][:rows], fourth[lane:], m, lane)
	}
}

// findGo lists the bars whose bit differs from that of the bar before, and
// returns their number. before is the bit of the bar before the tile.
func findGo(f *flips, up *[lanes]uint64, before uint64) int {
	n := 0
	for lane, word := range up {
		changes := word ^ (word<<1 | before)
		before = word >> (laneBars - 1)
		first, count := uint16(lane*laneBars), bits.OnesCount64(changes)
		// Four at a time, and a few too many: a loop whose end can't be foretold
		// costs more.
		for k := 0; k < count; k += 4 {
			to := (*[4]uint16)(f[n+k:])
			second := changes & (changes - 1)
			third := second & (second - 1)
			fourth := third & (third - 1)
			to[0] = first + uint16(bits.TrailingZeros64(changes))
			to[1] = first + uint16(bits.TrailingZeros64(second))
			to[2] = first + uint16(bits.TrailingZeros64(third))
			to[3] = first + uint16(bits.TrailingZeros64(fourth))
			changes = fourth & (fourth - 1)
		}
		n += count
	}
	return n
}
