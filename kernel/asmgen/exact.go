package main

import (
	"go/types"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const emitSignature = "func(dst *float64, acc *[32]float64, divisor float64)"

func emitDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " divides 32 sums. It replaces this loop to the bit:",
		"",
		"\tto := unsafe.Slice(dst, 32)",
		"\tfor k := range acc {",
		"\t\tto[k] = acc[k] / divisor",
		"\t}",
		"",
	}, remarks...)
}

func emit(vector int, alloc func() reg.VecVirtual) {
	dst := asm.Load(asm.Param("dst"), asm.GP64())
	acc := asm.Load(asm.Param("acc"), asm.GP64())
	at, err := asm.Param("divisor").Resolve()
	if err != nil {
		panic(err)
	}
	divisor := alloc()
	asm.VBROADCASTSD(at.Addr, divisor)
	for i := range 32 * 8 / vector {
		v := alloc()
		asm.VMOVUPD(Mem{Base: acc, Disp: i * vector}, v)
		asm.VDIVPD(divisor, v, v)
		asm.VMOVUPD(v, Mem{Base: dst, Disp: i * vector})
	}
	asm.VZEROUPPER()
	asm.RET()
}

func emitAVX2(pkg *types.Package) {
	function(pkg, "emitAVX2", emitSignature, true, emitDoc("emitAVX2", "It needs AVX2.")...)
	emit(32, asm.YMM)
}

func emitAVX512(pkg *types.Package) {
	function(pkg, "emitAVX512", emitSignature, true, emitDoc("emitAVX512", "It needs AVX512F.")...)
	emit(64, asm.ZMM)
}

const (
	combine2Signature = "func(dst, a, b *float64, n int)"
	combine3Signature = "func(dst, a, b, c *float64, n int)"
)

func combine2Doc(name string, remarks ...string) []string {
	return append([]string{
		name + " computes the inner series of an HMA. It replaces this loop to",
		"the bit, for an n that is a multiple of 8:",
		"",
		"\tto, as, bs := unsafe.Slice(dst, n), unsafe.Slice(a, n), unsafe.Slice(b, n)",
		"\tfor i := range to {",
		"\t\tto[i] = float64(2*as[i]) - bs[i]",
		"\t}",
		"",
	}, remarks...)
}

func combine3Doc(name string, remarks ...string) []string {
	return append([]string{
		name + " computes the inner series of an HMA3. It replaces this loop to",
		"the bit, for an n that is a multiple of 8:",
		"",
		"\tto, as, bs, cs := unsafe.Slice(dst, n), unsafe.Slice(a, n), unsafe.Slice(b, n), unsafe.Slice(c, n)",
		"\tfor i := range to {",
		"\t\tto[i] = float64(3*as[i]) - bs[i] - cs[i]",
		"\t}",
		"",
	}, remarks...)
}

// combine emits the loop over n, 8 elements a step: scale makes the first
// operand the minuend, from which all others are subtracted in turn.
func combine(vector int, alloc func() reg.VecVirtual, scale func(reg.VecVirtual), others ...string) {
	n := asm.Load(asm.Param("n"), asm.GP64())
	asm.SARQ(U8(3), n)
	asm.JLE(LabelRef("done"))
	dst := asm.Load(asm.Param("dst"), asm.GP64())
	a := asm.Load(asm.Param("a"), asm.GP64())
	subtrahends := make([]reg.Register, len(others))
	for i, name := range others {
		subtrahends[i] = asm.Load(asm.Param(name), asm.GP64())
	}
	// All operands are addressed by one offset.
	offset := asm.GP64()
	asm.XORL(offset.As32(), offset.As32())

	asm.Label("step")
	for i := range 64 / vector {
		v := alloc()
		asm.VMOVUPD(Mem{Base: a, Index: offset, Scale: 1, Disp: i * vector}, v)
		scale(v)
		for _, b := range subtrahends {
			asm.VSUBPD(Mem{Base: b, Index: offset, Scale: 1, Disp: i * vector}, v, v)
		}
		asm.VMOVUPD(v, Mem{Base: dst, Index: offset, Scale: 1, Disp: i * vector})
	}
	asm.ADDQ(I8(64), offset)
	asm.DECQ(n)
	asm.JNZ(LabelRef("step"))
	asm.VZEROUPPER()
	asm.Label("done")
	asm.RET()
}

// double emits v += v, which is 2*v to the bit.
func double(v reg.VecVirtual) { asm.VADDPD(v, v, v) }

// triple returns what emits v *= 3.
func triple(alloc func() reg.VecVirtual) func(reg.VecVirtual) {
	three, number := alloc(), asm.GP32()
	asm.MOVL(U32(3), number)
	asm.VXORPD(three.AsX(), three.AsX(), three.AsX())
	asm.VCVTSI2SDL(number, three.AsX(), three.AsX())
	asm.VBROADCASTSD(three.AsX(), three)
	return func(v reg.VecVirtual) { asm.VMULPD(three, v, v) }
}

func combine2AVX2(pkg *types.Package) {
	function(pkg, "combine2AVX2", combine2Signature, true, combine2Doc("combine2AVX2", "It needs AVX2.")...)
	combine(32, asm.YMM, double, "b")
}

func combine2AVX512(pkg *types.Package) {
	function(pkg, "combine2AVX512", combine2Signature, true, combine2Doc("combine2AVX512", "It needs AVX512F.")...)
	combine(64, asm.ZMM, double, "b")
}

func combine3AVX2(pkg *types.Package) {
	function(pkg, "combine3AVX2", combine3Signature, true, combine3Doc("combine3AVX2", "It needs AVX2.")...)
	combine(32, asm.YMM, triple(asm.YMM), "b", "c")
}

func combine3AVX512(pkg *types.Package) {
	function(pkg, "combine3AVX512", combine3Signature, true, combine3Doc("combine3AVX512", "It needs AVX512F.")...)
	combine(64, asm.ZMM, triple(asm.ZMM), "b", "c")
}

const compareSignature = "func(hma, hma3 *float64, up, down *[8]uint64)"

func compareDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " compares 512 pairs of averages. It replaces this loop:",
		"",
		"\ta, b := unsafe.Slice(hma, 512), unsafe.Slice(hma3, 512)",
		"\tfor w := range 8 {",
		"\t\tup[w], down[w] = 0, 0",
		"\t\tfor i := range 64 {",
		"\t\t\tif b[64*w+i] > a[64*w+i] {",
		"\t\t\t\tup[w] |= 1 << i",
		"\t\t\t}",
		"\t\t\tif b[64*w+i] < a[64*w+i] {",
		"\t\t\t\tdown[w] |= 1 << i",
		"\t\t\t}",
		"\t\t}",
		"\t}",
		"",
	}, remarks...)
}

// compareLoop emits the loop over the 8 words; word emits the comparison of 64
// pairs.
func compareLoop(word func(hma, hma3, up, down reg.Register)) {
	hma, hma3 := asm.Load(asm.Param("hma"), asm.GP64()), asm.Load(asm.Param("hma3"), asm.GP64())
	up, down := asm.Load(asm.Param("up"), asm.GP64()), asm.Load(asm.Param("down"), asm.GP64())
	words := asm.GP64()
	asm.MOVQ(U32(8), words)
	asm.Label("word")
	word(hma, hma3, up, down)
	asm.ADDQ(I32(64*8), hma)
	asm.ADDQ(I32(64*8), hma3)
	asm.ADDQ(I8(8), up)
	asm.ADDQ(I8(8), down)
	asm.DECQ(words)
	asm.JNZ(LabelRef("word"))
	asm.VZEROUPPER()
	asm.RET()
}

func compareAVX2(pkg *types.Package) {
	function(pkg, "compareAVX2", compareSignature, true, compareDoc("compareAVX2", "It needs AVX2.")...)
	compareLoop(func(hma, hma3, up, down reg.Register) {
		above, below := asm.GP64(), asm.GP64()
		asm.XORL(above.As32(), above.As32())
		asm.XORL(below.As32(), below.As32())
		asm.Comment("Shift the words left by four bits and append those of each vector.")
		for i := 15; i >= 0; i-- {
			v, over, under := asm.YMM(), asm.YMM(), asm.YMM()
			asm.VMOVUPD(Mem{Base: hma3, Disp: 32 * i}, v)
			asm.VCMPPD(greaterThan, Mem{Base: hma, Disp: 32 * i}, v, over)
			asm.VCMPPD(lessThan, Mem{Base: hma, Disp: 32 * i}, v, under)
			for _, to := range []struct {
				word reg.GPVirtual
				mask reg.VecVirtual
			}{{above, over}, {below, under}} {
				four := asm.GP32()
				asm.VMOVMSKPD(to.mask, four)
				asm.SHLQ(U8(4), to.word)
				asm.ORQ(four.As64(), to.word)
			}
		}
		asm.MOVQ(above, Mem{Base: up})
		asm.MOVQ(below, Mem{Base: down})
	})
}

func compareAVX512(pkg *types.Package) {
	function(pkg, "compareAVX512", compareSignature, true, compareDoc("compareAVX512",
		"It needs AVX512F and AVX512BW.")...)
	compareLoop(func(hma, hma3, up, down reg.Register) {
		v := vectors(8, asm.ZMM)
		for i := range v {
			asm.VMOVUPD(Mem{Base: hma3, Disp: 64 * i}, v[i])
		}
		for _, to := range []struct {
			predicate Constant
			word      reg.Register
		}{{greaterThan, up}, {lessThan, down}} {
			// mask returns the masks of n vectors from v[i] on, one after the
			// other.
			var mask func(i, n int) reg.OpmaskVirtual
			mask = func(i, n int) reg.OpmaskVirtual {
				if n == 1 {
					k := asm.K()
					asm.VCMPPD(to.predicate, Mem{Base: hma, Disp: 64 * i}, v[i], k)
					return k
				}
				low, high := mask(i, n/2), mask(i+n/2, n/2)
				switch n {
				case 2:
					asm.KUNPCKBW(low, high, low)
				case 4:
					asm.KUNPCKWD(low, high, low)
				case 8:
					asm.KUNPCKDQ(low, high, low)
				}
				return low
			}
			asm.KMOVQ(mask(0, 8), Mem{Base: to.word})
		}
	})
}
