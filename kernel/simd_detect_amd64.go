//go:build amd64 && !purego

package kernel

// hasAVX2FMA and hasAVX512 say which assembly this machine runs: the processor
// has the instructions, and the operating system saves the registers.
var hasAVX2FMA, hasAVX512 = detect()

func detect() (avx2fma, avx512 bool) {
	const (
		// Leaf 1, ecx.
		fma     = 1 << 12
		popcnt  = 1 << 23
		osxsave = 1 << 27
		avx     = 1 << 28
		// Leaf 7, ebx.
		bmi1     = 1 << 3
		avx2     = 1 << 5
		avx512f  = 1 << 16
		avx512dq = 1 << 17
		avx512bw = 1 << 30
		avx512vl = 1 << 31
		// XCR0: xmm and upper ymm; opmask, upper zmm, and zmm16 to zmm31.
		ymmState = 1<<1 | 1<<2
		zmmState = ymmState | 1<<5 | 1<<6 | 1<<7
	)
	const (
		base    = fma | popcnt | osxsave | avx
		avx2s   = bmi1 | avx2
		avx512s = avx512f | avx512dq | avx512bw | avx512vl
	)
	if leaves, _, _, _ := cpuid(0, 0); leaves < 7 {
		return false, false
	}
	if _, _, c, _ := cpuid(1, 0); c&base != base {
		return false, false
	}
	state, _ := xgetbv()
	_, b, _, _ := cpuid(7, 0)
	avx2fma = state&ymmState == ymmState && b&avx2s == avx2s
	avx512 = avx2fma && state&zmmState == zmmState && b&avx512s == avx512s
	return avx2fma, avx512
}
