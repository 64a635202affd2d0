package main

import (
	"go/types"

	. "github.com/mmcloughlin/avo/operand"
)

const lanes = 8

// findBMI emits the list of changes. Bits are taken four at a time, and a few
// too many: a loop whose end can't be foretold costs more.
func findBMI(pkg *types.Package) {
	function(pkg, "findBMI", "func(bars *flips, up *[8]uint64, before uint64) int", true,
		"findBMI lists the bars whose bit differs from that of the bar before, and",
		"returns their number. It replaces this loop, but may write three elements more:",
		"",
		"\tn := 0",
		"\tfor l, word := range up {",
		"\t\tfor c := word ^ (word<<1 | before); c != 0; c &= c - 1 {",
		"\t\t\tbars[n] = uint16(64*l + bits.TrailingZeros64(c))",
		"\t\t\tn++",
		"\t\t}",
		"\t\tbefore = word >> 63",
		"\t}",
		"\treturn n",
		"",
		"It needs BMI1 and POPCNT.")
	to, up, before := asm.Load(asm.Param("bars"), asm.GP64()), asm.Load(asm.Param("up"), asm.GP64()), asm.Load(asm.Param("before"), asm.GP64())
	start := asm.GP64()
	asm.MOVQ(to, start)
	lane, end := asm.GP64(), asm.GP64()
	asm.XORL(lane.As32(), lane.As32())
	asm.MOVQ(U32(64*lanes), end)

	asm.Label("lane")
	word, changes, count := asm.GP64(), asm.GP64(), asm.GP64()
	asm.MOVQ(Mem{Base: up}, word)
	asm.LEAQ(Mem{Base: word, Index: word, Scale: 1}, changes)
	asm.ORQ(before, changes)
	asm.XORQ(word, changes)
	asm.MOVQ(word, before)
	asm.SHRQ(U8(63), before)
	asm.POPCNTQ(changes, count)
	at := asm.GP64()
	asm.MOVQ(to, at)
	asm.LEAQ(Mem{Base: to, Index: count, Scale: 2}, to)
	asm.TESTQ(changes, changes)
	asm.JZ(LabelRef("next"))

	asm.Label("four")
	for i := range 4 {
		bar := asm.GP64()
		asm.TZCNTQ(changes, bar)
		asm.ADDQ(lane, bar)
		asm.MOVW(bar.As16(), Mem{Base: at, Disp: 2 * i})
		asm.BLSRQ(changes, changes)
	}
	asm.ADDQ(I8(8), at)
	asm.TESTQ(changes, changes)
	asm.JNZ(LabelRef("four"))

	asm.Label("next")
	asm.ADDQ(I8(8), up)
	asm.ADDQ(I8(64), lane)
	asm.CMPQ(lane, end)
	asm.JNE(LabelRef("lane"))

	asm.SUBQ(start, to)
	asm.SHRQ(U8(1), to)
	asm.Store(to, asm.ReturnIndex(0))
	asm.RET()
}
