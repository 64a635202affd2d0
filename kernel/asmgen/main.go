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

type signFilter struct {
	terms   [27]term
	n       int
	pairs   int
	weights [5]float64
}

type maxima struct {
	closes [8]float64
	sums   [4][8]float64
}

type sides struct {
	up, down [8]uint64
}

type flips [515]uint16

type prefixStep struct {
	bars, to int64
	divisor  float64
}
`

// Layout of a term.
const (
	termBack = 0
	termCoef = 8
	termSize = 16
)

// Layout of a signFilter, which begins with its terms, and of sides.
const (
	filterTerms   = 27 * termSize
	filterPairs   = filterTerms + 8
	filterWeights = filterPairs + 8
	sidesDown     = 64
)

// Layout of a prefixStep.
const (
	stepBars    = 0
	stepTo      = 8
	stepDivisor = 16
	stepSize    = 24
)

// tinyBits are the bits of 1e-290, the kernel's tiny.
const tinyBits = 0x3b8f2b061aea072

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
	prefixAVX2(pkg)
	prefixAVX512(pkg)
	combine2AVX2(pkg)
	combine2AVX512(pkg)
	combine3AVX2(pkg)
	combine3AVX512(pkg)
	compareAVX2(pkg)
	compareAVX512(pkg)
	buildAVX2(pkg)
	buildAVX512(pkg)
	findBMI(pkg)
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

func vectors(n int, alloc func() reg.VecVirtual) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = alloc()
	}
	return v
}
