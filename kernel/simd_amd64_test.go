//go:build amd64 && !purego

package kernel

func init() {
	simdImplementations = append(simdImplementations,
		simdImplementation{"avx2", hasAVX2FMA, filterAVX2, accumulateAVX2,
			emitAVX2, combine2AVX2, combine3AVX2, compareAVX2, buildAVX2},
		simdImplementation{"avx512", hasAVX512, filterAVX512, accumulateAVX512,
			emitAVX512, combine2AVX512, combine3AVX512, compareAVX512, buildAVX512},
	)
}
