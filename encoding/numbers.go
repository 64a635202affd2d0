package encoding

import (
	"io"
	"math"
	"unsafe"
)

// littleEndian tells whether this machine keeps numbers as the wire does.
var littleEndian = func() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 1
}()

type wireNumber interface{ float64 | int64 | int8 }

// view returns the little-endian numbers in b without copying them, or false
// where this machine can't read them in place. len(b) must be a multiple of
// the numbers' size.
func view[T wireNumber](b []byte) ([]T, bool) {
	size := unsafe.Sizeof(T(0))
	if len(b) == 0 {
		return []T{}, true
	}
	address := unsafe.Pointer(unsafe.SliceData(b))
	if !littleEndian || uintptr(address)%size != 0 {
		return nil, false
	}
	return unsafe.Slice((*T)(address), uintptr(len(b))/size), true
}

// copyNumbers fills dst with the little-endian numbers in src, which must be
// of just the right length.
func copyNumbers[T wireNumber](dst []T, src []byte) {
	if len(dst) == 0 {
		return
	}
	raw := bytesOf(dst)
	copy(raw, src)
	if !littleEndian {
		reverseEach(raw, len(raw)/len(dst))
	}
}

// bytesOf returns the memory of numbers.
func bytesOf[T wireNumber](numbers []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), len(numbers)*int(unsafe.Sizeof(T(0))))
}

// appendNumbers appends src to dst as little-endian bytes.
func appendNumbers[T wireNumber](dst []byte, src []T) []byte {
	if len(src) == 0 {
		return dst
	}
	raw := bytesOf(src)
	start := len(dst)
	dst = append(dst, raw...)
	if !littleEndian {
		reverseEach(dst[start:], len(raw)/len(src))
	}
	return dst
}

func reverseEach(b []byte, size int) {
	for ; len(b) >= size; b = b[size:] {
		for i, j := 0, size-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
}

// numbers returns the little-endian numbers in b: in place where possible,
// else copied into the scratch.
func numbers[T wireNumber](b []byte, scratch *[]T) []T {
	if in, ok := view[T](b); ok {
		return in
	}
	out := grow(scratch, len(b)/int(unsafe.Sizeof(T(0))))
	copyNumbers(out, b)
	return out
}

// exactInt64 returns v as a float64, and whether it is exactly v.
func exactInt64(v int64) (float64, bool) {
	f := float64(v)
	// float64(MaxInt64) is 2^63, which converts back to something else.
	return f, f != 1<<63 && int64(f) == v
}

// exactUint64 returns v as a float64, and whether it is exactly v.
func exactUint64(v uint64) (float64, bool) {
	f := float64(v)
	return f, f != 1<<64 && uint64(f) == v
}

// wholeInt64 returns f as an int64, and whether f is a whole number in range.
func wholeInt64(f float64) (int64, bool) {
	if f != math.Trunc(f) || f < -1<<63 || f >= 1<<63 {
		return 0, false
	}
	return int64(f), true
}

// widenFloat32 widens IEEE bits exactly. The conversion instruction would make
// a signalling NaN quiet, so NaN payloads are moved by hand.
func widenFloat32(bits uint32) float64 {
	if f := math.Float32frombits(bits); f == f {
		return float64(f)
	}
	sign, payload := uint64(bits>>31), uint64(bits&(1<<23-1))
	return math.Float64frombits(sign<<63 | 0x7ff<<52 | payload<<29)
}

// LittleEndian returns the series as little-endian bytes: its own memory where
// this machine keeps numbers so, else a copy.
func LittleEndian(series []float64) []byte {
	if littleEndian {
		return rawBytes(series)
	}
	return appendNumbers(nil, series)
}

// ReadSeries reads a series of little-endian closes, straight to where it
// stays. If there are fewer the error is that of io.ReadFull.
func ReadSeries(r io.Reader, bars int) ([]float64, error) {
	series := make([]float64, bars)
	raw := rawBytes(series)
	if _, err := io.ReadFull(r, raw); err != nil {
		return nil, err
	}
	if !littleEndian {
		reverseEach(raw, bytesPrice)
	}
	return series, nil
}

// rawBytes returns the bytes of the series as they lie.
func rawBytes(series []float64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(series))), len(series)*bytesPrice)
}
