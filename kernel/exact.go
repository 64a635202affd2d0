package kernel

import (
	"math"
	"slices"
)

// decide returns the side that the reference's own arithmetic takes at bar i:
// +1, -1, or 0 if the averages are equal or one is NaN.
func decide(closes []float64, p *Params, i int) int8 {
	hma := wmaOver(int(p[HMASmooth]), i, func(k int) float64 {
		return float64(2*wmaAt(closes, int(p[HMAHalf]), k)) - wmaAt(closes, int(p[HMAFull]), k)
	})
	hma3 := wmaOver(int(p[HMA3Full]), i, func(k int) float64 {
		return float64(3*wmaAt(closes, int(p[HMA3Third]), k)) - wmaAt(closes, int(p[HMA3Half]), k) - wmaAt(closes, int(p[HMA3Full]), k)
	})
	return sideOf(hma, hma3)
}

// wmaAt is WMA(x, p)[i], for p-1 <= i.
func wmaAt(x []float64, p, i int) float64 {
	sum, weight := 0.0, 0.0
	for _, v := range x[i-p+1 : i+1] {
		weight++
		sum += float64(v * weight)
	}
	return sum / wmaDivisor(p)
}

// wmaOver is WMA(x, p)[i] of a series whose elements are computed.
func wmaOver(p, i int, x func(int) float64) float64 {
	sum, weight := 0.0, 0.0
	for k := i - p + 1; k <= i; k++ {
		weight++
		sum += float64(x(k) * weight)
	}
	return sum / wmaDivisor(p)
}

// exactBlock decides all bars of a tile by the reference's arithmetic, in
// another order of bars. For a fixed first bar, the sum of a WMA over p bars is
// the p-th partial sum of one accumulation: one pass of as many terms as the
// longest window gives the WMAs of every window, with the reference's bits.
type exactBlock struct {
	sums    [block]float64     // of a block, being added up
	closes  []float64          // of the tile and what it depends on, NaN where the series is not
	level1  [len(first)]padded // WMAs of the closes, in the order of first
	inner   padded             // what the second level averages
	hma     [tileBars]float64
	hma3    [tileBars]float64
	windows [len(first)]window // by length
}

// first are the windows of the first level.
var first = [...]int{HMAHalf, HMAFull, HMA3Third, HMA3Half, HMA3Full}

// window is a window of the first level, and its place in first.
type window struct{ bars, place int }

// block is the number of first bars that are added up side by side.
const block = 32

// padded is a column with room for a block before and behind its elements, so
// that blocks are written whole where only a part of one is wanted.
type padded []float64

func (c *padded) resize(n int) { *c = resize(*c, block+n+block) }

// at returns the address of element i, which may be in the padding.
func (c padded) at(i int) *float64 { return &c[block+i] }

// decideTile sets the bits of the bars from begin on, a tile of them, whose
// side is up or down.
func (e *exactBlock) decideTile(series []float64, p *Params, begin int, impl *implementation, up, down *[lanes]uint64) {
	for place, w := range first {
		e.windows[place] = window{int(p[w]), place}
	}
	slices.SortFunc(e.windows[:], func(a, b window) int { return a.bars - b.bars })
	longest := e.windows[len(first)-1].bars

	// The second level looks back so far, and needs so many bars of the first.
	reach := int(max(p[HMASmooth], p[HMA3Full])) - 1
	bars := reach + tileBars
	e.load(series, begin-reach-(longest-1), longest-1+bars+2*block)
	for place := range e.level1 {
		e.level1[place].resize(bars)
	}
	e.inner.resize(bars)
	e.average(bars, impl)

	// The rest of a vector behind the last bar is padding.
	n := (bars + lanes - 1) / lanes * lanes
	half, full, third3, half3, full3 := e.level1[0], e.level1[1], e.level1[2], e.level1[3], e.level1[4]
	impl.combine2(e.inner.at(0), half.at(0), full.at(0), n)
	e.averageInner(&e.hma, int(p[HMASmooth]), reach, impl)
	impl.combine3(e.inner.at(0), third3.at(0), half3.at(0), full3.at(0), n)
	e.averageInner(&e.hma3, int(p[HMA3Full]), reach, impl)
	impl.compare(&e.hma[0], &e.hma3[0], up, down)
}

// load copies n closes from bar begin on.
func (e *exactBlock) load(series []float64, begin, n int) {
	e.closes = resize(e.closes, n)
	before := min(max(0, -begin), n)
	copied := 0
	if from := begin + before; from < len(series) {
		copied = copy(e.closes[before:], series[from:])
	}
	for _, outside := range [][]float64{e.closes[:before], e.closes[before+copied:]} {
		for i := range outside {
			outside[i] = math.NaN()
		}
	}
}

// average fills so many bars of the first level. The WMA over p closes that
// begins at closes[k] ends with the column's element k+p-longest.
func (e *exactBlock) average(bars int, impl *implementation) {
	shortest, longest := e.windows[0].bars, e.windows[len(first)-1].bars
	for k := 0; k < longest-shortest+bars; k += block {
		e.sums = [block]float64{}
		done := 0
		for _, w := range e.windows {
			at := k + w.bars - longest
			if at >= bars {
				break // it and the longer ones end after the tile
			}
			impl.accumulate(&e.sums, &e.closes[k], int64(done), int64(w.bars))
			done = w.bars
			if at > -block {
				impl.emit(e.level1[w.place].at(at), &e.sums, wmaDivisor(w.bars))
			}
		}
	}
}

// averageInner writes WMA(inner, p) of the tile's bars, the first of which is
// element reach.
func (e *exactBlock) averageInner(dst *[tileBars]float64, p, reach int, impl *implementation) {
	for i := 0; i < tileBars; i += block {
		e.sums = [block]float64{}
		impl.accumulate(&e.sums, e.inner.at(reach+i-p+1), 0, int64(p))
		impl.emit(&dst[i], &e.sums, wmaDivisor(p))
	}
}
