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

func sideOf(hma, hma3 float64) int8 {
	switch { // a NaN is neither above nor below anything
	case hma3 > hma:
		return +1
	case hma3 < hma:
		return -1
	}
	return 0
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

func wmaDivisor(p int) float64 { return float64(p) * float64(p+1) / 2 }

// exactBlock decides all bars of a tile by the reference's arithmetic, in
// another order of bars. For a fixed first bar, the sum of a WMA over p bars is
// the p-th partial sum of one accumulation: one pass of as many terms as the
// longest window gives the WMAs of every window, with the reference's bits.
// accumulate adds up 32 first bars side by side.
type exactBlock struct {
	closes  []float64 // of the tile and what it depends on, NaN where the series is not
	level1  [5][]float64
	inner   []float64
	hma     [tileBars]float64
	hma3    [tileBars]float64
	windows [5]struct{ p, place int }
}

const block = 32 // first bars that accumulate adds up side by side

// decideTile sets the bits of the tile's bars whose side is up or down.
func (e *exactBlock) decideTile(series []float64, p *Params, first int, accumulate func(acc *[block]float64, x *float64, from, to int64), up, down *[lanes]uint64) {
	// The windows of the first level, by length. place is their column.
	for place, w := range []int{HMAHalf, HMAFull, HMA3Third, HMA3Half, HMA3Full} {
		e.windows[place].p, e.windows[place].place = int(p[w]), place
	}
	slices.SortFunc(e.windows[:], func(a, b struct{ p, place int }) int { return a.p - b.p })
	shortest, longest := e.windows[0].p, e.windows[4].p

	// The second level looks back so many bars.
	reach := int(max(p[HMASmooth], p[HMA3Full])) - 1
	bars := reach + tileBars // of the first level, from first-reach on
	begin := first - reach - (longest - 1)
	e.closes = resize(e.closes, longest-1+bars+2*block)
	for i := range e.closes {
		if bar := begin + i; bar >= 0 && bar < len(series) {
			e.closes[i] = series[bar]
		} else {
			e.closes[i] = math.NaN()
		}
	}
	for place := range e.level1 {
		e.level1[place] = resize(e.level1[place], bars)
	}
	e.inner = resize(e.inner, bars+block)
	for i := bars; i < len(e.inner); i++ {
		e.inner[i] = 0
	}

	for k := 0; k <= longest-shortest+bars-1; k += block {
		var acc [block]float64
		done := int64(0)
		for _, w := range e.windows {
			if k+w.p-longest >= bars {
				break // it and the longer ones end after the tile
			}
			accumulate(&acc, &e.closes[k], done, int64(w.p))
			done = int64(w.p)
			// The WMA that begins at k ends at k+p-1, which is that column's
			// element k+p-longest.
			divisor := wmaDivisor(w.p)
			at := k + w.p - longest
			column := e.level1[w.place]
			for q := max(0, -at); q < block && at+q < bars; q++ {
				column[at+q] = acc[q] / divisor
			}
		}
	}

	half, full, third3, half3, full3 := e.level1[0], e.level1[1], e.level1[2], e.level1[3], e.level1[4]
	for i := range bars {
		e.inner[i] = float64(2*half[i]) - full[i]
	}
	e.wma(&e.hma, int(p[HMASmooth]), reach, accumulate)
	for i := range bars {
		e.inner[i] = float64(3*third3[i]) - half3[i] - full3[i]
	}
	e.wma(&e.hma3, int(p[HMA3Full]), reach, accumulate)
	for lane := range lanes {
		up[lane], down[lane] = 0, 0
		for bit := range laneBars {
			i := lane*laneBars + bit
			if e.hma3[i] > e.hma[i] {
				up[lane] |= 1 << bit
			} else if e.hma3[i] < e.hma[i] {
				down[lane] |= 1 << bit
			}
		}
	}
}

// wma writes WMA(inner, p) of the tile's bars, which begin at inner[reach].
func (e *exactBlock) wma(dst *[tileBars]float64, p, reach int, accumulate func(acc *[block]float64, x *float64, from, to int64)) {
	divisor := wmaDivisor(p)
	for i := 0; i < tileBars; i += block {
		var acc [block]float64
		accumulate(&acc, &e.inner[reach+i-p+1], 0, int64(p))
		for q, sum := range acc {
			dst[i+q] = sum / divisor
		}
	}
}
