//go:build amd64 && !purego

package kernel

// assembly returns what the processor has the instructions for.
func assembly() []*implementation {
	var found []*implementation
	if hasAVX2FMA {
		found = append(found, &implementation{"avx2", filterAVX2, accumulateAVX2})
	}
	if hasAVX512 {
		found = append(found, &implementation{"avx512", filterAVX512, accumulateAVX512})
	}
	return found
}
