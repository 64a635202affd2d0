package kernel

import "unsafe"

// wmaUnchecked is wma by bare addresses, and so without the checks of bounds
// that Go adds. It shows what those cost, and is good for nothing else. The
// averages are all but a thousandth of the reference's work: the rest is shared.
func wmaUnchecked(dst, x []float64, p int64, m *meter) {
	n := int64(len(x))
	if !warmUp(dst, p, m) || p > n {
		return
	}
	divisor := wmaDivisor(p)
	averages, terms := unsafe.Pointer(&dst[p-1]), unsafe.Pointer(&x[0])
	for first := range n - p + 1 {
		window := unsafe.Add(terms, 8*first)
		sum, weight := 0.0, 0.0
		for done := int64(0); done < p; {
			piece := min(p-done, pollEvery)
			if m.spend(int(piece)) {
				return
			}
			for end := done + piece; done < end; done++ {
				weight++
				sum += float64(*(*float64)(unsafe.Add(window, 8*done)) * weight)
			}
		}
		*(*float64)(unsafe.Add(averages, 8*first)) = sum / divisor
	}
}
