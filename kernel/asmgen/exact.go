package main

import (
	"go/types"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const prefixSignature = "func(dst, x *float64, steps *prefixStep, n, at int)"

func prefixDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " computes WMAs of n >= 1 windows, which ascend, over 48",
		"neighbouring first bars. It replaces this loop to the bit: the order of every",
		"sum is kept, and each product is rounded before it is added.",
		"",
		"\tfor k := range 48 {",
		"\t\tsum, j := 0.0, int64(0)",
		"\t\tfor _, s := range unsafe.Slice(steps, n) {",
		"\t\t\tfor ; j < s.bars; j++ {",
		"\t\t\t\tsum += float64(x[int64(k)+j] * float64(j+1))",
		"\t\t\t}",
		"\t\t\tdst[int64(at+k)+s.to] = sum / s.divisor",
		"\t\t}",
		"\t}",
		"",
		"The weights are counted up in floating point, which is exact below 1<<53.",
	}, remarks...)
}

// prefix emits the loop with accumulators of the given bytes each: a term
// multiplies all vectors, then adds all products.
func prefix(vector int, alloc func() reg.VecVirtual) {
	dst, x := asm.Load(asm.Param("dst"), asm.GP64()), asm.Load(asm.Param("x"), asm.GP64())
	step, end := asm.Load(asm.Param("steps"), asm.GP64()), asm.Load(asm.Param("n"), asm.GP64())
	at := asm.Load(asm.Param("at"), asm.GP64())
	asm.LEAQ(Mem{Base: dst, Index: at, Scale: 8}, dst)
	asm.IMUL3Q(I8(stepSize), end, end)
	asm.ADDQ(step, end)

	one, weight := alloc(), alloc()
	number := asm.GP32()
	asm.MOVL(U32(1), number)
	asm.VXORPD(one.AsX(), one.AsX(), one.AsX())
	asm.VCVTSI2SDL(number, one.AsX(), one.AsX())
	asm.VBROADCASTSD(one.AsX(), one)
	asm.VMOVAPD(one, weight)
	acc := vectors(48*8/vector, alloc)
	for _, a := range acc {
		asm.VXORPD(a.AsX(), a.AsX(), a.AsX()) // clears all of it
	}
	done := asm.GP64()
	asm.XORL(done.As32(), done.As32())

	asm.Label("step")
	left := asm.GP64()
	asm.MOVQ(Mem{Base: step, Disp: stepBars}, left)
	asm.SUBQ(done, left)
	asm.JLE(LabelRef("divide"))
	asm.ADDQ(left, done)

	// Unrolling gains nothing: reads are the limit, as most of these vectors lie
	// across two cache lines.
	asm.Label("term")
	for i, a := range acc {
		product := alloc()
		asm.VMULPD(Mem{Base: x, Disp: i * vector}, weight, product)
		asm.VADDPD(product, a, a)
	}
	asm.VADDPD(one, weight, weight)
	asm.ADDQ(I8(8), x)
	asm.DECQ(left)
	asm.JNZ(LabelRef("term"))

	asm.Label("divide")
	divisor, to := alloc(), asm.GP64()
	asm.VBROADCASTSD(Mem{Base: step, Disp: stepDivisor}, divisor)
	asm.MOVQ(Mem{Base: step, Disp: stepTo}, to)
	for i, a := range acc {
		quotient := alloc()
		asm.VDIVPD(divisor, a, quotient)
		asm.VMOVUPD(quotient, Mem{Base: dst, Index: to, Scale: 8, Disp: i * vector})
	}
	asm.ADDQ(I8(stepSize), step)
	asm.CMPQ(step, end)
	asm.JNE(LabelRef("step"))
	asm.VZEROUPPER()
	asm.RET()
}

func prefixAVX2(pkg *types.Package) {
	function(pkg, "prefixAVX2", prefixSignature, true, prefixDoc("prefixAVX2", "It needs AVX2.")...)
	prefix(32, asm.YMM)
}

func prefixAVX512(pkg *types.Package) {
	function(pkg, "prefixAVX512", prefixSignature, true, prefixDoc("prefixAVX512", "It needs AVX512F.")...)
	prefix(64, asm.ZMM)
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

const compareSignature = "func(hma, hma3 *float64, s *sides)"

func compareDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " compares 512 pairs of averages. It replaces this loop:",
		"",
		"\ta, b := unsafe.Slice(hma, 512), unsafe.Slice(hma3, 512)",
		"\tfor w := range 8 {",
		"\t\ts.up[w], s.down[w] = 0, 0",
		"\t\tfor i := range 64 {",
		"\t\t\tif b[64*w+i] > a[64*w+i] {",
		"\t\t\t\ts.up[w] |= 1 << i",
		"\t\t\t}",
		"\t\t\tif b[64*w+i] < a[64*w+i] {",
		"\t\t\t\ts.down[w] |= 1 << i",
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
	up, down := asm.Load(asm.Param("s"), asm.GP64()), asm.GP64()
	asm.LEAQ(Mem{Base: up, Disp: sidesDown}, down)
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
