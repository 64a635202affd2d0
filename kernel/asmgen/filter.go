package main

import (
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const filterSignature = "func(sums *float64, f *signFilter, m *maxima, s *sides)"

func filterDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " computes 64 rows of 8 lanes of a linear filter and compares",
		"them with the lanes' bounds. It replaces this loop, except that the order of",
		"a sum is free, and that products may be fused into it:",
		"",
		"\tfor l := range 8 {",
		"\t\ts.up[l], s.down[l] = 0, 0",
		"\t\tfor t := range 64 {",
		"\t\t\tat := unsafe.Add(unsafe.Pointer(sums), 64*t+8*l)",
		"\t\t\tvar d float64",
		"\t\t\tfor _, m := range f.terms[:f.n] {",
		"\t\t\t\td += m.coef * *(*float64)(unsafe.Add(at, -m.back))",
		"\t\t\t}",
		"\t\t\tif top(d) > top(f.bound(m, l)) {",
		"\t\t\t\ts.up[l] |= 1 << t",
		"\t\t\t}",
		"\t\t\tif top(-d) > top(f.bound(m, l)) {",
		"\t\t\t\ts.down[l] |= 1 << t",
		"\t\t\t}",
		"\t\t}",
		"\t}",
		"",
		"top(v) is the upper 16 bits of v as a signed number, or the largest such",
		"number if v is a bound that is not finite. The first 2*f.pairs terms are pairs",
		"of which the second lies a row further back: both read what is loaded once.",
		"There is at least one pair.",
	}, remarks...)
}

// filterSums emits the sums of a group of rows that begin at the register at:
// every term is added to the accumulators acc, of which parts make a row.
// coef are two registers for coefficients, and load makes one for what is
// loaded.
func filterSums(acc []reg.VecVirtual, parts int, coef [2]reg.VecVirtual, load func() reg.VecVirtual, at, filter, pairs, end reg.Register) {
	vector := rowSize / parts
	term, from := asm.GP64(), asm.GP64()
	asm.MOVQ(filter, term)

	asm.Label("pair")
	asm.MOVQ(at, from)
	asm.SUBQ(Mem{Base: term, Disp: termSize + termBack}, from)
	asm.VBROADCASTSD(Mem{Base: term, Disp: termCoef}, coef[0])
	asm.VBROADCASTSD(Mem{Base: term, Disp: termSize + termCoef}, coef[1])
	for i := range len(acc) + parts {
		x := load()
		asm.VMOVUPD(Mem{Base: from, Disp: i * vector}, x)
		if i >= parts {
			asm.VFMADD231PD(x, coef[0], acc[i-parts])
		}
		if i < len(acc) {
			asm.VFMADD231PD(x, coef[1], acc[i])
		}
	}
	asm.ADDQ(I8(2*termSize), term)
	asm.CMPQ(term, pairs)
	asm.JNE(LabelRef("pair"))

	asm.CMPQ(term, end)
	asm.JE(LabelRef("decide"))
	asm.Label("single")
	asm.MOVQ(at, from)
	asm.SUBQ(Mem{Base: term, Disp: termBack}, from)
	asm.VBROADCASTSD(Mem{Base: term, Disp: termCoef}, coef[0])
	for i, a := range acc {
		asm.VFMADD231PD(Mem{Base: from, Disp: i * vector}, coef[0], a)
	}
	asm.ADDQ(I8(termSize), term)
	asm.CMPQ(term, end)
	asm.JNE(LabelRef("single"))
	asm.Label("decide")
}

// filterEnds returns the addresses behind the pairs and behind the terms.
func filterEnds(filter reg.Register) (pairs, end reg.Register) {
	p, e := asm.GP64(), asm.GP64()
	asm.MOVQ(Mem{Base: filter, Disp: filterPairs}, p)
	asm.SHLQ(U8(5), p)
	asm.ADDQ(filter, p)
	asm.MOVQ(Mem{Base: filter, Disp: filterTerms}, e)
	asm.SHLQ(U8(4), e)
	asm.ADDQ(filter, e)
	return p, e
}

// filterBound computes the bounds of the lanes of a vector, which begin disp
// bytes into the maxima.
func filterBound(filter, maxima reg.Register, disp int, alloc func() reg.VecVirtual, tiny Mem) reg.VecVirtual {
	bound, weight := alloc(), alloc()
	asm.VBROADCASTSD(tiny, bound)
	for k := range 5 {
		asm.VBROADCASTSD(Mem{Base: filter, Disp: filterWeights + 8*k}, weight)
		asm.VFMADD231PD(Mem{Base: maxima, Disp: maximaRow*k + disp}, weight, bound)
	}
	return bound
}

// data emits read-only words of a size in bytes.
func data(name string, size int, values ...uint64) Mem {
	at := asm.StaticGlobal(name)
	asm.DataAttributes(attr.RODATA | attr.NOPTR)
	for i, v := range values {
		switch size {
		case 2:
			asm.AddDatum(2*i, U16(v))
		case 4:
			asm.AddDatum(4*i, U32(v))
		case 8:
			asm.AddDatum(8*i, U64(v))
		}
	}
	return at
}

const (
	positive32 = 0x7fffffff // all bits but the sign
	finite32   = 0x7fefffff // the upper half of the largest number
	negative16 = 0x8000
)

func filterAVX2(pkg *types.Package) {
	tiny := data("tinyAVX2", 8, tinyBits)
	positive := data("positiveAVX2", 4, repeat(positive32, 8)...)
	finite := data("finiteAVX2", 4, repeat(finite32, 8)...)
	negative := data("negativeAVX2", 2, repeat(negative16, 16)...)
	rowOrder := data("rowOrderAVX2", 4, 0, 4, 1, 5, 2, 6, 3, 7)
	// The lane of each bit of a row's byte, which is how the packs leave them.
	laneOf := [8]int{0, 1, 4, 5, 2, 3, 6, 7}

	function(pkg, "filterAVX2", filterSignature, true, filterDoc("filterAVX2",
		"It needs AVX2 and FMA.")...)
	filter, maxima := asm.Load(asm.Param("f"), asm.GP64()), asm.Load(asm.Param("m"), asm.GP64())
	at, sides := asm.Load(asm.Param("sums"), asm.GP64()), asm.Load(asm.Param("s"), asm.GP64())
	pairs, end := filterEnds(filter)

	// upper packs the upper halves of two vectors' floats.
	upper := func(a, b, dst reg.VecVirtual) { asm.VSHUFPS(U8(0xdd), b, a, dst) }
	// words keeps the upper halves of these, of two vectors.
	words := func(a, b reg.VecVirtual) {
		asm.VPSRAD(U8(16), a, a)
		asm.VPSRAD(U8(16), b, b)
		asm.VPACKSSDW(b, a, a)
	}

	asm.Comment("The bounds, upper 16 bits each; those that are not finite are the largest.")
	bound, other := filterBound(filter, maxima, 0, asm.YMM, tiny), filterBound(filter, maxima, 32, asm.YMM, tiny)
	upper(bound, other, bound)
	asm.VPAND(positive, bound, bound)
	asm.VPCMPGTD(finite, bound, other)
	asm.VPOR(other, bound, bound)
	asm.VPAND(positive, bound, bound)
	asm.VMOVDQU(bound, other)
	words(bound, other)

	groups := asm.GP64()
	asm.MOVQ(U32(rows/4), groups)
	asm.Label("group")
	acc := vectors(8, asm.YMM)
	for _, a := range acc {
		asm.VXORPD(a, a, a)
	}
	filterSums(acc, 2, [2]reg.VecVirtual{asm.YMM(), asm.YMM()}, asm.YMM, at, filter, pairs, end)

	asm.Comment("A byte of each row, a bit of each lane.")
	for i := range 4 {
		upper(acc[2*i], acc[2*i+1], acc[2*i])
	}
	words(acc[0], acc[2])
	words(acc[4], acc[6])
	store := func(a, b reg.VecVirtual, disp int) {
		asm.VPCMPGTW(bound, a, acc[1])
		asm.VPCMPGTW(bound, b, acc[3])
		asm.VPACKSSWB(acc[3], acc[1], acc[1])
		asm.VMOVDQU(rowOrder, acc[3])
		asm.VPERMD(acc[1], acc[3], acc[1])
		mask := asm.GP32()
		asm.VPMOVMSKB(acc[1], mask)
		asm.MOVL(mask, Mem{Base: sides, Disp: disp})
	}
	store(acc[0], acc[4], 0)
	asm.VPXOR(negative, acc[0], acc[0])
	asm.VPXOR(negative, acc[4], acc[4])
	store(acc[0], acc[4], sidesDown)
	asm.ADDQ(I8(4), sides)
	asm.ADDQ(I32(4*rowSize), at)
	asm.DECQ(groups)
	asm.JNZ(LabelRef("group"))

	asm.Comment("Turn a byte of each row into a word of each lane: the highest bit of all bytes,", "then the next.")
	asm.SUBQ(I8(64), sides)
	for _, disp := range []int{0, sidesDown} {
		early, late := asm.YMM(), asm.YMM()
		asm.VMOVDQU(Mem{Base: sides, Disp: disp}, early)
		asm.VMOVDQU(Mem{Base: sides, Disp: disp + 32}, late)
		for bit := 7; bit >= 0; bit-- {
			low, high := asm.GP32(), asm.GP32()
			asm.VPMOVMSKB(early, low)
			asm.VPMOVMSKB(late, high)
			asm.MOVL(low, Mem{Base: sides, Disp: disp + 8*laneOf[bit]})
			asm.MOVL(high, Mem{Base: sides, Disp: disp + 8*laneOf[bit] + 4})
			if bit > 0 {
				asm.VPADDB(early, early, early)
				asm.VPADDB(late, late, late)
			}
		}
	}
	asm.VZEROUPPER()
	asm.RET()
}

func filterAVX512(pkg *types.Package) {
	const groupRows = 16
	tiny := data("tinyAVX512", 8, tinyBits)
	positive := data("positiveAVX512", 4, positive32)
	finite := data("finiteAVX512", 4, finite32)
	negative := data("negativeAVX512", 4, negative16<<16|negative16)
	// Upper halves of 4 rows are, as dwords, in two vectors: pairs of lanes of
	// the first row, of the second, of the first and so on. Their upper words
	// become a row after a row.
	var order []uint64
	for row := range 4 {
		for lane := range 8 {
			dword := lane/2*4 + row%2*2 + lane%2
			order = append(order, uint64(row/2*32+2*dword+1))
		}
	}
	rowOrder := data("rowOrderAVX512", 2, order...)

	function(pkg, "filterAVX512", filterSignature, true, filterDoc("filterAVX512",
		"It needs AVX512F, AVX512DQ and AVX512BW.")...)
	filter, maxima := asm.Load(asm.Param("f"), asm.GP64()), asm.Load(asm.Param("m"), asm.GP64())
	at, sides := asm.Load(asm.Param("sums"), asm.GP64()), asm.Load(asm.Param("s"), asm.GP64())
	pairs, end := filterEnds(filter)

	pick := asm.ZMM()
	asm.VMOVDQU64(rowOrder, pick)
	// words packs the upper 16 bits of 4 rows into the first.
	words := func(r0, r1, r2, r3 reg.VecVirtual) {
		asm.VSHUFPS(U8(0xdd), r1, r0, r0)
		asm.VSHUFPS(U8(0xdd), r3, r2, r2)
		asm.VPERMT2W(r2, pick, r0)
	}

	asm.Comment("The bounds, upper 16 bits each; those that are not finite are the largest.")
	bound := filterBound(filter, maxima, 0, asm.ZMM, tiny)
	beyond := asm.K()
	limit, largest := asm.ZMM(), asm.ZMM()
	asm.VPBROADCASTD(finite, limit)
	asm.VPBROADCASTD(positive, largest)
	asm.VPCMPUD(U8(6), limit, bound, beyond) // the upper halves of floats are odd
	asm.VMOVDQA32(largest, beyond, bound)
	copied := asm.ZMM()
	asm.VMOVDQA64(bound, copied)
	words(bound, copied, copied, copied)
	negated := asm.ZMM()
	asm.VPBROADCASTD(negative, negated)
	asm.VPORQ(bound, negated, negated)

	groups := asm.GP64()
	asm.MOVQ(U32(rows/groupRows), groups)
	asm.Label("group")
	acc := vectors(groupRows, asm.ZMM)
	for _, a := range acc {
		asm.VPXORQ(a, a, a)
	}
	filterSums(acc, 1, [2]reg.VecVirtual{asm.ZMM(), asm.ZMM()}, asm.ZMM, at, filter, pairs, end)

	asm.Comment("A byte of each row, a bit of each lane.")
	for i := 0; i < groupRows; i += 4 {
		v := acc[i]
		words(v, acc[i+1], acc[i+2], acc[i+3])
		above, below := asm.K(), asm.K()
		asm.VPCMPW(U8(6), bound, v, above)
		asm.KMOVD(above, Mem{Base: sides, Disp: i})
		asm.Comment("Without a sign, negative numbers are above all others.")
		asm.VPCMPUW(U8(6), negated, v, below)
		asm.KMOVD(below, Mem{Base: sides, Disp: sidesDown + i})
	}
	asm.ADDQ(I8(groupRows), sides)
	asm.ADDQ(I32(groupRows*rowSize), at)
	asm.DECQ(groups)
	asm.JNZ(LabelRef("group"))

	asm.Comment("Turn a byte of each row into a word of each lane: the highest bit of all bytes,", "then the next.")
	asm.SUBQ(I8(rows), sides)
	for _, disp := range []int{0, sidesDown} {
		v := asm.ZMM()
		asm.VMOVDQU64(Mem{Base: sides, Disp: disp}, v)
		for lane := 7; lane >= 0; lane-- {
			k := asm.K()
			asm.VPMOVB2M(v, k)
			asm.KMOVQ(k, Mem{Base: sides, Disp: disp + 8*lane})
			if lane > 0 {
				asm.VPADDB(v, v, v)
			}
		}
	}
	asm.VZEROUPPER()
	asm.RET()
}

func repeat(v uint64, n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = v
	}
	return all
}
