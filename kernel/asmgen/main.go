// Command asmgen writes the assembly of package kernel:
//
//	cd kernel/asmgen && go run . -out ../simd_amd64.s -stubs ../simd_amd64.go -pkg kernel
//
// It is a module of its own, so that the assembler library is no dependency of
// the server.
package main

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// declarations are the types of package kernel that signatures mention. They
// are repeated here because loading the package would need the very files that
// are being generated.
const declarations = `package kernel

type term struct {
	back int64
	coef float64
}

type maxima struct {
	closes [8]float64
	sums   [4][8]float64
}
`

// Layout of a term.
const (
	termBack = 0
	termCoef = 8
	termSize = 16
)

// maximaRow is the distance of the five rows of maxima: closes, then sums.
const maximaRow = 64

// Predicates of VCMPPD: false for NaN, and no exception for a quiet one.
const (
	lessThan    = U8(0x11)
	greaterThan = U8(0x1e)
)

const (
	rows    = 64 // rows a filter call covers: the bits of a word
	rowSize = 64 // bytes of a row: 8 lanes

	laneSize = 64 * 8 // bytes from a close of a lane to that of the next
)

// asm is a context of our own: avo's global one takes no signature that
// mentions types of a package it has not loaded.
var asm = build.NewContext()

func main() {
	// The global flag set already belongs to avo's global context.
	set := flag.NewFlagSet("asmgen", flag.ExitOnError)
	flags := build.NewFlags(set)
	set.Parse(os.Args[1:])

	asm.ConstraintExpr("amd64,!purego")
	pkg := declared()
	cpuid(pkg)
	xgetbv(pkg)
	filterAVX2(pkg)
	filterAVX512(pkg)
	accumulateAVX2(pkg)
	accumulateAVX512(pkg)
	emitAVX2(pkg)
	emitAVX512(pkg)
	combine2AVX2(pkg)
	combine2AVX512(pkg)
	combine3AVX2(pkg)
	combine3AVX512(pkg)
	compareAVX2(pkg)
	compareAVX512(pkg)
	buildAVX2(pkg)
	buildAVX512(pkg)
	os.Exit(build.Main(flags.Config(), asm))
}

func declared() *types.Package {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "declarations.go", declarations, 0)
	if err != nil {
		panic(err)
	}
	pkg, err := new(types.Config).Check("kernel", fset, []*ast.File{file}, nil)
	if err != nil {
		panic(err)
	}
	return pkg
}

// function begins an assembly function without a frame. If it has pointers,
// they do not escape.
func function(pkg *types.Package, name, signature string, pointers bool, doc ...string) {
	asm.Function(name)
	asm.Attributes(attr.NOSPLIT)
	sig, err := gotypes.ParseSignatureInPackage(pkg, signature)
	if err != nil {
		panic(err)
	}
	asm.Signature(sig)
	asm.Doc(doc...)
	if pointers {
		asm.Pragma("noescape")
	}
}

func cpuid(pkg *types.Package) {
	function(pkg, "cpuid", "func(eax, ecx uint32) (a, b, c, d uint32)", false,
		"cpuid executes CPUID for leaf eax and subleaf ecx.")
	asm.Load(asm.Param("eax"), reg.EAX)
	asm.Load(asm.Param("ecx"), reg.ECX)
	asm.CPUID()
	asm.Store(reg.EAX, asm.Return("a"))
	asm.Store(reg.EBX, asm.Return("b"))
	asm.Store(reg.ECX, asm.Return("c"))
	asm.Store(reg.EDX, asm.Return("d"))
	asm.RET()
}

func xgetbv(pkg *types.Package) {
	function(pkg, "xgetbv", "func() (eax, edx uint32)", false,
		"xgetbv reads XCR0, the register state that the operating system saves. The",
		"instruction is illegal unless CPUID reports OSXSAVE.")
	asm.XORL(reg.ECX, reg.ECX)
	asm.XGETBV()
	asm.Store(reg.EAX, asm.Return("eax"))
	asm.Store(reg.EDX, asm.Return("edx"))
	asm.RET()
}

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

func vectors(n int, alloc func() reg.VecVirtual) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = alloc()
	}
	return v
}
