//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// firstBytes+32-n holds the mask of the first n bytes of 16.
DATA ·firstBytes+0(SB)/8, $-1
DATA ·firstBytes+8(SB)/8, $-1
DATA ·firstBytes+16(SB)/8, $-1
DATA ·firstBytes+24(SB)/8, $-1
DATA ·firstBytes+32(SB)/8, $0
DATA ·firstBytes+40(SB)/8, $0
GLOBL ·firstBytes(SB), RODATA|NOPTR, $48

// Digits are what is at most -119 after 80 is added.
DATA readConstants<>+0(SB)/8, $0x5050505050505050
DATA readConstants<>+8(SB)/8, $0x8989898989898989
DATA readConstants<>+16(SB)/8, $0x3030303030303030
DATA readConstants<>+24(SB)/8, $0x010a010a010a010a
DATA readConstants<>+32(SB)/8, $0x0001006400010064
DATA readConstants<>+40(SB)/8, $0x0001271000012710
GLOBL readConstants<>(SB), RODATA|NOPTR, $48

// func plainFloatsAVX2(dst []float64, text []byte, p int) (n, end int)
TEXT ·plainFloatsAVX2(SB), NOSPLIT, $0-72
	MOVQ dst_base+0(FP), DI
	MOVQ dst_len+8(FP), CX
	MOVQ text_base+24(FP), SI
	MOVQ text_len+32(FP), R9
	LEAQ -40(SI)(R9*1), R9 // before it a number may start
	ADDQ p+48(FP), SI
	LEAQ ·powersOfTen+((-17-const_minPower)*16)(SB), R8
	LEAQ ·firstBytes+32(SB), R15
	VPBROADCASTQ readConstants<>+0(SB), Y8
	VPBROADCASTQ readConstants<>+8(SB), Y9
	VPBROADCASTQ readConstants<>+16(SB), X10
	VPBROADCASTQ readConstants<>+24(SB), X11
	VPBROADCASTQ readConstants<>+32(SB), X12
	VPBROADCASTQ readConstants<>+40(SB), X13

loop:
	MOVQ SI, R11
	TESTQ CX, CX
	JEQ  done
	CMPQ SI, R9
	JGE  done
	XORL R10, R10
	CMPB (SI), $'-'
	JEQ  negative

digits:
	VMOVDQU   (SI), Y0
	VPADDB    Y8, Y0, Y1
	VPCMPGTB  Y9, Y1, Y1
	VPMOVMSKB Y1, AX

	// BX is the first byte that is no digit, DX that behind the number, R12
	// how many digits there are.
	TZCNTL AX, BX
	JCS    done
	TESTL  BX, BX
	JEQ    done
	CMPB   (SI), $'0'
	JNE    strict
	CMPL   BX, $1
	JNE    done

strict:
	CMPB   (SI)(BX*1), $'.'
	JNE    integer
	BLSRL  AX, AX
	TZCNTL AX, DX
	LEAQ   -1(DX), R12
	CMPL   R12, $17
	JHI    done
	CMPL   R12, BX
	JEQ    done

ended:
	CMPB (SI)(DX*1), $','
	JNE  done

	// 16 digits: those behind the point move down, and zeros follow the last.
	VMOVDQU    1(SI), X3
	MOVQ       R15, R13
	SUBQ       BX, R13
	VMOVDQU    (R13), X4
	VPBLENDVB  X4, X0, X3, X3
	VPSUBB     X10, X3, X3
	MOVQ       R15, R13
	SUBQ       R12, R13
	VPAND      (R13), X3, X3
	VPMADDUBSW X11, X3, X3
	VPMADDWD   X12, X3, X3
	VPACKUSDW  X3, X3, X3
	VPMADDWD   X13, X3, X3
	VMOVQ      X3, AX
	MOVL       AX, R13
	SHRQ       $32, AX
	IMULQ      $100000000, R13
	ADDQ       R13, AX

	// And a 17th.
	LEAQ    (AX)(AX*4), AX
	MOVBLZX 17(SI), R13
	SUBL    $'0', R13
	CMPL    R12, $17
	MOVL    $0, R12
	CMOVLNE R12, R13
	LEAQ    (R13)(AX*2), AX
	LEAQ    1(SI)(DX*1), SI
	TESTQ   AX, AX
	JEQ     zero

	// AX is the product's lower half, R12 the upper, R13 the leading zeros.
	LZCNTQ AX, R13
	SHLXQ  R13, AX, DX
	SHLQ   $4, BX
	MULXQ  (R8)(BX*1), AX, R12
	TESTL  $0x1ff, R12
	JEQ    narrow
	MOVQ   R12, DX
	SHRQ   $63, DX       // top
	LEAQ   9(DX), AX
	SHRXQ  AX, R12, R12
	INCQ   R12
	SHRQ   $1, R12

pack:
	// 1085 + log2Power(point-17) + top - zeros
	SUBQ  R13, DX
	SHRQ  $4, BX
	SUBQ  $17, BX
	IMULQ $108853, BX
	SARQ  $15, BX
	LEAQ  1085(DX)(BX*1), DX
	SHLQ  $52, DX
	ADDQ  DX, R12

store:
	ORQ  R10, R12
	MOVQ R12, (DI)
	ADDQ $8, DI
	DECQ CX
	CMPB (SI), $' '
	JNE  loop
	INCQ SI
	JMP  loop

negative:
	INCQ SI
	MOVQ $1, R10
	SHLQ $63, R10
	JMP  digits

integer:
	MOVL BX, DX
	MOVL BX, R12
	CMPL BX, $16
	JLS  ended

done:
	MOVQ dst_len+8(FP), AX
	SUBQ CX, AX
	MOVQ AX, n+56(FP)
	SUBQ text_base+24(FP), R11
	MOVQ R11, end+64(FP)
	VZEROUPPER
	RET

zero:
	XORL R12, R12
	JMP  store

narrow:
	// As in nearestFloat: the rest of the product, and ties to even. DX is
	// still the shifted digits.
	MULXQ   8(R8)(BX*1), DX, DX
	SUBQ    DX, AX
	SBBQ    $0, R12
	CMPQ    AX, $1
	SETHI   AX
	MOVBLZX AX, AX
	MOVQ    R12, DX
	SHRQ    $63, DX
	MOVQ    $55, R11
	SUBQ    DX, R11
	SHLXQ   R11, R12, R11
	ORQ     R11, AX
	NEGQ    AX
	SBBQ    AX, AX       // -1 if anything is below the half, else 0
	LEAQ    9(DX), R11
	SHRXQ   R11, R12, R12
	MOVQ    R12, R11
	SHRQ    $1, R11
	ORQ     AX, R11
	ANDQ    $1, R11
	ADDQ    R11, R12
	SHRQ    $1, R12
	JMP     pack
