package main

import (
	"go/types"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const buildSignature = "func(sums, closes *float64, rows int, m *maxima)"

func buildDoc(name string, remarks ...string) []string {
	return append([]string{
		name + " computes the fourfold prefix sums of 8 lanes, and their largest",
		"magnitudes. It replaces this loop to the bit, but for the payloads of NaNs:",
		"",
		"\t*m = maxima{}",
		"\tfor l := range 8 {",
		"\t\tvar s [4]float64",
		"\t\tfor r := range rows {",
		"\t\t\tc := unsafe.Slice(closes, 448+rows)[64*l:]",
		"\t\t\ts[0] += c[r] - c[0]",
		"\t\t\ts[1] += s[0]",
		"\t\t\ts[2] += s[1]",
		"\t\t\ts[3] += s[2]",
		"\t\t\tunsafe.Slice(sums, 8*rows)[8*r+l] = s[3]",
		"\t\t\tm.closes[l] = larger(m.closes[l], c[r])",
		"\t\t\tfor k := range s {",
		"\t\t\t\tm.sums[k][l] = larger(m.sums[k][l], s[k])",
		"\t\t\t}",
		"\t\t}",
		"\t}",
		"",
		"larger takes the larger magnitude, and a NaN for larger than any number.",
	}, remarks...)
}

// builder holds the state of the lanes of a vector.
type builder struct {
	centre, positive reg.VecVirtual
	sums, max        []reg.VecVirtual
}

func newBuilder(alloc func() reg.VecVirtual) *builder {
	return &builder{alloc(), alloc(), vectors(4, alloc), vectors(5, alloc)}
}

// row emits a row: v holds its closes, to is where the fourth sums go. larger
// makes its second operand the larger of two magnitudes.
func (b *builder) row(v reg.VecVirtual, to Mem, and func(a, b, dst Op), larger func(v, max reg.VecVirtual), alloc func() reg.VecVirtual) {
	most := func(v, max reg.VecVirtual) {
		bits := alloc()
		and(v, b.positive, bits)
		larger(bits, max)
	}
	most(v, b.max[0])
	asm.VSUBPD(b.centre, v, v)
	for _, s := range b.sums {
		asm.VADDPD(v, s, s)
		v = s
	}
	asm.VMOVUPD(v, to)
	for k, s := range b.sums {
		most(s, b.max[1+k])
	}
}

func buildAVX2(pkg *types.Package) {
	function(pkg, "buildAVX2", buildSignature, true, buildDoc("buildAVX2", "It needs AVX2.")...)

	sums, closes := asm.Load(asm.Param("sums"), asm.GP64()), asm.Load(asm.Param("closes"), asm.GP64())
	to := asm.Load(asm.Param("m"), asm.GP64())
	halves := asm.GP64()
	asm.MOVQ(U32(2), halves)

	b := newBuilder(asm.YMM)
	asm.VPCMPEQQ(b.positive, b.positive, b.positive)
	asm.VPSRLQ(U8(1), b.positive, b.positive)
	and := func(a, b, dst Op) { asm.VANDPD(a, b, dst) }
	larger := func(v, max reg.VecVirtual) {
		// Without their signs, the bits are in order as signed numbers too.
		above := asm.YMM()
		asm.VPCMPGTQ(max, v, above)
		asm.VBLENDVPD(above, v, max, max)
	}
	// one loads a row of 4 lanes. (Broadcasts are no more than loads here; they
	// tell avo that a register's old value dies.)
	one := func(from reg.Register) reg.VecVirtual {
		v, high := asm.YMM(), asm.XMM()
		asm.VBROADCASTSD(Mem{Base: from}, v)
		asm.VMOVHPD(Mem{Base: from, Disp: laneSize}, v.AsX(), v.AsX())
		asm.VMOVSD(Mem{Base: from, Disp: 2 * laneSize}, high)
		asm.VMOVHPD(Mem{Base: from, Disp: 3 * laneSize}, high, high)
		asm.VINSERTF128(U8(1), high, v, v)
		return v
	}

	asm.Label("half")
	for _, v := range b.sums {
		asm.VXORPD(v, v, v)
	}
	for _, v := range b.max {
		asm.VXORPD(v, v, v)
	}
	rows := asm.Load(asm.Param("rows"), asm.GP64())
	asm.TESTQ(rows, rows)
	asm.JLE(LabelRef("store"))
	asm.VMOVAPD(one(closes), b.centre)
	from, at := asm.GP64(), asm.GP64()
	asm.MOVQ(closes, from)
	asm.MOVQ(sums, at)
	asm.SUBQ(I8(2), rows)
	asm.JLT(LabelRef("last"))

	asm.Label("pair")
	ac, bd, next := asm.YMM(), asm.YMM(), asm.YMM()
	asm.Comment("Two rows of 4 lanes.")
	asm.VBROADCASTF128(Mem{Base: from}, ac)
	asm.VBROADCASTF128(Mem{Base: from, Disp: laneSize}, bd)
	asm.VINSERTF128(U8(1), Mem{Base: from, Disp: 2 * laneSize}, ac, ac)
	asm.VINSERTF128(U8(1), Mem{Base: from, Disp: 3 * laneSize}, bd, bd)
	asm.VUNPCKHPD(bd, ac, next)
	asm.VUNPCKLPD(bd, ac, ac)
	b.row(ac, Mem{Base: at}, and, larger, asm.YMM)
	b.row(next, Mem{Base: at, Disp: rowSize}, and, larger, asm.YMM)
	asm.ADDQ(I8(2*8), from)
	asm.ADDQ(I32(2*rowSize), at)
	asm.SUBQ(I8(2), rows)
	asm.JGE(LabelRef("pair"))

	asm.Label("last")
	asm.Comment("An odd row is left if the count is -1 now.")
	asm.INCQ(rows)
	asm.JNZ(LabelRef("store"))
	b.row(one(from), Mem{Base: at}, and, larger, asm.YMM)

	asm.Label("store")
	for k, v := range b.max {
		asm.VMOVUPD(v, Mem{Base: to, Disp: maximaRow * k})
	}
	asm.ADDQ(I32(4*laneSize), closes)
	asm.ADDQ(I8(32), sums)
	asm.ADDQ(I8(32), to)
	asm.DECQ(halves)
	asm.JNZ(LabelRef("half"))
	asm.VZEROUPPER()
	asm.RET()
}

func buildAVX512(pkg *types.Package) {
	function(pkg, "buildAVX512", buildSignature, true, buildDoc("buildAVX512",
		"It needs AVX512F and AVX512DQ.")...)

	b := newBuilder(asm.ZMM)
	asm.VPTERNLOGQ(U8(0xff), b.positive, b.positive, b.positive)
	asm.VPSRLQ(U8(1), b.positive, b.positive)
	for _, v := range append(b.sums, b.max...) {
		asm.VPXORQ(v, v, v)
	}
	and := func(a, b, dst Op) { asm.VPANDQ(a, b, dst) }
	larger := func(v, max reg.VecVirtual) { asm.VPMAXUQ(v, max, max) }
	// one loads a row of 8 lanes.
	one := func(from reg.Register) reg.VecVirtual {
		v := asm.ZMM()
		asm.VBROADCASTSD(Mem{Base: from}, v)
		asm.VMOVHPD(Mem{Base: from, Disp: laneSize}, v.AsX(), v.AsX())
		for i := 1; i < 4; i++ {
			pair := asm.XMM()
			asm.VMOVSD(Mem{Base: from, Disp: 2 * i * laneSize}, pair)
			asm.VMOVHPD(Mem{Base: from, Disp: (2*i + 1) * laneSize}, pair, pair)
			asm.VINSERTF64X2(U8(i), pair, v, v)
		}
		return v
	}

	rows := asm.Load(asm.Param("rows"), asm.GP64())
	asm.TESTQ(rows, rows)
	asm.JLE(LabelRef("store"))
	sums, closes := asm.Load(asm.Param("sums"), asm.GP64()), asm.Load(asm.Param("closes"), asm.GP64())
	asm.VMOVAPD(one(closes), b.centre)
	asm.SUBQ(I8(8), rows)
	asm.JLT(LabelRef("rest"))

	asm.Label("block")
	asm.Comment("Turn 8 closes of each lane into 8 rows: first pairs of lanes, then fours,", "then all.")
	lane := vectors(8, asm.ZMM)
	for l, v := range lane {
		asm.VMOVUPD(Mem{Base: closes, Disp: l * laneSize}, v)
	}
	var row [8]reg.VecVirtual
	for odd, unpack := range []func(...Op){asm.VUNPCKLPD, asm.VUNPCKHPD} {
		// pair[i] has rows odd, 2+odd, 4+odd and 6+odd of lanes 2i and 2i+1.
		pair := vectors(4, asm.ZMM)
		for i, v := range pair {
			unpack(lane[2*i+1], lane[2*i], v)
		}
		for late, halves := range []U8{0x44, 0xee} {
			low, high := asm.ZMM(), asm.ZMM()
			asm.VSHUFF64X2(halves, pair[1], pair[0], low)
			asm.VSHUFF64X2(halves, pair[3], pair[2], high)
			for second, quarters := range []U8{0x88, 0xdd} {
				v := asm.ZMM()
				asm.VSHUFF64X2(quarters, high, low, v)
				row[4*late+2*second+odd] = v
			}
		}
	}
	for r, v := range row {
		b.row(v, Mem{Base: sums, Disp: rowSize * r}, and, larger, asm.ZMM)
	}
	asm.ADDQ(I8(8*8), closes)
	asm.ADDQ(I32(8*rowSize), sums)
	asm.SUBQ(I8(8), rows)
	asm.JGE(LabelRef("block"))

	asm.Label("rest")
	asm.ADDQ(I8(8), rows)
	asm.JZ(LabelRef("store"))
	asm.Label("row")
	b.row(one(closes), Mem{Base: sums}, and, larger, asm.ZMM)
	asm.ADDQ(I8(8), closes)
	asm.ADDQ(I8(rowSize), sums)
	asm.DECQ(rows)
	asm.JNZ(LabelRef("row"))

	asm.Label("store")
	to := asm.Load(asm.Param("m"), asm.GP64())
	for k, v := range b.max {
		asm.VMOVUPD(v, Mem{Base: to, Disp: maximaRow * k})
	}
	asm.VZEROUPPER()
	asm.RET()
}
