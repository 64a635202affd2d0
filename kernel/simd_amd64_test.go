//go:build amd64 && !purego

package kernel

func init() {
	simdImplementations = append(simdImplementations,
		simdImplementation{"avx2", hasAVX2FMA, filterAVX2, accumulateAVX2},
		simdImplementation{"avx512", hasAVX512, filterAVX512, accumulateAVX512},
	)
}
