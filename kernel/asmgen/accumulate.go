package main

import (
	"go/types"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const accumulateSignature = "func(acc *[32]float64, x *float64, from, to int64)"

func accumulateDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " adds the terms from..to-1 of 32 neighbouring weighted",
		"sums. It replaces this loop to the bit: the order of every sum is kept, and",
		"each product is rounded before it is added.",
		"",
		"\txs := unsafe.Slice(x, 31+to)",
		"\tfor k := range acc {",
		"\t\tfor j := from; j < to; j++ {",
		"\t\t\tacc[k] += float64(xs[int64(k)+j] * float64(j+1))",
		"\t\t}",
		"\t}",
		"",
		"The weights are counted up in floating point, which is exact below 1<<53.",
	}, remarks...)
}

// accumulate emits the loop with accumulators of the given bytes each: a step
// of j multiplies all vectors, then adds all products.
func accumulate(vector int, alloc func() reg.VecVirtual) {
	from, left := asm.Load(asm.Param("from"), asm.GP64()), asm.Load(asm.Param("to"), asm.GP64())
	asm.SUBQ(from, left)
	asm.JLE(LabelRef("done"))

	sums := asm.Load(asm.Param("acc"), asm.GP64())
	x := asm.Load(asm.Param("x"), asm.GP64())
	asm.LEAQ(Mem{Base: x, Index: from, Scale: 8}, x)

	one, weight := alloc(), alloc()
	asm.INCQ(from)
	asm.VXORPD(one.AsX(), one.AsX(), one.AsX())
	asm.VCVTSI2SDQ(from, one.AsX(), weight.AsX())
	asm.VBROADCASTSD(weight.AsX(), weight)
	asm.MOVQ(U32(1), from)
	asm.VCVTSI2SDQ(from, one.AsX(), one.AsX())
	asm.VBROADCASTSD(one.AsX(), one)

	acc := vectors(32*8/vector, alloc)
	for i, a := range acc {
		asm.VMOVUPD(Mem{Base: sums, Disp: i * vector}, a)
	}

	// Unrolling gains nothing: reads are the limit, as most of these vectors lie
	// across two cache lines.
	asm.Label("step")
	for i, a := range acc {
		product := alloc()
		asm.VMULPD(Mem{Base: x, Disp: i * vector}, weight, product)
		asm.VADDPD(product, a, a)
	}
	asm.VADDPD(one, weight, weight)
	asm.ADDQ(I8(8), x)
	asm.DECQ(left)
	asm.JNZ(LabelRef("step"))

	for i, a := range acc {
		asm.VMOVUPD(a, Mem{Base: sums, Disp: i * vector})
	}
	asm.VZEROUPPER()
	asm.Label("done")
	asm.RET()
}

func accumulateAVX2(pkg *types.Package) {
	function(pkg, "accumulateAVX2", accumulateSignature, true, accumulateDoc("accumulateAVX2",
		"It needs AVX2.")...)
	accumulate(32, asm.YMM)
}

func accumulateAVX512(pkg *types.Package) {
	function(pkg, "accumulateAVX512", accumulateSignature, true, accumulateDoc("accumulateAVX512",
		"It needs AVX512F.")...)
	accumulate(64, asm.ZMM)
}
