package kernel

import (
	"math"
	"math/bits"
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

// firstLevel are the windows of the averages of the closes themselves.
var firstLevel = [...]int{HMAHalf, HMAFull, HMA3Third, HMA3Half, HMA3Full}

// prefixBlock is the number of first bars that a prefix pass takes side by
// side.
const prefixBlock = 48

// exactBlock decides all bars of a tile by the reference's arithmetic, in
// another order of bars. For a fixed first bar, the sum of a WMA over p bars is
// the p-th partial sum of one accumulation: one pass of as many terms as the
// longest window gives the WMAs of every window, with the reference's bits, of
// one combo or of many.
type exactBlock struct {
	closes  []float64 // of the tile and what it depends on, NaN where the series is not
	windows windowSet // of the first level, of all combos of a batch
	reach   int       // bars before the tile that their second levels look back

	steps   []prefixStep      // of the windows, shortest first
	columns []float64         // their WMAs, in the order of steps, each with its padding
	column  [maxLag + 1]int32 // by window

	inner  padded     // what a second level averages
	second prefixStep // its window
	hma    average
	hma3   average
}

// average is a second level of a tile, with room for a whole last block.
type average [tileBars + prefixBlock]float64

// windowSet is a set of windows up to maxLag.
type windowSet struct {
	words [maxLag/64 + 1]uint64
	count int
}

func (s *windowSet) add(w int64) {
	if s.words[w/64]>>(w%64)&1 == 0 {
		s.words[w/64] |= 1 << (w % 64)
		s.count++
	}
}

// padded is a column with room for a block before and behind its elements, so
// that blocks are written whole where only a part of one is wanted.
type padded []float64

const padding = 2 * prefixBlock

// from returns the elements from i on, some of which may be padding.
func (c padded) from(i int) *float64 { return &c[prefixBlock+i] }

// keptColumns bounds the first level of a batch, in floats, unless it is a
// single combo's: what a second-level cache holds.
const keptColumns = 1 << 17

// reachOf returns how many bars before a bar its second level looks back.
func reachOf(p *Params) int { return int(max(p[HMASmooth], p[HMA3Full])) - 1 }

// decideTile decides the tile whose first bar is begin for some of the combos.
// It goes through them in batches, and leaves the rest undone if the meter says
// so.
func (e *exactBlock) decideTile(series []float64, begin int, combos []*filtered, sides []sides, impl *implementation, m *meter) {
	for len(combos) > 0 {
		n := e.batch(combos)
		if !e.average(series, begin, impl, m) {
			return
		}
		for _, c := range combos[:n] {
			if !e.compare(c.params, &sides[c.place], impl, m) {
				return
			}
		}
		combos = combos[n:]
	}
}

// batch takes as many combos as share a first level of bounded size, at least
// one, and returns their number.
func (e *exactBlock) batch(combos []*filtered) int {
	e.windows, e.reach = windowSet{}, 0
	for i, c := range combos {
		before := e.windows
		for _, w := range firstLevel {
			e.windows.add(c.params[w])
		}
		reach := max(e.reach, reachOf(c.params))
		if i > 0 && e.windows.count*(reach+tileBars+padding) > keptColumns {
			e.windows = before
			return i
		}
		e.reach = reach
	}
	return len(combos)
}

// average fills the first level of a batch. It reports whether it did.
func (e *exactBlock) average(series []float64, begin int, impl *implementation, m *meter) bool {
	bars := e.reach + tileBars
	e.steps = e.steps[:0]
	for i, word := range e.windows.words {
		for ; word != 0; word &= word - 1 {
			w := 64*i + bits.TrailingZeros64(word)
			e.column[w] = int32(len(e.steps))
			e.steps = append(e.steps, prefixStep{bars: int64(w), divisor: wmaDivisor(w)})
		}
	}
	longest := int(e.steps[len(e.steps)-1].bars)
	e.columns = resize(e.columns, len(e.steps)*(bars+padding))
	e.load(series, begin-e.reach-(longest-1), longest-1+bars+2*prefixBlock)

	// The WMA over p closes that begins at closes[k] is element k+p-longest of
	// its column.
	for i := range e.steps {
		s := &e.steps[i]
		s.to = int64(i*(bars+padding)+prefixBlock-longest) + s.bars // of the block at k = 0
	}
	from, to := len(e.steps)-1, len(e.steps)
	for k := 0; k < longest-int(e.steps[0].bars)+bars; k += prefixBlock {
		// Of a block that begins at k, the columns of short windows want nothing
		// yet, and those of long ones nothing more.
		for from > 0 && k+int(e.steps[from-1].bars)-longest > -prefixBlock {
			from--
		}
		for to > from && k+int(e.steps[to-1].bars)-longest >= bars {
			to--
		}
		if from == to {
			continue
		}
		if m.spend(prefixBlock * int(e.steps[to-1].bars)) {
			return false
		}
		impl.prefix(&e.columns[0], &e.closes[k], &e.steps[from], to-from, k)
	}
	return true
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

// compare finds the sides of a combo of the batch. It reports whether it did.
func (e *exactBlock) compare(p *Params, s *sides, impl *implementation, m *meter) bool {
	reach := reachOf(p)
	e.inner = resize(e.inner, reach+tileBars+padding)
	// The rest of a vector behind the last bar is padding.
	n := (reach + tileBars + lanes - 1) / lanes * lanes
	first := func(window int) *float64 {
		column := int(e.column[p[window]]) * (e.reach + tileBars + padding)
		return padded(e.columns[column:]).from(e.reach - reach)
	}
	impl.combine2(e.inner.from(0), first(HMAHalf), first(HMAFull), n)
	if !e.averageInner(&e.hma, int(p[HMASmooth]), reach, impl, m) {
		return false
	}
	impl.combine3(e.inner.from(0), first(HMA3Third), first(HMA3Half), first(HMA3Full), n)
	if !e.averageInner(&e.hma3, int(p[HMA3Full]), reach, impl, m) {
		return false
	}
	impl.compare(&e.hma[0], &e.hma3[0], s)
	return true
}

// averageInner writes WMA(inner, p) of the tile's bars, the first of which is
// element reach. It reports whether it did.
func (e *exactBlock) averageInner(dst *average, p, reach int, impl *implementation, m *meter) bool {
	e.second = prefixStep{bars: int64(p), divisor: wmaDivisor(p)}
	for i := 0; i < tileBars; i += prefixBlock {
		if m.spend(prefixBlock * p) {
			return false
		}
		impl.prefix(&dst[i], e.inner.from(reach+i-p+1), &e.second, 1, 0)
	}
	return true
}
