package encoding

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow bounds what a Zstandard frame may ask for. All levels up to
// 19 stay within.
const maxZstdWindow = 8 << 20

// inflater decompresses buffers. It is reused, since a decoder of Zstandard
// is dear to make.
type inflater struct {
	zstd     *zstd.Decoder
	validity []byte
	values   []byte
}

var inflaters = sync.Pool{New: func() any { return new(inflater) }}

func newInflater() *inflater { return inflaters.Get().(*inflater) }

// maxInflated is the largest scratch, in bytes, that a released inflater keeps:
// that of the largest series that a Request does.
const maxInflated = 8 * maxRetained

// release gives the inflater back. Its bytes must be in use no longer.
func (f *inflater) release() {
	if cap(f.validity)+cap(f.values) > maxInflated {
		f.validity, f.values = nil, nil
	}
	inflaters.Put(f)
}

// bytes returns the bytes of a buffer that are needed: in place, or in the
// scratch if they had to be decompressed. It returns false if what comes out
// is not just what the buffer promised.
func (f *inflater) bytes(b *arrowBuffer, scratch *[]byte) ([]byte, bool) {
	if b.codec == uncompressed {
		return b.bytes, true
	}
	out := grow(scratch, b.size)
	ok := false
	switch b.codec {
	case compressedLZ4:
		ok = inflateLZ4(out, b.bytes)
	case compressedZSTD:
		ok = f.inflateZSTD(out, b.bytes)
	}
	return out[:b.needed], ok
}

// inflateZSTD decompresses src into dst and tells whether it fits.
func (f *inflater) inflateZSTD(dst, src []byte) bool {
	if f.zstd == nil {
		decoder, err := zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow),
			zstd.WithDecodeAllCapLimit(true)) // or it allocates what a frame claims
		if err != nil {
			return false
		}
		f.zstd = decoder
	}
	out, err := f.zstd.DecodeAll(src, dst[:0:len(dst)])
	if err != nil || len(out) != len(dst) {
		return false
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out) // the decoder may have moved
	}
	return true
}
