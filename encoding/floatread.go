package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Decimals become floats in three steps, each for what the one before leaves:
//
//   - plainFloats takes elements of an array that look like prices, a whole
//     number at once;
//   - scanFloat takes any number that its first 19 digits decide;
//   - jsonScanner.number and strconv take the rest, and find the words for
//     what is no number.
//
// A decimal w * 10^p is scaled as Russ Cox has it in "Floating-Point Printing
// and Parsing Can Be Simple And Fast": by a power of ten of 128 bits, of which
// mostly the upper 64 do. For any w of 64 bits, 128 decide ties too.

const (
	eachByte   = 0x0101010101010101
	asciiZeros = '0' * eachByte
)

// nonDigits returns the top bit of each byte of x that is not 0 to 9, and
// anything for the bytes above one of 0x8a or more.
func nonDigits(x uint64) uint64 { return (x + 0x76*eachByte | x) & (0x80 * eachByte) }

// eightDigits returns the number whose digits are the bytes of x, the first
// digit in the lowest byte.
func eightDigits(x uint64) uint64 {
	const pair = 0x000000ff000000ff
	x = x*10 + x>>8 // a pair of digits in every other byte
	return ((x&pair)*(100+1_000_000<<32) + (x>>16&pair)*(1+10_000<<32)) >> 32
}

// fill reads elements of an array, each with the comma behind it, and fills dst
// with them. It stops before the first element that it can't read, which may
// still be right.
func (s *jsonScanner) fill(dst []float64) (n int) {
	for n < len(dst) {
		count, end := plainFloats(dst[n:], s.text, s.pos)
		n += count
		s.pos = end
		if n == len(dst) {
			break
		}
		if s.peek(); s.pos > end {
			continue
		}
		v, end, ok := scanFloat(s.text, s.pos)
		if !ok || end == len(s.text) || s.text[end] != ',' {
			break
		}
		dst[n] = v
		n++
		s.pos = end + 1
	}
	return n
}

// plainFloatsGo reads numbers at text[p:], each with a comma behind it and no
// white space but a space after the comma. It stops before a number of more
// than 7 digits before the point or 17 in all, one with an exponent, whatever
// else is unusual, and near the end of the text.
func plainFloatsGo(dst []float64, text []byte, p int) (n, end int) {
	for n < len(dst) && len(text)-p > 40 {
		t := (*[32]byte)(text[p:])
		negative := uint64(0)
		if t[0] == '-' {
			negative = 1
			t = (*[32]byte)(text[p+1:])
		}
		x0 := binary.LittleEndian.Uint64(t[0:]) ^ asciiZeros
		var x1, x2 uint64
		// The first byte that is no digit ends the integer.
		ends := nonDigits(x0)
		if ends == 0 {
			break
		}
		shift := uint(bits.TrailingZeros64(ends)) - 7
		integer := uint64(1)<<(shift&63) - 1
		point := shift / 8
		size := point
		if point == 0 || t[0] == '0' && point > 1 {
			break
		}
		if t[point&31] == '.' {
			if ends &= ends - 1; ends != 0 {
				shift = uint(bits.TrailingZeros64(ends)) - 7
				x0 &= uint64(1)<<(shift&63) - 1
				size = shift / 8
			} else {
				x1 = binary.LittleEndian.Uint64(t[8:]) ^ asciiZeros
				if ends = nonDigits(x1); ends != 0 {
					shift = uint(bits.TrailingZeros64(ends)) - 7
					x1 &= uint64(1)<<(shift&63) - 1
					size = 8 + shift/8
				} else {
					x2 = binary.LittleEndian.Uint64(t[16:]) ^ asciiZeros
					shift = uint(bits.TrailingZeros64(nonDigits(x2))) - 7
					if shift > 16 {
						break
					}
					x2 &= uint64(1)<<(shift&63) - 1
					size = 16 + shift/8
				}
			}
			// The digits behind the point move down.
			x0 = x0&integer | x0>>8&^integer | x1<<56
			if size == point+1 {
				break
			}
		} else {
			x0 &= integer
		}
		if t[size&31] != ',' {
			break
		}
		p += int(negative) + int(size) + 1
		if text[p] == ' ' {
			p++
		}

		// 17 digits, with zeros behind if there are fewer.
		digits := (eightDigits(x0)*1e8+eightDigits(x1>>8|x2<<56))*10 + x2>>8
		exponent := int(point) - 17
		zeros := bits.LeadingZeros64(digits)
		hi, _ := bits.Mul64(digits<<(zeros&63), powersOfTen[exponent-minPower].hi)
		top := hi >> 63
		mantissa := (hi>>(9+top) + 1) >> 1
		f := (uint64(1085+log2Power(exponent)-zeros)+top)<<52 + mantissa
		if hi&(1<<9-1) == 0 { // more bits are needed, or none
			f, _ = nearestFloat(digits, exponent)
		}
		dst[n] = math.Float64frombits(negative<<63 | f)
		n++
	}
	return n, p
}

// scanFloat reads the number at text[p:], and returns where it ends. It gives
// up on what is no number, on numbers beyond float64, and on those of more
// than 19 digits that the first 19 don't decide.
func scanFloat(text []byte, p int) (v float64, end int, ok bool) {
	sign := uint64(0)
	if p < len(text) && text[p] == '-' {
		sign = 1 << 63
		p++
	}
	first := p
	w := uint64(0)
	for p < len(text) && text[p]-'0' < 10 {
		w = w*10 + uint64(text[p]-'0')
		p++
	}
	digits, exponent := p-first, 0
	if digits == 0 || digits > 1 && text[first] == '0' {
		return 0, 0, false
	}
	if p < len(text) && text[p] == '.' {
		p++
		fraction := p
		for len(text)-p >= 8 {
			x := binary.LittleEndian.Uint64(text[p:]) ^ asciiZeros
			if nonDigits(x) != 0 {
				break
			}
			w = w*1e8 + eightDigits(x)
			p += 8
		}
		for p < len(text) && text[p]-'0' < 10 {
			w = w*10 + uint64(text[p]-'0')
			p++
		}
		if p == fraction {
			return 0, 0, false
		}
		digits += p - fraction
		exponent = fraction - p
	}
	more := false
	if digits > 19 {
		// w may have overflowed. Zeros in front don't count.
		w, exponent, more = leadingDigits(text[first:p])
	}
	if p < len(text) && text[p]|0x20 == 'e' {
		p++
		negative := false
		if p < len(text) && (text[p] == '+' || text[p] == '-') {
			negative = text[p] == '-'
			p++
		}
		e, start := 0, p
		for p < len(text) && text[p]-'0' < 10 {
			if e < 10_000 { // as strconv does
				e = e*10 + int(text[p]-'0')
			}
			p++
		}
		if p == start {
			return 0, 0, false
		}
		if negative {
			e = -e
		}
		exponent += e
	}
	b, ok := nearestFloat(w, exponent)
	if more && ok {
		var above uint64
		above, ok = nearestFloat(w+1, exponent)
		ok = ok && above == b
	}
	return math.Float64frombits(sign | b), p, ok
}

// leadingDigits returns the first 19 digits of a mantissa that are not leading
// zeros, their exponent, and whether digits other than 0 follow.
func leadingDigits(mantissa []byte) (w uint64, exponent int, more bool) {
	behind := 0 // -1 for each digit behind the point
	n := 0
	for _, c := range mantissa {
		switch {
		case c == '.':
			behind = -1
			continue
		case n == 19:
			exponent++
			more = more || c != '0'
		case n > 0 || c != '0':
			w = w*10 + uint64(c-'0')
			n++
		}
		exponent += behind
	}
	return w, exponent, more
}

// nearestFloat returns the bits of the float nearest to w * 10^p, and false if
// it is beyond float64.
func nearestFloat(w uint64, p int) (b uint64, ok bool) {
	if w == 0 || p < minPower {
		return 0, true
	}
	if p > 308 {
		return 0, false
	}
	zeros := bits.LeadingZeros64(w)
	w <<= zeros & 63
	ten := powersOfTen[p-minPower]
	hi, mid := bits.Mul64(w, ten.hi)
	// The float is m * 2^(e-1075), where m is hi without its lowest bits.
	e, drop := 1086+log2Power(p)-zeros, 10
	if hi>>63 != 0 {
		e, drop = e+1, 11
	}
	if e < 1 { // a denormal
		e, drop = 1, drop+1-e
		if drop > 64 {
			return 0, true
		}
	}
	below := uint64(1)<<(drop-1) - 1 // the bits below the half
	rest := hi & below
	if rest == 0 {
		// The product less that of ten.lo may be just below hi, just hi, or
		// above: just hi if within 1, as the power is rounded up by that much.
		lo, _ := bits.Mul64(w, ten.lo)
		if mid < lo {
			hi--
		}
		rest = hi & below
		if mid-lo > 1 {
			rest |= 1
		}
	}
	m, half := hi>>drop, hi>>(drop-1)&1
	if rest != 0 {
		m += half
	} else {
		m += half & m // ties to even
	}
	b = uint64(e-1)<<52 + m
	return b, b < 0x7ff<<52
}
