package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// maxJSONFloat is more than the bytes of any number, with its comma, and of
// what is written past its end.
const maxJSONFloat = 40

// appendJSONFloats appends an array of numbers in the form of appendJSONFloat.
// It stops at the first float that JSON has no words for and returns its
// index, else -1.
//
// A float m * 2^q is scaled by the power of ten that makes the distance to the
// next float at least 1 and less than 10. So the nearest whole number reads
// back to the same float; but if a multiple of 10 does too, that is shorter.
// This is Raffaello Giulietti's Schubfach, with Yaoyuan Guo's and Victor
// Zverovich's way to see it all in one product. Where the product's error of
// some units in 2^-60 could matter, in ties for one, strconv decides; and for
// denormals and powers of two, whose distances are not like the others'.
func appendJSONFloats(dst []byte, floats []float64) (_ []byte, unspeakable int) {
	if len(floats) == 0 {
		return append(dst, "[]"...), -1
	}
	dst = append(dst, '[')
	n := len(dst)
	dst = dst[:cap(dst)]
	for i, v := range floats {
		if len(dst)-n < maxJSONFloat {
			dst = slices.Grow(dst[:n], maxJSONFloat)
			dst = dst[:cap(dst)]
		}
		b := math.Float64bits(v)
		m, exponent := b&(1<<52-1), int(b>>52&0x7ff)
		if exponent == 0 || exponent == 0x7ff || m == 0 {
			if exponent == 0x7ff {
				return dst[:n], i
			}
			n = len(append(appendJSONFloat(dst[:n], v), ','))
			continue
		}
		m |= 1 << 52
		q := exponent - 1075
		k := log10Binary(q)
		shift := uint(q + log2Power(-k) + 1) // 1 to 4
		ten := &powersOfTen[-k-minPower]
		x := m << (shift & 63)
		hi, mid := bits.Mul64(x, ten.hi)
		below, _ := bits.Mul64(x, ten.lo)
		fraction, borrow := bits.Sub64(mid, below, 0)
		whole := hi - borrow
		// In units of 2^-60: the distances to the multiples of 10 around, and
		// half the distance to the next float.
		digit := whole % 10
		down := digit<<60 | fraction>>4
		up := 10<<60 - down
		half := ten.hi >> ((5 - shift) & 63)
		if down-half+2 <= 4 || up-half+2 <= 4 || fraction-(1<<63-1) <= 2 {
			n = len(append(appendJSONFloat(dst[:n], v), ','))
			continue
		}
		d := whole + fraction>>63
		if up < half {
			d = whole - digit + 10
		}
		if down < half {
			d = whole - digit
		}

		dst[n] = '-'
		n += int(b >> 63)
		t := (*[32]byte)(dst[n:])
		point := 17 + k
		if d < 1e16 {
			d *= 10
			point--
		}
		first := d / 1e16
		d -= first * 1e16
		upper := d / 1e8
		u, l := digitsOfEight(upper), digitsOfEight(d-upper*1e8)
		// The digits without the zeros at the end.
		digits := 9 - bits.LeadingZeros64(u)/8
		if l != 0 {
			digits = 17 - bits.LeadingZeros64(l)/8
		}
		u |= asciiZeros
		l |= asciiZeros
		w0, w1, w2 := first+'0'|u<<8, u>>56|l<<8, l>>56
		size := digits + 1
		if uint(point-1) < 7 {
			// The point is within the first word: the digits behind it move up.
			s := uint(point) * 8
			integer := uint64(1)<<(s&63) - 1
			binary.LittleEndian.PutUint64(t[0:], w0&integer|'.'<<(s&63)|w0&^integer<<8)
			binary.LittleEndian.PutUint64(t[8:], w0>>56|w1<<8)
			binary.LittleEndian.PutUint16(t[16:], uint16(w1>>56|w2<<8))
			if digits <= point {
				size = point
			}
		} else {
			size = putDigits(t, w0, w1, w2, digits, point)
		}
		t[size&31] = ','
		n += size + 1
	}
	dst[n-1] = ']'
	return dst[:n], -1
}

// digitsOfEight returns the eight decimal digits of v in a byte each, the first
// in the lowest.
func digitsOfEight(v uint64) uint64 {
	const ten4, ten2, ten = 10_000<<32 - 1, 100<<16 - 1, 10<<8 - 1
	// Each step splits the numbers in its lanes into an upper half, which
	// stays, and a lower half, which moves up by half a lane.
	v = v<<32 - ten4*(v*3518437209>>45)
	v = v<<16 - ten2*(v*5243>>19&0x0000007f_0000007f)
	return v<<8 - ten*(v*103>>10&0x000f_000f_000f_000f)
}

// putDigits writes the 17 digits in the words, of which some count, with the
// decimal point behind as many of them as point says, or with an exponent, and
// returns the number of bytes.
func putDigits(t *[32]byte, w0, w1, w2 uint64, digits, point int) int {
	put := func(at int) {
		binary.LittleEndian.PutUint64(t[at:], w0)
		binary.LittleEndian.PutUint64(t[at+8:], w1)
		t[at+16] = byte(w2)
	}
	switch {
	case point > 21 || point < -5:
		put(1)
		t[0] = t[1]
		n := 1
		if digits > 1 {
			t[1] = '.'
			n = digits + 1
		}
		if point > 0 {
			return n + copy(t[n:], "e+") + len(strconv.AppendInt(t[n+2:n+2], int64(point-1), 10))
		}
		return n + copy(t[n:], "e-") + len(strconv.AppendInt(t[n+2:n+2], int64(1-point), 10))
	case point <= 0:
		copy(t[:], "0.000000")
		put(2 - point)
		return 2 - point + digits
	case digits <= point:
		put(0)
		copy(t[17:], "0000")
		return point
	}
	put(1)
	copy(t[:point], t[1:])
	t[point] = '.'
	return digits + 1
}

// appendJSONFloat appends the shortest digits that read back to the same bits,
// in the form that ECMAScript gives them and encoding/json too: with an
// exponent only below 1e-6 and from 1e21 on. Negative zero is the exception:
// -0 would be right, but Python's json takes it for an integer, which has no
// sign, so it is -0.0.
func appendJSONFloat(dst []byte, v float64) []byte {
	if isNegativeZero(v) {
		return append(dst, "-0.0"...)
	}
	if abs := math.Abs(v); abs == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
	// Exponents have two digits at least: e-09 becomes e-9.
	if n := len(dst); dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

func isNegativeZero(v float64) bool { return v == 0 && math.Signbit(v) }
