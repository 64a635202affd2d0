package kernel

import (
	"cmp"
	"math"
	"slices"
)

// This file turns a combo into one linear filter of the closes whose sign
// decides the side, and derives how far from zero its value must be for the
// decision to be certainly that of the reference kernel. It is the filtered
// exact predicate of computational geometry (Shewchuk, 1997): decide almost
// every bar cheaply, prove which, and decide the rest by the definition.
//
// # The filter
//
// Write z for a delay by one bar, and p for a window, D = p(p+1)/2. Then
//
//	W_p = [p - (p+1) z + z^(p+1)] / [D (1-z)^2],
//
// so that with S = closes / (1-z)^4, the fourfold prefix sum of the closes,
// a combo's difference of averages is a handful of delayed entries of S:
//
//	HMA3 - HMA = (3 W_t - W_h' - W_f') W_f' - (2 W_h - W_f) W_s = N(z) S.
//
// N has at most 12 + 11 terms, and fewer since delays coincide, 0, 1 and 2 always. Its value does not
// change if a constant c is taken off the closes first: both averages have the
// weights' sum 1. c is a close nearby, and the sums begin not far back (see
// tile), which keeps S small.
//
// # The error of the filter
//
// u = 2^-53 is the unit roundoff; fl(a+b) differs from a+b by at most u|fl(a+b)|.
// Let g = N/(1-z)^4 be the filter's finite impulse response, and m1 to m4 the
// largest magnitudes among the computed prefix sums S1 to S4 of a tile's lane.
// Each computed sum is the exact prefix sum of its computed input plus an
// error e_k[t] with |e_k[t]| <= u|S_k[t]| <= u m_k. Unrolling all four,
//
//	N S4 = g (y + e_0 + e_1) + g(1-z) e_2 + g(1-z)^2 e_3 + g(1-z)^3 e_4,
//
// exactly, where y + e_0 are the computed closes less c: |e_0| <= u|y + e_0|
// <= 2u m1 (1+u), since y + e_0 is a difference of two neighbours in S1 but
// for e_1. With G_k the sum of magnitudes of g(1-z)^k,
//
//	|N S4 - g y| <= u (3.1 G_0 m1 + G_1 m2 + G_2 m3 + G_3 m4).          (1)
//
// The G_k are bounded by those of the factors. The response of W_p is p/D,
// (p-1)/D, ..., 1/D, so its magnitudes add up to 1, those of W_p(1-z) to
// 4/(p+1), and those of W_p(1-z)^2 to 4/p. Magnitudes of a product of filters
// are at most the product of the magnitudes, however the (1-z) are dealt out
// among the factors, so that the least of the ways to deal them out holds.
//
// The coefficients of N are rounded. Before like delays are joined they are
// products of coefficients of W, whose magnitudes add up to
// A = (12/t + 4/h' + 4/f') 4/f' + (8/h + 4/f) 4/s. On the way into N such a
// product is rounded at most 6 + j times: twice in a division (D and the other
// factors are whole and exact), twice or less where the W within a bracket are
// joined, once in the product, once to spare, and j times where j products
// join one term. Adding n products in any order, fused or not, errs by at most
// n u A m4 to first order. Together
//
//	|computed N S4 - N S4| <= u (n + 6 + j) A m4 (1 + small).           (2)
//
// # The error of the reference
//
// Let X be the largest magnitude of the closes that the bar depends on. The
// reference's WMA adds p rounded products from left to right: products err by
// u X D in all, partial sums by u X (1*2/2 + 2*3/2 + ... + p(p+1)/2) =
// u X p(p+1)(p+2)/6, and the division by u X; divided by D that is u X r_p
// with r_p = (p+2)/3 + 2. An error of its input passes through a WMA no larger
// than it was. Hence, with 2A - B and 3A - B - C rounded as they are,
//
//	HMA  errs by u X (2 r_h + r_f + 3 + 3 r_s),
//	HMA3 errs by u X (3 r_t + r_h' + r_f' + 12 + 5 r_f').                (3)
//
// # The decision
//
// If the computed N S4 is above (1) + (2) + (3), then HMA3 > HMA in the
// reference's own arithmetic; if it is below minus that, HMA3 < HMA. Where it is
// hardly above, an implementation may leave the bar undecided. Second
// order effects are below 1e-9 of the bound for windows up to maxLag; slack
// covers them and the rounding of the bound itself. tiny covers results that
// underflow, each of which errs by less than 2^-1074. Closes beyond hugeClose
// could overflow in the reference and not here, so that they count as infinite
// (see tile.build). A NaN or an infinity among the closes makes the bound NaN
// or infinite, which nothing is above. Below hugeClose nothing overflows: the
// sums of maxLag + 64 closes reach 1e12 times as far, and N times those, A <= 128
// being its coefficients, stays below 1e305. So the filter's value is finite
// wherever its bound is.
const (
	unit      = 1.0 / (1 << 53)
	slack     = 1.01
	tiny      = 1e-290
	hugeClose = 1e290
)

// term is defined in simd_go.go: a coefficient of N and its delay.

// maxTerms is the largest number of terms of N, and termRoom has room for as
// many zeros as filterGo looks at.
const (
	maxTerms = 23
	termRoom = 27
)

// maxLag is the longest delay of a filter, in bars. Longer windows are left to
// the reference: their sums would begin too far back.
const maxLag = 2048

// signFilter is one combo's filter. Its implementations know where its fields
// lie, down to weights.
type signFilter struct {
	terms [termRoom]term // pairs first, of which the second is one bar further back
	n     int            // of terms
	pairs int            // of terms
	// The bound of a lane is weights[0]*X + weights[1]*m1 + ... + weights[4]*m4
	// + tiny.
	weights [5]float64

	lag  int // the longest delay of the terms, in bars
	warm int // the first bar at which both averages exist
}

// factor is a polynomial in z with few terms: a numerator of W, or a weighted
// sum of such.
type factor struct {
	delay [5]int
	coef  [5]float64
	n     int
}

func (f *factor) add(delay int, coef float64) {
	for i := range f.n {
		if f.delay[i] == delay {
			f.coef[i] += coef
			return
		}
	}
	f.delay[f.n], f.coef[f.n] = delay, coef
	f.n++
}

// addWMA adds weight times the numerator of W_p.
func (f *factor) addWMA(weight float64, p int) {
	d := wmaDivisor(p)
	f.add(0, weight*float64(p)/d)
	f.add(1, -weight*float64(p+1)/d)
	f.add(p+1, weight/d)
}

// fitsFilter tells whether a combo has a filter of at most maxLag.
func fitsFilter(p *Params) bool {
	for _, w := range p {
		if w > maxLag {
			return false
		}
	}
	return filterLag(p) <= maxLag
}

// filterLag returns the longest delay among the terms of a combo's filter.
func filterLag(p *Params) int {
	hma := max(p[HMAHalf], p[HMAFull]) + p[HMASmooth]
	hma3 := max(p[HMA3Third], p[HMA3Half], p[HMA3Full]) + p[HMA3Full]
	return int(max(hma, hma3)) + 2
}

// newSignFilter derives the filter of a combo for which fitsFilter holds.
func newSignFilter(p *Params) signFilter {
	half, full, smooth := int(p[HMAHalf]), int(p[HMAFull]), int(p[HMASmooth])
	third3, half3, full3 := int(p[HMA3Third]), int(p[HMA3Half]), int(p[HMA3Full])

	var inner, outer, inner3, outer3 factor
	inner.addWMA(2, half)
	inner.addWMA(-1, full)
	outer.addWMA(-1, smooth) // HMA is taken off
	inner3.addWMA(3, third3)
	inner3.addWMA(-1, half3)
	inner3.addWMA(-1, full3)
	outer3.addWMA(1, full3)

	f := signFilter{
		lag:  filterLag(p),
		warm: max(max(half, full)+smooth, max(third3, half3, full3)+full3) - 2,
	}
	joined := f.addProduct(&inner, &outer)
	joined += f.addProduct(&inner3, &outer3)

	hma := response{3, 8/float64(half+1) + 4/float64(full+1), 8/float64(half) + 4/float64(full)}
	hma3 := response{5, 12/float64(third3+1) + 4/float64(half3+1) + 4/float64(full3+1), 12/float64(third3) + 4/float64(half3) + 4/float64(full3)}
	g := hma.after(wmaResponse(smooth))
	for k, v := range hma3.after(wmaResponse(full3)) {
		g[k] += v
	}
	closes := 2*wmaRounding(half) + wmaRounding(full) + 3 + 3*wmaRounding(smooth) +
		3*wmaRounding(third3) + wmaRounding(half3) + wmaRounding(full3) + 12 + 5*wmaRounding(full3)
	for k, weight := range [...]float64{closes, 3.1 * g[0], g[1], g[2], g[3] + float64(f.n+6+joined)*g[4]} {
		f.weights[k] = slack * unit * weight
	}
	f.pairUp()
	return f
}

// pairUp brings terms that are one bar apart to the front, in pairs.
func (f *signFilter) pairUp() {
	terms := f.terms[:f.n]
	slices.SortFunc(terms, func(a, b term) int { return cmp.Compare(a.back, b.back) })
	var singles [maxTerms]term
	alone := 0
	for i := 0; i < len(terms); {
		if i+1 < len(terms) && terms[i+1].back-terms[i].back == rowBytes {
			terms[2*f.pairs], terms[2*f.pairs+1] = terms[i], terms[i+1]
			f.pairs++
			i += 2
		} else {
			singles[alone] = terms[i]
			alone++
			i++
		}
	}
	copy(terms[2*f.pairs:], singles[:alone])
}

// addProduct adds the product of two factors to the terms, and returns how
// often it joined a product to a term at most.
func (f *signFilter) addProduct(a, b *factor) (joined int) {
	var times [maxTerms]int
	for i := range a.n {
	next:
		for j := range b.n {
			back := int64(a.delay[i]+b.delay[j]) * rowBytes
			coef := a.coef[i] * b.coef[j]
			for k := range f.n {
				if f.terms[k].back == back {
					f.terms[k].coef += coef
					times[k]++
					joined = max(joined, times[k])
					continue next
				}
			}
			f.terms[f.n] = term{back, coef}
			f.n++
		}
	}
	return joined
}

// response bounds the sums of magnitudes of a filter's impulse response, of
// its first and of its second differences.
type response [3]float64

func wmaResponse(p int) response { return response{1, 4 / float64(p+1), 4 / float64(p)} }

// after bounds the sums of magnitudes of the differences 0 to 4 of the filter
// r after the filter q.
func (r response) after(q response) (g [5]float64) {
	for k := range g {
		g[k] = math.Inf(1)
		for i := range r {
			if j := k - i; j >= 0 && j < len(q) {
				g[k] = min(g[k], r[i]*q[j])
			}
		}
	}
	return g
}

// wmaRounding is r_p: the reference's error of a WMA over p bars, in units of
// u X.
func wmaRounding(p int) float64 { return float64(p+2)/3 + 2 }

// bound returns the bound of a lane.
func (f *signFilter) bound(m *maxima, lane int) float64 {
	return f.weights[0]*m.closes[lane] + f.weights[1]*m.sums[0][lane] + f.weights[2]*m.sums[1][lane] +
		f.weights[3]*m.sums[2][lane] + f.weights[4]*m.sums[3][lane] + tiny
}
