package encoding

import (
	"encoding/binary"
	"math/bits"

	"github.com/pierrec/lz4/v4"
)

// Bits of the frame descriptor's first byte, FLG.
const (
	lz4Dictionary      = 1 << 0
	lz4Reserved        = 1 << 1
	lz4ContentChecksum = 1 << 2
	lz4ContentSize     = 1 << 3
	lz4BlockChecksum   = 1 << 4
	lz4Independent     = 1 << 5
)

const (
	lz4Magic  = 0x184D2204
	lz4Window = 64 << 10 // how far back matches can reach
	lz4Raw    = 1 << 31  // marks the size of a block that isn't compressed
)

// inflateLZ4 decompresses the one frame that src must be into dst, and tells
// whether it fits just so. The frame is taken apart here, since a reader of
// streams allocates blocks of the size that a frame asks for, up to 4 MiB; dst
// is all that is needed. The layout is that of the LZ4 Frame Format
// Description 1.6.
func inflateLZ4(dst, src []byte) bool {
	flags, size, src, ok := lz4Header(src)
	if !ok || size >= 0 && size != int64(len(dst)) {
		return false
	}
	at := 0
	for {
		if len(src) < 4 {
			return false
		}
		mark := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if mark == 0 {
			break
		}
		length := int(mark &^ lz4Raw)
		if length > len(src) {
			return false
		}
		block := src[:length]
		src = src[length:]
		if flags&lz4BlockChecksum != 0 && !cutChecksum(&src, block) {
			return false
		}
		if mark&lz4Raw != 0 {
			if length > len(dst)-at {
				return false
			}
			at += copy(dst[at:], block)
			continue
		}
		var window []byte
		if flags&lz4Independent == 0 {
			window = dst[max(0, at-lz4Window):at]
		}
		n, err := lz4.UncompressBlockWithDict(block, dst[at:], window)
		if err != nil {
			return false
		}
		at += n
	}
	if flags&lz4ContentChecksum != 0 && !cutChecksum(&src, dst[:at]) {
		return false
	}
	return at == len(dst) && len(src) == 0
}

// lz4Header reads the begin of a frame and returns its flags, the size of its
// content or -1, and what follows.
func lz4Header(src []byte) (flags byte, size int64, rest []byte, ok bool) {
	if len(src) < 7 || binary.LittleEndian.Uint32(src) != lz4Magic {
		return 0, 0, nil, false
	}
	flags = src[4]
	if version := flags >> 6; version != 1 || flags&(lz4Reserved|lz4Dictionary) != 0 {
		return 0, 0, nil, false
	}
	end := 6
	size = -1
	if flags&lz4ContentSize != 0 {
		if len(src) < 15 {
			return 0, 0, nil, false
		}
		size = max(0, int64(binary.LittleEndian.Uint64(src[6:])))
		end = 14
	}
	if byte(xxh32(src[4:end])>>8) != src[end] {
		return 0, 0, nil, false
	}
	return flags, size, src[end+1:], true
}

// cutChecksum cuts a checksum from src and tells whether it is that of b.
func cutChecksum(src *[]byte, b []byte) bool {
	if len(*src) < 4 {
		return false
	}
	sum := binary.LittleEndian.Uint32(*src)
	*src = (*src)[4:]
	return sum == xxh32(b)
}

// xxh32 is the checksum of LZ4 frames: the 32-bit xxHash, with the seed 0, as
// the XXH32 section of its specification defines it.
func xxh32(b []byte) uint32 {
	const (
		prime1 uint32 = 0x9E3779B1
		prime2 uint32 = 0x85EBCA77
		prime3 uint32 = 0xC2B2AE3D
		prime4 uint32 = 0x27D4EB2F
		prime5 uint32 = 0x165667B1
	)
	sum := prime5
	length := uint32(len(b))
	if len(b) >= 16 {
		lanes := [4]uint32{prime1, prime2, 0, 0}
		lanes[0] += prime2
		lanes[3] -= prime1
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] += binary.LittleEndian.Uint32(b[4*i:]) * prime2
				lanes[i] = bits.RotateLeft32(lanes[i], 13) * prime1
			}
		}
		sum = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
			bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18)
	}
	sum += length
	for ; len(b) >= 4; b = b[4:] {
		sum = bits.RotateLeft32(sum+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		sum = bits.RotateLeft32(sum+uint32(c)*prime5, 11) * prime1
	}
	sum = (sum ^ sum>>15) * prime2
	sum = (sum ^ sum>>13) * prime3
	return sum ^ sum>>16
}
