//go:build amd64 && !purego

package kernel

// assembly returns what the processor has the instructions for.
func assembly() []*implementation {
	var found []*implementation
	if hasAVX2FMA {
		found = append(found, &implementation{"avx2", buildAVX2, filterAVX2, prefixAVX2, combine2AVX2, combine3AVX2, compareAVX2, findBMI})
	}
	if hasAVX512 {
		found = append(found, &implementation{"avx512", buildAVX512, filterAVX512, prefixAVX512, combine2AVX512, combine3AVX512, compareAVX512, findBMI})
	}
	return found
}
