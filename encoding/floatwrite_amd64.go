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

// shortest finds the text of up to a block of floats.
func (d *decimals) shortest(floats []float64) {
	if hasAVX512 && len(floats) == floatBlock {
		findAVX512(d, (*[floatBlock]float64)(floats), &powersOfTen[0])
		return
	}
	d.find(floats)
	splitSSE2(d)
}
