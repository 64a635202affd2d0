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
`

// Layout of a term.
const (
	termBack = 0
	termCoef = 8
	termSize = 16
)

// Predicates of VCMPPD: false for NaN, and no exception for a quiet one.
const (
	lessThan    = U8(0x11)
	greaterThan = U8(0x1e)
)

const (
	rows    = 64 // rows a filter call covers: the bits of a word
	rowSize = 64 // bytes of a row: 8 lanes
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

func vectors(n int, alloc func() reg.VecVirtual) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = alloc()
	}
	return v
}
