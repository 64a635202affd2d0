//go:build !purego

package encoding

import "golang.org/x/sys/cpu"

var hasAVX512 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512IFMA

// splitSSE2 does the same as splitGo. All amd64 have SSE2.
//
//go:noescape
func splitSSE2(d *decimals)

// findAVX512 does the same as find and split, of eight floats at once. Its
// products have 104 bits, so it leaves some more undecided. It needs AVX-512 F,
// DQ, BW and IFMA.
//
//go:noescape
func findAVX512(d *decimals, floats *[floatBlock]float64, powers *power)

// putAVX2 does the same as putGo, but stops before what has not 1 to 15 digits
// before the point. It needs AVX2 and LZCNT.
//
//go:noescape
func putAVX2(d *decimals, out *[floatBlock * maxFloatText]byte, i, n int) (size, end int)

// put writes decimals from i on, each with a comma behind it, up to n or the
// first that is undecided, and returns the number of bytes and where it ended.
func (d *decimals) put(out *[floatBlock * maxFloatText]byte, i, n int) (size, end int) {
	if hasAVX2 {
		if size, end = putAVX2(d, out, i, n); end > i {
			return size, end
		}
	}
	return d.putGo(out, i, n)
}

// shortest finds the text of up to a block of floats.
func (d *decimals) shortest(floats []float64) {
	if hasAVX512 && len(floats) == floatBlock {
		findAVX512(d, (*[floatBlock]float64)(floats), &powersOfTen[0])
		return
	}
	d.find(floats)
	splitSSE2(d)
}
