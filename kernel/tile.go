package kernel

import (
	"math"
	"unsafe"
)

// A tile is tileBars consecutive bars: 8 lanes of 64, one after the other. A
// row holds the same place of each lane, so that one aligned vector is 8 bars,
// and a delay is a number of rows. Each lane has its own prefix sums, which
// begin lag bars before it: the shorter the way, the smaller the sums, and the
// tighter the bound.
const (
	lanes    = 8
	laneBars = 64
	tileBars = lanes * laneBars
	rowBytes = lanes * 8
)

// tilesOf returns the number of tiles of a series.
func tilesOf(bars int) int { return (bars + tileBars - 1) / tileBars }

// maxima are the largest magnitudes in each lane of a tile: of the closes, and
// of the computed prefix sums S1 to S4.
type maxima struct {
	closes [lanes]float64
	sums   [4][lanes]float64
}

// tile holds the fourfold prefix sums of a tile, lag rows before its first
// bars included.
type tile struct {
	first int       // bar of row lag in lane 0: the first that is decided
	sums  []float64 // (lag+laneBars) x lanes, 64-aligned
	max   maxima
}

// alignedFloats returns n floats at an address that a vector load likes.
func alignedFloats(n int) []float64 {
	all := make([]float64, n+rowBytes/8-1)
	skip := 0
	for uintptr(unsafe.Pointer(&all[skip]))%rowBytes != 0 {
		skip++
	}
	return all[skip : skip+n : skip+n]
}

// build fills the tile whose bars begin at first. Bars before and after the
// series count as if they were the lane's centre: no bar that is decided
// depends on them.
func (t *tile) build(closes []float64, first, lag int, impl *implementation) {
	t.first = first
	if begin := first - lag; begin >= 0 && first+tileBars <= len(closes) {
		impl.build(&t.sums[0], &closes[begin], lag+laneBars, &t.max)
	} else {
		for lane := range lanes {
			t.buildLane(closes, lane, first+lane*laneBars-lag, lag+laneBars)
		}
	}
	for lane, x := range t.max.closes {
		if !(x < hugeClose) {
			t.max.closes[lane] = math.Inf(1)
		}
	}
}

// buildLane sums up one lane, which begins at bar begin and has rows rows.
func (t *tile) buildLane(closes []float64, lane, begin, rows int) {
	column := t.sums[lane:]
	from, to := min(max(begin, 0), len(closes)), min(begin+rows, len(closes))
	t.max.closes[lane] = 0
	for k := range t.max.sums {
		t.max.sums[k][lane] = 0
	}
	row := 0
	for ; row < from-begin && row < rows; row++ {
		column[row*lanes] = 0
	}
	var s [4]float64
	if from < to {
		s = sumLane(closes[from:to], column[row*lanes:], &t.max, lane)
		row += to - from
	}
	for ; row < rows; row++ {
		s[1] += s[0]
		s[2] += s[1]
		s[3] += s[2]
		column[row*lanes] = s[3]
	}
}

// sumLane writes the fourth sums of closes, less the first of them, into every
// lanes-th element of sums, and the largest magnitudes into the lane of m. It
// returns the four sums at the end.
func sumLane(closes, sums []float64, m *maxima, lane int) [4]float64 {
	var s1, s2, s3, s4 float64
	var x, m1, m2, m3, m4 uint64
	centre := closes[0]
	for row, close := range closes {
		s1 += close - centre
		s2 += s1
		s3 += s2
		s4 += s3
		sums[row*lanes] = s4
		x = max(x, magnitude(close))
		m1 = max(m1, magnitude(s1))
		m2 = max(m2, magnitude(s2))
		m3 = max(m3, magnitude(s3))
		m4 = max(m4, magnitude(s4))
	}
	m.closes[lane] = math.Float64frombits(x)
	for k, largest := range [...]uint64{m1, m2, m3, m4} {
		m.sums[k][lane] = math.Float64frombits(largest)
	}
	return [4]float64{s1, s2, s3, s4}
}

// magnitude returns the bits of |v|. As whole numbers they are in the order of
// the magnitudes, with NaN above everything.
func magnitude(v float64) uint64 { return math.Float64bits(v) &^ (1 << 63) }
