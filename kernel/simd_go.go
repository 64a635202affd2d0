package kernel

import "unsafe"

// term is one term of a combo's linear filter: coef times the sum that lies
// back bytes before.
type term struct {
	back int64
	coef float64
}

// filterGo computes 64 rows of 8 lanes of a linear filter and compares them
// with a bound: d[t][l] is the sum over the n terms of coef times the float64
// back bytes before sums[8*t+l], bit t of up[l] says that d > bound[l], and bit
// t of down[l] that d < -bound[l]. A NaN sets neither.
func filterGo(sums *float64, terms *term, n int, bound *[8]float64, up, down *[8]uint64) {
	// Rows lie one after the other, so 64 rows less a lag are 512 neighbours,
	// and lanes need no attention until the comparison.
	var d [512]float64
	lagged := func(m *term) *[512]float64 {
		return (*[512]float64)(unsafe.Add(unsafe.Pointer(sums), -m.back))
	}
	// Six terms a pass: one load and one store of d for six products.
	ms := unsafe.Slice(terms, n)
	for ; len(ms) >= 6; ms = ms[6:] {
		x0, c0 := lagged(&ms[0]), ms[0].coef
		x1, c1 := lagged(&ms[1]), ms[1].coef
		x2, c2 := lagged(&ms[2]), ms[2].coef
		x3, c3 := lagged(&ms[3]), ms[3].coef
		x4, c4 := lagged(&ms[4]), ms[4].coef
		x5, c5 := lagged(&ms[5]), ms[5].coef
		for i := range d {
			d[i] += (c0*x0[i] + c1*x1[i]) + (c2*x2[i] + c3*x3[i]) + (c4*x4[i] + c5*x5[i])
		}
	}
	for m := range ms {
		x, c := lagged(&ms[m]), ms[m].coef
		for i := range d {
			d[i] += c * x[i]
		}
	}

	for l := range 8 {
		above, below := bound[l], -bound[l]
		var u, w uint64
		for t := range 64 {
			v := d[t*8+l]
			// Assigned, not OR-ed, under the condition: the compiler makes
			// that a flag read instead of a branch nobody can predict.
			var over, under uint64
			if v > above {
				over = 1
			}
			if v < below {
				under = 1
			}
			u = u>>1 | over<<63
			w = w>>1 | under<<63
		}
		up[l], down[l] = u, w
	}
}

// accumulateGo adds the terms from..to-1 of 32 neighbouring weighted sums:
// acc[k] += x[k+j]*(j+1), for j = from..to-1 in this order, each product
// rounded before it is added.
func accumulateGo(acc *[32]float64, x *float64, from, to int64) {
	if from >= to {
		return
	}
	xs := unsafe.Slice((*float64)(unsafe.Add(unsafe.Pointer(x), 8*from)), 31+to-from)
	for k := 0; k < len(acc); k += 4 {
		// Four sums at a time, for one would wait for its own additions; they
		// share their values but for one a step.
		sum := (*[4]float64)(acc[k:])
		a0, a1, a2, a3 := sum[0], sum[1], sum[2], sum[3]
		x0, x1, x2 := xs[k], xs[k+1], xs[k+2]
		w := float64(from + 1)
		for _, x3 := range xs[k+3:][:to-from] {
			a0 += float64(x0 * w)
			a1 += float64(x1 * w)
			a2 += float64(x2 * w)
			a3 += float64(x3 * w)
			x0, x1, x2 = x1, x2, x3
			w++
		}
		*sum = [4]float64{a0, a1, a2, a3}
	}
}

// emitGo divides 32 sums: dst[k] = acc[k] / divisor.
func emitGo(dst *float64, acc *[32]float64, divisor float64) {
	to := (*[32]float64)(unsafe.Pointer(dst))
	for k, sum := range acc {
		to[k] = sum / divisor
	}
}

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

// compareGo compares 512 pairs of averages: bit i of up[w] says that
// hma3[64*w+i] > hma[64*w+i], and of down[w] that it is less. A NaN sets
// neither.
func compareGo(hma, hma3 *float64, up, down *[8]uint64) {
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
		up[w], down[w] = u, d
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
