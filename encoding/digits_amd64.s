//go:build !purego

#include "textflag.h"

// Multipliers of divisions: x/10_000 of a double word by 45 bits, x/100 of a
// word below 10_000 by 19, x/10 of a word below 100 by 16.
DATA byTenThousand<>+0(SB)/8, $3518437209
DATA byTenThousand<>+8(SB)/8, $3518437209
GLOBL byTenThousand<>(SB), RODATA|NOPTR, $16

DATA tenThousand<>+0(SB)/8, $10000
DATA tenThousand<>+8(SB)/8, $10000
GLOBL tenThousand<>(SB), RODATA|NOPTR, $16

DATA byHundred<>+0(SB)/8, $0x147b147b147b147b
DATA byHundred<>+8(SB)/8, $0x147b147b147b147b
GLOBL byHundred<>(SB), RODATA|NOPTR, $16

DATA hundred<>+0(SB)/8, $0x0064006400640064
DATA hundred<>+8(SB)/8, $0x0064006400640064
GLOBL hundred<>(SB), RODATA|NOPTR, $16

DATA byTen<>+0(SB)/8, $0x199a199a199a199a
DATA byTen<>+8(SB)/8, $0x199a199a199a199a
GLOBL byTen<>(SB), RODATA|NOPTR, $16

DATA ten<>+0(SB)/8, $0x000a000a000a000a
DATA ten<>+8(SB)/8, $0x000a000a000a000a
GLOBL ten<>(SB), RODATA|NOPTR, $16

DATA ascii<>+0(SB)/8, $0x3030303030303030
DATA ascii<>+8(SB)/8, $0x3030303030303030
GLOBL ascii<>(SB), RODATA|NOPTR, $16

// func splitDigits(halves *[floatBlock][2]uint64, zeros *[floatBlock]uint16)
TEXT ·splitDigits(SB), NOSPLIT, $0-16
	MOVQ  halves+0(FP), SI
	MOVQ  zeros+8(FP), DI
	MOVOU byTenThousand<>(SB), X9
	MOVOU tenThousand<>(SB), X10
	MOVOU byHundred<>(SB), X11
	MOVOU hundred<>(SB), X12
	MOVOU byTen<>(SB), X13
	MOVOU ten<>(SB), X14
	MOVOU ascii<>(SB), X15
	MOVQ  $64, CX

loop:
	// Each step leaves the quotients in the lower half of their lanes, and
	// moves the remainders to the upper.
	MOVOU   (SI), X0
	MOVOU   X0, X1
	PMULULQ X9, X1
	PSRLQ   $45, X1
	MOVOU   X1, X2
	PMULULQ X10, X2
	PSUBL   X2, X0
	PSLLQ   $32, X0
	POR     X1, X0

	MOVOU   X0, X1
	PMULHUW X11, X1
	PSRLW   $3, X1
	MOVOU   X1, X2
	PMULLW  X12, X2
	PSUBW   X2, X0
	PSLLL   $16, X0
	POR     X1, X0

	MOVOU   X0, X1
	PMULHUW X13, X1
	MOVOU   X1, X2
	PMULLW  X14, X2
	PSUBW   X2, X0
	PSLLW   $8, X0
	POR     X1, X0

	PXOR     X3, X3
	PCMPEQB  X0, X3
	PMOVMSKB X3, AX
	MOVW     AX, (DI)
	POR      X15, X0
	MOVOU    X0, (SI)

	ADDQ $16, SI
	ADDQ $2, DI
	DECQ CX
	JNZ  loop
	RET
