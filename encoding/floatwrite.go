package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// floatBlock is how many floats are written in one go.
const floatBlock = 64

// maxFloatText is no less than the bytes of a number with its comma, and of
// what is written past its end.
const maxFloatText = 40

// appendJSONFloats appends an array of numbers in the form of appendJSONFloat.
// It stops at the first float that JSON has no words for and returns its
// index, else -1.
//
// The digits of a block are found before any is written: the steps for one
// number wait for each other, and a processor doesn't look far enough ahead to
// take up the next number meanwhile, if all the steps lie between.
func appendJSONFloats(dst []byte, floats []float64) (_ []byte, unspeakable int) {
	if len(floats) == 0 {
		return append(dst, "[]"...), -1
	}
	dst = append(dst, '[')
	var block decimals
	for start := 0; start < len(floats); start += floatBlock {
		floats := floats[start:min(start+floatBlock, len(floats))]
		block.shortest(floats)
		for i := 0; i < len(floats); {
			dst = slices.Grow(dst, floatBlock*maxFloatText)
			n, end := block.put((*[floatBlock * maxFloatText]byte)(dst[len(dst):cap(dst)]), i, len(floats))
			dst, i = dst[:len(dst)+n], end
			if i < len(floats) && block.point[i] == undecided {
				if v := floats[i]; v-v != 0 {
					return dst, start + i
				}
				dst = append(appendJSONFloat(dst, floats[i]), ',')
				i++
			}
		}
	}
	dst[len(dst)-1] = ']'
	return dst, -1
}

// decimals are floats on the way to their shortest text: 16 digits and a 17th,
// with the decimal point behind as many of them as point says.
type decimals struct {
	halves [floatBlock][2]uint64 // eight digits and eight: numbers, then text
	zeros  [floatBlock]uint16    // which of the 16 digits are zeros
	last   [floatBlock]uint8
	sign   [floatBlock]uint8 // 1 if negative
	point  [floatBlock]int16
}

// undecided is the point of a float that find leaves.
const undecided = math.MinInt16

// find finds the decimals of floats but for their signs.
//
// A float m * 2^q is scaled by the power of ten that makes the distance to the
// next float at least 1 and less than 10. So the nearest whole number reads
// back to the same float; but if a multiple of 10 does too, that is shorter.
// This is Raffaello Giulietti's Schubfach, with Yaoyuan Guo's and Victor
// Zverovich's way to see it all in one product. It leaves what the product's
// error of some units in 2^-60 could turn, ties for one; and denormals and
// powers of two, whose distances are not like the others'.
func (d *decimals) find(floats []float64) {
	for i := 0; i < len(floats); {
		// Neighbours in a series are mostly of one sign and binary exponent.
		head := math.Float64bits(floats[i]) >> 52
		exponent := int(head & 0x7ff)
		if exponent == 0 || exponent == 0x7ff {
			d.point[i%floatBlock] = undecided
			i++
			continue
		}
		q := exponent - 1075
		k := log10Binary(q)
		shift := uint(q + log2Power(-k) + 1) // 1 to 4
		ten := powersOfTen[-k-minPower]
		half := ten.hi >> ((5 - shift) & 63)
		for ; i < len(floats); i++ {
			b := math.Float64bits(floats[i])
			if b>>52 != head {
				break
			}
			m := b & (1<<52 - 1)
			if m == 0 {
				d.point[i%floatBlock] = undecided
				continue
			}
			m = (m | 1<<52) << (shift & 63)
			hi, mid := bits.Mul64(m, ten.hi)
			below, _ := bits.Mul64(m, ten.lo)
			fraction, borrow := bits.Sub64(mid, below, 0)
			whole := hi - borrow
			// In units of 2^-60: the distances to the multiples of 10 around,
			// and half the distance to the next float.
			tens := whole / 10
			digit := whole - tens*10
			down := digit<<60 | fraction>>4
			up := 10<<60 - down
			if down-half+2 <= 4 || up-half+2 <= 4 || fraction-(1<<63-1) <= 2 {
				d.point[i%floatBlock] = undecided
				continue
			}
			_, isDown := bits.Sub64(down, half, 0)
			_, isUp := bits.Sub64(up, half, 0)
			tens += isUp
			digit = (digit + fraction>>63) & (isDown + isUp - 1)
			point := 17 + k
			if tens < 1e15 {
				tens = tens*10 + digit
				digit = 0
				point--
			}
			j := i % floatBlock
			upper := tens / 1e8
			d.halves[j] = [2]uint64{upper, tens - upper*1e8}
			d.last[j], d.sign[j], d.point[j] = uint8(digit), uint8(head>>11), int16(point)
		}
	}
}

// putGo writes the decimals from i on, each with a comma behind it, up to n or
// the first that is undecided, and returns the number of bytes and where it
// ended.
func (d *decimals) putGo(out *[floatBlock * maxFloatText]byte, i, n int) (size, end int) {
	p := uint(0)
	for ; i < n; i++ {
		j := i & (floatBlock - 1)
		point := int(d.point[j])
		if point == undecided || p > uint(len(out)-maxFloatText) {
			break
		}
		out[p] = '-'
		p += uint(d.sign[j])
		t := (*[32]byte)(out[p : p+32])
		u, l, last := d.halves[j][0], d.halves[j][1], uint64(d.last[j])
		// All but the zeros at the end.
		digits := bits.Len32(uint32(^d.zeros[j]) | uint32(last+15)>>4<<16)
		last |= '0'
		size := digits + 1
		if uint(point-1) < 7 {
			// The digits behind the point move up in the first word.
			s := uint(point) * 8
			integer := uint64(1)<<(s&63) - 1
			binary.LittleEndian.PutUint64(t[0:], u&integer|'.'<<(s&63)|u&^integer<<8)
			binary.LittleEndian.PutUint64(t[8:], u>>56|l<<8)
			binary.LittleEndian.PutUint16(t[16:], uint16(l>>56|last<<8))
			if digits <= point {
				size = point
			}
		} else {
			size = putDigits(t, u, l, last, digits, point)
		}
		t[size&31] = ','
		p += uint(size) + 1
	}
	return int(p), i
}

// split replaces the halves, each a number, by their text, the first digit in
// the lowest byte, and tells which digits are zeros.
func (d *decimals) split() {
	for i, half := range d.halves {
		u, l := digitsOfEight(half[0]), digitsOfEight(half[1])
		d.zeros[i] = uint16(zeroBytes(u) | zeroBytes(l)<<8)
		d.halves[i] = [2]uint64{u | asciiZeros, l | asciiZeros}
	}
}

// zeroBytes returns a bit for each byte of digits that is 0.
func zeroBytes(digits uint64) uint64 {
	return (0x80*eachByte - digits) & (0x80 * eachByte) >> 7 * 0x0102040810204080 >> 56
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

// putDigits writes 17 digits, of which some count, with the decimal point
// behind as many of them as point says, or with an exponent, and returns the
// number of bytes.
func putDigits(t *[32]byte, u, l, last uint64, digits, point int) int {
	put := func(at int) {
		binary.LittleEndian.PutUint64(t[at:], u)
		binary.LittleEndian.PutUint64(t[at+8:], l)
		t[at+16] = byte(last)
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
