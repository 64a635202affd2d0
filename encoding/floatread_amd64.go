//go:build !purego

package encoding

import "golang.org/x/sys/cpu"

var hasAVX2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasLZCNT

// plainFloatsAVX2 does the same as plainFloatsGo, but takes up to 16 digits
// before the point. It needs AVX2, BMI1, BMI2 and LZCNT.
//
//go:noescape
func plainFloatsAVX2(dst []float64, text []byte, p int) (n, end int)

func plainFloats(dst []float64, text []byte, p int) (n, end int) {
	if hasAVX2 {
		return plainFloatsAVX2(dst, text, p)
	}
	return plainFloatsGo(dst, text, p)
}
