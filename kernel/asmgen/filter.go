package main

import (
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const filterSignature = "func(sums *float64, terms *term, n int, bound *[8]float64, up, down *[8]uint64)"

func filterDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " computes 64 rows of 8 lanes of a linear filter and compares",
		"them with a bound. It replaces this loop, except that the order of the sum is",
		"free, and that products may be fused into it:",
		"",
		"\tfor l := range 8 {",
		"\t\tup[l], down[l] = 0, 0",
		"\t\tfor t := range 64 {",
		"\t\t\tat := unsafe.Add(unsafe.Pointer(sums), 64*t+8*l)",
		"\t\t\tvar d float64",
		"\t\t\tfor _, m := range unsafe.Slice(terms, n) {",
		"\t\t\t\td += m.coef * *(*float64)(unsafe.Add(at, -m.back))",
		"\t\t\t}",
		"\t\t\tif d > bound[l] {",
		"\t\t\t\tup[l] |= 1 << t",
		"\t\t\t}",
		"\t\t\tif d < -bound[l] {",
		"\t\t\t\tdown[l] |= 1 << t",
		"\t\t\t}",
		"\t\t}",
		"\t}",
		"",
	}, remarks...)
}

// filterLoop emits what both filters share: for each group of rows, from the
// last one if backwards, clear the accumulators, add every term to them, and
// decide. parts is the number of vectors of a row; acc holds the vectors of a
// group's rows in the order of memory.
func filterLoop(acc []reg.VecVirtual, parts int, coef reg.VecVirtual, backwards bool, clear func(reg.VecVirtual), decide func()) {
	vector := rowSize / parts
	group := len(acc) * vector

	asm.Comment("The terms end where their count says.")
	first := asm.Load(asm.Param("terms"), asm.GP64())
	end := asm.Load(asm.Param("n"), asm.GP64())
	asm.SHLQ(U8(4), end)
	asm.ADDQ(first, end)

	at := asm.Load(asm.Param("sums"), asm.GP64())
	if backwards {
		asm.ADDQ(I32(rows*rowSize-group), at)
	}
	groups := asm.GP64()
	asm.MOVQ(U32(rows*rowSize/group), groups)

	asm.Label("group")
	for _, a := range acc {
		clear(a)
	}
	term := asm.GP64()
	asm.MOVQ(first, term)

	asm.Label("term")
	from := asm.GP64()
	asm.MOVQ(at, from)
	asm.SUBQ(Mem{Base: term, Disp: termBack}, from)
	asm.VBROADCASTSD(Mem{Base: term, Disp: termCoef}, coef)
	for i, a := range acc {
		asm.VFMADD231PD(Mem{Base: from, Disp: i * vector}, coef, a)
	}
	asm.ADDQ(I8(termSize), term)
	asm.CMPQ(term, end)
	asm.JNE(LabelRef("term"))

	decide()
	if backwards {
		asm.SUBQ(I32(group), at)
	} else {
		asm.ADDQ(I32(group), at)
	}
	asm.DECQ(groups)
	asm.JNZ(LabelRef("group"))
}

func filterAVX2(pkg *types.Package) {
	function(pkg, "filterAVX2", filterSignature, true, filterDoc("filterAVX2",
		"Rows go from the last to the first, so that shifting a word left by one bit",
		"makes room for the bit of the next row. It needs AVX2 and FMA.")...)

	bound := asm.Load(asm.Param("bound"), asm.GP64())
	up, down := [2]reg.VecVirtual{asm.YMM(), asm.YMM()}, [2]reg.VecVirtual{asm.YMM(), asm.YMM()}
	negative := [2]reg.VecVirtual{asm.YMM(), asm.YMM()}
	coef := asm.YMM()

	asm.Comment("Negate the bounds by flipping their signs.")
	asm.VPCMPEQQ(coef, coef, coef)
	asm.VPSLLQ(U8(63), coef, coef)
	for h := range 2 {
		asm.VXORPD(Mem{Base: bound, Disp: 32 * h}, coef, negative[h])
		asm.VXORPD(up[h], up[h], up[h])
		asm.VXORPD(down[h], down[h], down[h])
	}

	acc := vectors(8, asm.YMM)
	filterLoop(acc, 2, coef, true,
		func(a reg.VecVirtual) { asm.VXORPD(a, a, a) },
		func() {
			// A true comparison is -1: subtracting it sets the lowest bit.
			asm.Comment("Shift the words left by one bit and append the bit of each row.")
			for i := len(acc) - 1; i >= 0; i-- {
				h := i % 2
				asm.VPADDQ(up[h], up[h], up[h])
				asm.VCMPPD(greaterThan, Mem{Base: bound, Disp: 32 * h}, acc[i], coef)
				asm.VPSUBQ(coef, up[h], up[h])
				asm.VPADDQ(down[h], down[h], down[h])
				asm.VCMPPD(lessThan, negative[h], acc[i], coef)
				asm.VPSUBQ(coef, down[h], down[h])
			}
		})

	toUp, toDown := asm.Load(asm.Param("up"), asm.GP64()), asm.Load(asm.Param("down"), asm.GP64())
	for h := range 2 {
		asm.VMOVDQU(up[h], Mem{Base: toUp, Disp: 32 * h})
		asm.VMOVDQU(down[h], Mem{Base: toDown, Disp: 32 * h})
	}
	asm.VZEROUPPER()
	asm.RET()
}

func filterAVX512(pkg *types.Package) {
	const groupRows = 16

	// The rows of a group get the highest bits of a word, the earliest row the
	// lowest of them; every group shifts the bits of those before it down.
	bits := asm.StaticGlobal("filterBits")
	asm.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range groupRows {
		asm.AddDatum(8*i, U64(1<<(rows-groupRows+i)))
	}

	function(pkg, "filterAVX512", filterSignature, true, filterDoc("filterAVX512",
		"It needs AVX512F and AVX512DQ.")...)

	at := asm.Load(asm.Param("bound"), asm.GP64())
	up, down, coef := asm.ZMM(), asm.ZMM(), asm.ZMM()
	bound, negative := asm.ZMM(), asm.ZMM()
	asm.Comment("Negate the bounds by flipping their signs.")
	asm.VMOVUPD(Mem{Base: at}, bound)
	asm.VPTERNLOGQ(U8(0xff), coef, coef, coef)
	asm.VPSLLQ(U8(63), coef, coef)
	asm.VPXORQ(coef, bound, negative)
	asm.VPXORQ(up, up, up)
	asm.VPXORQ(down, down, down)

	acc := vectors(groupRows, asm.ZMM)
	filterLoop(acc, 1, coef, false,
		func(a reg.VecVirtual) { asm.VPXORQ(a, a, a) },
		func() {
			asm.Comment("Set the bits of these rows above those of the rows before.")
			asm.VPSRLQ(U8(groupRows), up, up)
			asm.VPSRLQ(U8(groupRows), down, down)
			for i, a := range acc {
				above, below := asm.K(), asm.K()
				asm.VCMPPD(greaterThan, bound, a, above)
				asm.VPORQ_BCST(bits.Offset(8*i), up, above, up)
				asm.VCMPPD(lessThan, negative, a, below)
				asm.VPORQ_BCST(bits.Offset(8*i), down, below, down)
			}
		})

	asm.VMOVDQU64(up, Mem{Base: asm.Load(asm.Param("up"), asm.GP64())})
	asm.VMOVDQU64(down, Mem{Base: asm.Load(asm.Param("down"), asm.GP64())})
	asm.VZEROUPPER()
	asm.RET()
}
