package encoding

import (
	"encoding/binary"
	"math"
	"math/bits"

	"texttax/kernel"
)

// load returns the values of a part, and its validity bitmap or nil if no row
// is null. Both are in use until the inflater's next load.
func (f *inflater) load(p *part, rows int) (values, validity []byte, err error) {
	return f.loadTo(&f.values, p, rows)
}

// loadTo does as load, but decompresses the values to the scratch.
func (f *inflater) loadTo(scratch *[]byte, p *part, rows int) (values, validity []byte, err error) {
	if p.validity.exists() {
		bitmap, ok := f.bytes(&p.validity, &f.validity)
		if !ok {
			return nil, nil, errCompressed
		}
		if nulls := rows - countValid(bitmap, rows); nulls != p.nulls {
			return nil, nil, malformed("a column has %d nulls by its validity bitmap, and %d by its null count", nulls, p.nulls)
		}
		if p.nulls > 0 {
			validity = bitmap
		}
	}
	values, ok := f.bytes(&p.values, scratch)
	if !ok {
		return nil, nil, errCompressed
	}
	return values, validity, nil
}

var errCompressed = malformed("a compressed buffer does not decompress to what its length says, or its window is larger than %d MiB", maxZstdWindow>>20)

// countValid returns how many of the first rows bits are set.
func countValid(bitmap []byte, rows int) int {
	n := 0
	whole := bitmap[:rows/8]
	for ; len(whole) >= 8; whole = whole[8:] {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(whole))
	}
	for _, b := range whole {
		n += bits.OnesCount8(b)
	}
	if rest := rows % 8; rest > 0 {
		n += bits.OnesCount8(bitmap[rows/8] & (1<<rest - 1))
	}
	return n
}

// isNull tells whether a row is null. Bitmaps have the least significant bit
// first; one that is nil has no nulls.
func isNull(validity []byte, row int) bool {
	return validity != nil && validity[row/8]>>(row%8)&1 == 0
}

// prices converts the numbers in src to dst, with NaN where they can't be. It
// returns the first such row and what is wrong with it, or -1. Numbers of 8
// bytes may lie in dst's own memory.
func prices(dst []float64, src, validity []byte, kind numberKind) (fault int, detail string) {
	fault = -1
	inexact := func(row int, v any) {
		if isNull(validity, row) {
			return // whatever the row holds, it isn't said
		}
		dst[row] = math.NaN()
		if fault < 0 {
			fault, detail = row, inexactDetail(v)
		}
	}
	little := binary.LittleEndian
	switch kind {
	case float64s:
		copyNumbers(dst, src)
	case float32s:
		for i := range dst {
			dst[i] = widenFloat32(little.Uint32(src[4*i:]))
		}
	case float16s:
		for i := range dst {
			dst[i] = float16(little.Uint16(src[2*i:]))
		}
	case int64s:
		for i := range dst {
			v := int64(little.Uint64(src[8*i:]))
			f, exact := exactInt64(v)
			if dst[i] = f; !exact {
				inexact(i, v)
			}
		}
	case uint64s:
		for i := range dst {
			v := little.Uint64(src[8*i:])
			f, exact := exactUint64(v)
			if dst[i] = f; !exact {
				inexact(i, v)
			}
		}
	default:
		for i := range dst {
			dst[i] = float64(smallInteger(src, i, kind))
		}
	}
	if validity == nil {
		return fault, detail
	}
	for i := range dst {
		if isNull(validity, i) {
			dst[i] = math.NaN()
			if fault < 0 || i < fault {
				fault, detail = i, "is null: a price must be a number"
			}
		}
	}
	return fault, detail
}

// windows converts the numbers in src to one window of the combos in dst. It
// returns the first row that is no whole number and what is wrong with it, or
// -1.
func windows(dst []kernel.Params, window int, src, validity []byte, kind numberKind) (fault int, detail string) {
	for i := range dst {
		if isNull(validity, i) {
			return i, "is null: a window must be a whole number"
		}
		whole := true
		v := int64(0)
		switch kind {
		case float64s, float32s, float16s:
			f := float(src, i, kind)
			if v, whole = wholeInt64(f); !whole {
				return i, notWholeDetail(f)
			}
		case int64s, uint64s:
			v = int64(binary.LittleEndian.Uint64(src[8*i:]))
			if kind == uint64s && v < 0 {
				return i, tooLargeDetail(uint64(v))
			}
		default:
			v = smallInteger(src, i, kind)
		}
		dst[i][window] = v
	}
	return -1, ""
}

// float returns number i in src, of a kind of floats.
func float(src []byte, i int, kind numberKind) float64 {
	switch kind {
	case float16s:
		return float16(binary.LittleEndian.Uint16(src[2*i:]))
	case float32s:
		return widenFloat32(binary.LittleEndian.Uint32(src[4*i:]))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
}

// smallInteger returns number i in src, of a kind of integers of 8 to 32 bits.
func smallInteger(src []byte, i int, kind numberKind) int64 {
	switch kind {
	case int8s:
		return int64(int8(src[i]))
	case uint8s:
		return int64(src[i])
	case int16s:
		return int64(int16(binary.LittleEndian.Uint16(src[2*i:])))
	case uint16s:
		return int64(binary.LittleEndian.Uint16(src[2*i:]))
	case int32s:
		return int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
	}
	return int64(binary.LittleEndian.Uint32(src[4*i:]))
}

// float16 widens a number of IEEE 754 binary16: a sign, 5 bits of exponent and
// 10 of fraction.
func float16(b uint16) float64 {
	sign := uint64(b>>15) << 63
	exponent := int(b >> 10 & 0x1F)
	fraction := uint64(b & 0x3FF)
	switch exponent {
	case 0: // zero, or subnormal in units of 2^-24
		return math.Copysign(float64(fraction)/(1<<24), float64(1-2*int(b>>15)))
	case 0x1F: // infinity or NaN
		return math.Float64frombits(sign | 0x7FF<<52 | fraction<<42)
	}
	return math.Float64frombits(sign | uint64(exponent-15+1023)<<52 | fraction<<42)
}
