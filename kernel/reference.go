package kernel

import "math"

// sweepReference runs one combo. It is the definition of the package comment
// line for line, and the measure of every faster way to compute a sweep. The
// outcome is meaningless if m stopped the work.
func sweepReference(close []float64, p *Params, fee float64, wma averager, s *scratch, m *meter) outcome {
	s.resize(len(close))
	half, full, hma := s.columns[0], s.columns[1], s.columns[2]
	wma(half, close, p[HMAHalf], m)
	wma(full, close, p[HMAFull], m)
	for i := range half {
		if m.spend(1) {
			return outcome{}
		}
		half[i] = float64(2*half[i]) - full[i]
	}
	wma(hma, half, p[HMASmooth], m)

	third, half, full, hma3 := s.columns[3], s.columns[0], s.columns[1], s.columns[4]
	wma(third, close, p[HMA3Third], m)
	wma(half, close, p[HMA3Half], m)
	wma(full, close, p[HMA3Full], m)
	for i := range third {
		if m.spend(1) {
			return outcome{}
		}
		third[i] = float64(3*third[i]) - half[i] - full[i]
	}
	wma(hma3, third, p[HMA3Full], m)

	return trade(close, hma, hma3, fee, m)
}

// An averager writes averages as wma does.
type averager func(dst, x []float64, p int64, m *meter)

// wma writes the weighted moving average of x over p bars into dst, which is
// as long as x and shares no memory with it. A window longer than the series
// leaves nothing but NaN.
func wma(dst, x []float64, p int64, m *meter) {
	n := int64(len(x))
	if !warmUp(dst, p, m) || p > n {
		return
	}
	divisor := wmaDivisor(p)
	for last := p - 1; last < n; last++ {
		sum, weight := 0.0, 0.0
		// A window of many millions of bars is summed in pieces, so that even
		// one bar of it notices the end of the sweep in time.
		for rest := x[last-p+1 : last+1]; len(rest) > 0; {
			piece := rest[:min(len(rest), pollEvery)]
			rest = rest[len(piece):]
			if m.spend(len(piece)) {
				return
			}
			for _, v := range piece {
				weight++
				sum += float64(v * weight)
			}
		}
		dst[last] = sum / divisor
	}
}

// warmUp writes NaN for the bars before the first whole window. It returns false
// if m stopped the work.
func warmUp(dst []float64, p int64, m *meter) bool {
	for i := range dst[:min(p-1, int64(len(dst)))] {
		if m.spend(1) {
			return false
		}
		dst[i] = math.NaN()
	}
	return true
}

// wmaDivisor is p*(p+1)/2, with the product rounded once, as it would be from
// whole numbers, but without their overflow.
func wmaDivisor[T int | int64](p T) float64 { return float64(p) * float64(p+1) / 2 }

// sideOf is the side that two averages ask for: +1, -1, or 0 if they are equal
// or one is NaN, which is neither above nor below anything.
func sideOf(hma, hma3 float64) int8 {
	switch {
	case hma3 > hma:
		return +1
	case hma3 < hma:
		return -1
	}
	return 0
}

// trade plays the stop-and-reverse strategy over the two averages.
func trade(close, hma, hma3 []float64, fee float64, m *meter) outcome {
	hma, hma3 = hma[:len(close)], hma3[:len(close)]
	var (
		pnl    float64
		trades int64
		side   int8
		entry  float64
	)
	for i, price := range close {
		if m.spend(1) {
			return outcome{}
		}
		next := sideOf(hma[i], hma3[i])
		if next == 0 || next == side {
			continue
		}
		if side != 0 {
			pnl += float64(float64(side)*(price/entry-1)*100) - float64(fee*100)
			trades++
		}
		side, entry = next, price
	}
	return outcome{pnl, trades, side}
}

// An outcome is what one combo adds to Results.
type outcome struct {
	pnl    float64
	trades int64
	open   int8
}
