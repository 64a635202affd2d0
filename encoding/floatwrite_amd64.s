//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Constants of 64 bits, which AVX-512 broadcasts.
#define FRACTION ·constants+0(SB)
DATA ·constants+0(SB)/8, $0xfffffffffffff
#define EXPONENT ·constants+8(SB)
DATA ·constants+8(SB)/8, $0x7ff
#define LOG10 ·constants+16(SB) // as in log10Binary
DATA ·constants+16(SB)/8, $78913
#define LOG2 ·constants+24(SB) // as in log2Power
DATA ·constants+24(SB)/8, $108853
#define BIAS ·constants+32(SB)
DATA ·constants+32(SB)/8, $1075
#define MINPOWER ·constants+40(SB)
DATA ·constants+40(SB)/8, $const_minPower
#define FIFTH ·constants+48(SB) // 2^52 / 5
DATA ·constants+48(SB)/8, $0x3333333333333
#define TENTH ·constants+56(SB) // 2^11 / 10, rounded up
DATA ·constants+56(SB)/8, $205
#define TEN ·constants+64(SB)
DATA ·constants+64(SB)/8, $10
#define TENUNITS ·constants+72(SB) // 10 << 60
DATA ·constants+72(SB)/8, $0xa000000000000000
#define MARGIN ·constants+80(SB)
DATA ·constants+80(SB)/8, $0x4000
#define MARGINS ·constants+88(SB)
DATA ·constants+88(SB)/8, $0x8000
#define TIE ·constants+96(SB) // 1<<63 - 16*MARGIN
DATA ·constants+96(SB)/8, $0x7ffffffffffc0000
#define TIES ·constants+104(SB)
DATA ·constants+104(SB)/8, $0x80000
#define TEN15 ·constants+112(SB)
DATA ·constants+112(SB)/8, $1000000000000000
#define BYTEN8 ·constants+120(SB) // 2^78 / 10^8, rounded up
DATA ·constants+120(SB)/8, $0xabcc77118461d
#define TEN8 ·constants+128(SB)
DATA ·constants+128(SB)/8, $100000000
#define SEVENTEEN ·constants+136(SB)
DATA ·constants+136(SB)/8, $17
#define ONE ·constants+144(SB)
DATA ·constants+144(SB)/8, $1
#define FIVE ·constants+152(SB)
DATA ·constants+152(SB)/8, $5
#define TWELVE ·constants+160(SB)
DATA ·constants+160(SB)/8, $12
#define FIFTYTWO ·constants+168(SB)
DATA ·constants+168(SB)/8, $52
#define UNDECIDED ·constants+176(SB)
DATA ·constants+176(SB)/8, $const_undecided

// Multipliers for divisions: by 10^4 of a double word, less 45 bits; by 100 of
// a word below 10^4, less 19 bits; by 10 of a word below 100, less 16 bits.
#define BYTEN4 ·constants+184(SB)
DATA ·constants+184(SB)/8, $3518437209
#define TEN4 ·constants+192(SB)
DATA ·constants+192(SB)/8, $10000
#define BYHUNDREDS ·constants+200(SB)
DATA ·constants+200(SB)/8, $0x147b147b147b147b
#define HUNDREDS ·constants+208(SB)
DATA ·constants+208(SB)/8, $0x0064006400640064
#define BYTENS ·constants+216(SB)
DATA ·constants+216(SB)/8, $0x199a199a199a199a
#define TENS ·constants+224(SB)
DATA ·constants+224(SB)/8, $0x000a000a000a000a
#define ASCII ·constants+232(SB)
DATA ·constants+232(SB)/8, $0x3030303030303030
GLOBL ·constants(SB), RODATA|NOPTR, $240

// Two vectors interleaved: the lower half, the upper.
DATA ·interleave+0(SB)/8, $0
DATA ·interleave+8(SB)/8, $8
DATA ·interleave+16(SB)/8, $1
DATA ·interleave+24(SB)/8, $9
DATA ·interleave+32(SB)/8, $2
DATA ·interleave+40(SB)/8, $10
DATA ·interleave+48(SB)/8, $3
DATA ·interleave+56(SB)/8, $11
DATA ·interleave+64(SB)/8, $4
DATA ·interleave+72(SB)/8, $12
DATA ·interleave+80(SB)/8, $5
DATA ·interleave+88(SB)/8, $13
DATA ·interleave+96(SB)/8, $6
DATA ·interleave+104(SB)/8, $14
DATA ·interleave+112(SB)/8, $7
DATA ·interleave+120(SB)/8, $15
GLOBL ·interleave(SB), RODATA|NOPTR, $128

// func splitSSE2(d *decimals)
TEXT ·splitSSE2(SB), NOSPLIT, $0-8
	MOVQ d+0(FP), DI
	LEAQ decimals_zeros(DI), SI
	MOVQ BYTEN4, X9
	PUNPCKLQDQ X9, X9
	MOVQ TEN4, X10
	PUNPCKLQDQ X10, X10
	MOVQ BYHUNDREDS, X11
	PUNPCKLQDQ X11, X11
	MOVQ HUNDREDS, X12
	PUNPCKLQDQ X12, X12
	MOVQ BYTENS, X13
	PUNPCKLQDQ X13, X13
	MOVQ TENS, X14
	PUNPCKLQDQ X14, X14
	MOVQ ASCII, X8
	PUNPCKLQDQ X8, X8
	MOVQ $const_floatBlock, CX

loop:
	// Each step leaves the quotients in the lower halves of their lanes, and
	// moves the remainders to the upper halves.
	MOVOU   (DI), X0
	MOVO    X0, X1
	PMULULQ X9, X1
	PSRLQ   $45, X1
	MOVO    X1, X2
	PMULULQ X10, X2
	PSUBL   X2, X0
	PSLLQ   $32, X0
	POR     X1, X0

	MOVO    X0, X1
	PMULHUW X11, X1
	PSRLW   $3, X1
	MOVO    X1, X2
	PMULLW  X12, X2
	PSUBW   X2, X0
	PSLLL   $16, X0
	POR     X1, X0

	MOVO    X0, X1
	PMULHUW X13, X1
	MOVO    X1, X2
	PMULLW  X14, X2
	PSUBW   X2, X0
	PSLLW   $8, X0
	POR     X1, X0

	PXOR     X3, X3
	PCMPEQB  X0, X3
	PMOVMSKB X3, AX
	MOVW     AX, (SI)
	POR      X8, X0
	MOVOU    X0, (DI)

	ADDQ $16, DI
	ADDQ $2, SI
	DECQ CX
	JNZ  loop
	RET

// SPLIT does the same with the four pairs of numbers in X.
#define SPLIT(X, zeros, halves) \
	VPMULUDQ  Z24, X, Z2             \
	VPSRLQ    $45, Z2, Z2            \
	VPMULUDQ  Z25, Z2, Z3            \
	VPSUBQ    Z3, X, X               \
	VPSLLQ    $32, X, X              \
	VPORQ     Z2, X, X               \
	VPMULHUW  Z26, X, Z2             \
	VPSRLW    $3, Z2, Z2             \
	VPMULLW   Z27, Z2, Z3            \
	VPSUBW    Z3, X, X               \
	VPSLLD    $16, X, X              \
	VPORQ     Z2, X, X               \
	VPMULHUW  Z28, X, Z2             \
	VPMULLW   Z29, Z2, Z3            \
	VPSUBW    Z3, X, X               \
	VPSLLW    $8, X, X               \
	VPORQ     Z2, X, X               \
	VPTESTNMB X, X, K2               \
	KMOVQ     K2, zeros              \
	VPORQ     Z30, X, X              \
	VMOVDQU64 X, halves

// func findAVX512(d *decimals, floats *[floatBlock]float64, powers *power)
TEXT ·findAVX512(SB), NOSPLIT, $0-24
	MOVQ d+0(FP), DI
	MOVQ floats+8(FP), SI
	MOVQ powers+16(FP), R8
	LEAQ decimals_zeros(DI), R9
	LEAQ decimals_last(DI), R10
	LEAQ decimals_sign(DI), R11
	LEAQ decimals_point(DI), R12
	VPBROADCASTQ BYTEN4, Z24
	VPBROADCASTQ TEN4, Z25
	VPBROADCASTQ BYHUNDREDS, Z26
	VPBROADCASTQ HUNDREDS, Z27
	VPBROADCASTQ BYTENS, Z28
	VPBROADCASTQ TENS, Z29
	VPBROADCASTQ ASCII, Z30
	VPBROADCASTQ FRACTION, Z31
	VMOVDQU64 ·interleave+0(SB), Z22
	VMOVDQU64 ·interleave+64(SB), Z23
	VPXORQ Z21, Z21, Z21
	VPBROADCASTQ ONE, Z20
	MOVQ $(const_floatBlock/8), CX

loop:
	VMOVDQU64 (SI), Z0
	VPSRLQ $63, Z0, Z1
	VPMOVQB Z1, (R11)

	// K1 gathers those that are left undecided. Z1 is q, Z2 k, Z3 -k, Z4 shift.
	VPSRLQ $52, Z0, Z1
	VPANDQ.BCST EXPONENT, Z1, Z1
	VPANDQ Z31, Z0, Z0
	VPTESTNMQ Z1, Z1, K1
	VPCMPEQQ.BCST EXPONENT, Z1, K2
	VPTESTNMQ Z0, Z0, K3
	KORB K2, K1, K1
	KORB K3, K1, K1
	VPSUBQ.BCST BIAS, Z1, Z1
	VPMULDQ.BCST LOG10, Z1, Z2
	VPSRAQ $18, Z2, Z2
	VPSUBQ Z2, Z21, Z3
	VPMULDQ.BCST LOG2, Z3, Z4
	VPSRAQ $15, Z4, Z4
	VPADDQ Z1, Z4, Z4
	VPADDQ Z20, Z4, Z4

	// Z5 and Z6 are the power's hi and lo.
	VPSUBQ.BCST MINPOWER, Z3, Z3
	VPSLLQ $4, Z3, Z3
	KXNORB K2, K2, K2
	VPXORQ Z5, Z5, Z5
	VPGATHERQQ (R8)(Z3*1), K2, Z5
	KXNORB K3, K3, K3
	VPXORQ Z6, Z6, Z6
	VPGATHERQQ 8(R8)(Z3*1), K3, Z6

	// Z10 and Z11 are its upper 52 bits and the next 52.
	VPTESTMQ Z6, Z6, K2
	VPSUBQ Z6, Z21, Z8
	VMOVDQA64 Z5, Z9
	VPSUBQ Z20, Z5, K2, Z9
	VPSRLQ $12, Z9, Z10
	VPSLLQ $40, Z9, Z11
	VPSRLQ $24, Z8, Z8
	VPORQ Z8, Z11, Z11
	VPANDQ Z31, Z11, Z11

	// Z13 and Z12 are the upper and the middle 52 bits of the product with the
	// mantissa, 2^52 and Z0.
	VMOVDQA64 Z11, Z12
	VPMADD52HUQ Z0, Z11, Z12
	VPMADD52LUQ Z0, Z10, Z12
	VMOVDQA64 Z10, Z13
	VPMADD52HUQ Z0, Z10, Z13
	VPSRLQ $52, Z12, Z1
	VPADDQ Z1, Z13, Z13
	VPANDQ Z31, Z12, Z12

	// Z1 is whole, Z6 fraction, Z5 half.
	VPSLLVQ Z4, Z13, Z1
	VPBROADCASTQ FIFTYTWO, Z7
	VPSUBQ Z4, Z7, Z7
	VPSRLVQ Z7, Z12, Z7
	VPORQ Z7, Z1, Z1
	VPADDQ.BCST TWELVE, Z4, Z6
	VPSLLVQ Z6, Z12, Z6
	VPBROADCASTQ FIVE, Z7
	VPSUBQ Z4, Z7, Z7
	VPSRLVQ Z7, Z5, Z5

	// Z8 is tens, Z9 digit: whole/10 is 3.2 times whole/32, and some more for
	// the remainder, which is below 64.
	VPSRLQ $5, Z1, Z7
	VPADDQ Z7, Z7, Z8
	VPADDQ Z7, Z8, Z8
	VPMADD52HUQ.BCST FIFTH, Z7, Z8
	VPSLLQ $2, Z8, Z9
	VPADDQ Z8, Z9, Z9
	VPADDQ Z9, Z9, Z9
	VPSUBQ Z9, Z1, Z9
	VPMULUDQ.BCST TENTH, Z9, Z10
	VPSRLQ $11, Z10, Z10
	VPADDQ Z10, Z8, Z8
	VPMULUDQ.BCST TEN, Z10, Z10
	VPSUBQ Z10, Z9, Z9

	// Z10 is down, Z11 up.
	VPSLLQ $60, Z9, Z10
	VPSRLQ $4, Z6, Z11
	VPORQ Z11, Z10, Z10
	VPBROADCASTQ TENUNITS, Z11
	VPSUBQ Z10, Z11, Z11

	VPSUBQ Z5, Z10, Z12
	VPADDQ.BCST MARGIN, Z12, Z12
	VPCMPUQ.BCST $2, MARGINS, Z12, K2
	VPSUBQ Z5, Z11, Z12
	VPADDQ.BCST MARGIN, Z12, Z12
	VPCMPUQ.BCST $2, MARGINS, Z12, K3
	VPSUBQ.BCST TIE, Z6, Z12
	VPCMPUQ.BCST $2, TIES, Z12, K4
	KORB K2, K1, K1
	KORB K3, K1, K1
	KORB K4, K1, K1

	VPCMPUQ $1, Z5, Z10, K2
	VPCMPUQ $1, Z5, Z11, K3
	VPADDQ Z20, Z8, K3, Z8
	VPSRLQ $63, Z6, Z6
	VPADDQ Z6, Z9, Z9
	KORB K2, K3, K2
	VMOVDQA64 Z21, K2, Z9

	// Those of 16 digits.
	VPCMPUQ.BCST $1, TEN15, Z8, K3
	VPSLLQ $2, Z8, Z10
	VPADDQ Z8, Z10, Z10
	VPADDQ Z10, Z10, Z10
	VPADDQ Z9, Z10, K3, Z8
	VMOVDQA64 Z21, K3, Z9
	VPADDQ.BCST SEVENTEEN, Z2, Z2
	VPSUBQ Z20, Z2, K3, Z2
	VPBROADCASTQ UNDECIDED, K1, Z2
	VPMOVQW Z2, (R12)
	VPMOVQB Z9, (R10)

	// Z11 and Z12 are the upper and the lower eight digits.
	VPSRLQ $8, Z8, Z10
	VPXORQ Z11, Z11, Z11
	VPMADD52HUQ.BCST BYTEN8, Z10, Z11
	VPSRLQ $18, Z11, Z11
	VPMULUDQ.BCST TEN8, Z11, Z12
	VPSUBQ Z12, Z8, Z12
	VMOVDQA64 Z11, Z0
	VPERMT2Q Z12, Z22, Z0
	VPERMT2Q Z12, Z23, Z11
	SPLIT(Z0, 0(R9), 0(DI))
	SPLIT(Z11, 8(R9), 64(DI))

	ADDQ $64, SI
	ADDQ $128, DI
	ADDQ $16, R9
	ADDQ $8, R10
	ADDQ $8, R11
	ADDQ $16, R12
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func putAVX2(d *decimals, out *[floatBlock*maxFloatText]byte, i, n int) (size, end int)
TEXT ·putAVX2(SB), NOSPLIT, $0-48
	MOVQ d+0(FP), SI
	MOVQ out+8(FP), DI
	MOVQ i+16(FP), CX
	MOVQ n+24(FP), R8
	LEAQ ·firstBytes+32(SB), R9
	MOVQ CX, R10
	SHLQ $4, R10
	ADDQ SI, R10 // halves of CX

loop:
	CMPQ    CX, R8
	JGE     done
	MOVWLZX decimals_point(SI)(CX*2), BX
	LEAL    -1(BX), AX
	CMPL    AX, $14
	JHI     done
	MOVB    $'-', (DI)
	MOVBLZX decimals_sign(SI)(CX*1), AX
	ADDQ    AX, DI

	// The digits behind the point move up.
	VMOVDQU   (R10), X0
	VPSLLDQ   $1, X0, X1
	MOVQ      R9, AX
	SUBQ      BX, AX
	VMOVDQU   (AX), X2
	VPBLENDVB X2, X0, X1, X1
	VMOVDQU   X1, (DI)
	MOVBLZX   15(R10), R11
	MOVB      R11, 16(DI)
	MOVBLZX   decimals_last(SI)(CX*1), AX
	LEAL      '0'(AX), R11
	MOVB      R11, 17(DI)
	MOVB      $'.', (DI)(BX*1)

	// AX is the digits without the zeros at the end, and the point.
	ADDL    $15, AX
	ANDL    $16, AX
	SHLL    $12, AX
	MOVWLZX decimals_zeros(SI)(CX*2), DX
	XORL    $0xffff, DX
	ORL     AX, DX
	LZCNTL  DX, DX
	MOVL    $33, AX
	SUBL    DX, AX
	LEAL    1(BX), DX
	CMPL    AX, DX
	CMOVLLE BX, AX // no point
	MOVB    $',', (DI)(AX*1)
	LEAQ    1(DI)(AX*1), DI
	ADDQ    $16, R10
	INCQ    CX
	JMP     loop

done:
	SUBQ out+8(FP), DI
	MOVQ DI, size+32(FP)
	MOVQ CX, end+40(FP)
	RET
