package encoding

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	codecLZ4  = 0
	codecZSTD = 1
)

func packZSTD(t testing.TB, b []byte, options ...zstd.EOption) []byte {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, append(options, zstd.WithEncoderConcurrency(1))...)
	if err != nil {
		t.Fatal(err)
	}
	return encoder.EncodeAll(b, nil)
}

func packLZ4(t testing.TB, b []byte, options ...lz4.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(options...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// prefixed puts a length before a compressed buffer.
func prefixed(length int64, b []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(length)), b...)
}

// periodic returns closes that compress well, but not to nothing.
func periodic(n int) []float64 {
	series := make([]float64, n)
	for i := range series {
		series[i] = 100 + float64(i*i%97)/4 + float64(i%1000)
	}
	return series
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestArrowReadsEveryKindOfFrame(t *testing.T) {
	series := periodic(60_000)
	raw := wireBytes(series)
	padded := append(slices.Clone(raw[:20*8]), make([]byte, 32)...)
	frames := map[string]struct {
		codec byte
		rows  int
		bytes []byte
	}{
		"lz4, padded":          {codecLZ4, 20, prefixed(192, packLZ4(t, padded))},
		"zstd, padded":         {codecZSTD, 20, prefixed(192, packZSTD(t, padded))},
		"lz4, left as it was":  {codecLZ4, len(series), prefixed(-1, raw)},
		"zstd, left as it was": {codecZSTD, len(series), prefixed(-1, raw)},
		"zstd, two frames": {codecZSTD, len(series), prefixed(int64(len(raw)),
			append(packZSTD(t, raw[:1000]), packZSTD(t, raw[1000:])...))},
		"zstd, checksum": {codecZSTD, len(series), prefixed(int64(len(raw)), packZSTD(t, raw, zstd.WithEncoderCRC(true)))},
		"zstd, best": {codecZSTD, len(series), prefixed(int64(len(raw)),
			packZSTD(t, raw, zstd.WithEncoderLevel(zstd.SpeedBestCompression)))},
	}
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for _, checksums := range []bool{false, true} {
			frames[fmt.Sprint("lz4, blocks of ", size, ", checksums ", checksums)] = struct {
				codec byte
				rows  int
				bytes []byte
			}{codecLZ4, len(series), prefixed(int64(len(raw)), packLZ4(t, raw, lz4.BlockSizeOption(size),
				lz4.ChecksumOption(checksums), lz4.BlockChecksumOption(checksums), lz4.SizeOption(uint64(len(raw)))))}
		}
	}
	for name, frame := range frames {
		var req Request
		if err := Arrow.Decode(forgedColumn(int64(frame.rows), frame.codec, frame.bytes), &req); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(req.Close, series[:frame.rows]) {
			t.Errorf("%s: other closes came out", name)
		}
	}
}

func TestArrowTakesUncompressedBuffersInPlace(t *testing.T) {
	series := periodic(100)
	body := misaligned(forgedColumn(100, codecZSTD, prefixed(-1, wireBytes(series))), 0)
	var req Request
	if err := Arrow.Decode(body, &req); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if req.Close[1] != 0 {
		t.Error("the closes were copied")
	}
}

func TestArrowRefusesLiesAboutCompression(t *testing.T) {
	series := periodic(20)
	raw := wireBytes(series)
	need := int64(len(raw))
	packers := []func(b []byte) []byte{
		codecLZ4:  func(b []byte) []byte { return packLZ4(t, b) },
		codecZSTD: func(b []byte) []byte { return packZSTD(t, b) },
	}
	for codec, pack := range packers {
		good := pack(raw)
		type lie struct {
			name   string
			rows   int64
			buffer []byte
		}
		lies := []lie{
			{"2^40 bytes", 20, prefixed(1<<40, good)},
			{"2^63-1 bytes", 20, prefixed(1<<63-1, good)},
			{"-2 bytes", 20, prefixed(-2, good)},
			{"-2^63 bytes", 20, prefixed(-1<<63, good)},
			{"0 bytes", 20, prefixed(0, good)},
			{"8 bytes fewer", 20, prefixed(need-8, good)},
			{"8 bytes more", 20, prefixed(need+8, good)},
			{"64 bytes more", 20, prefixed(need+64, good)},
			{"as it was, and shorter", 20, prefixed(-1, raw[:need-8])},
			{"less data", 20, prefixed(need, pack(raw[:need-8]))},
			{"more data", 20, prefixed(need, pack(append(slices.Clone(raw), raw[:8]...)))},
			{"more data, that can't be compressed", 20, prefixed(need, pack(noise(1000)))},
			{"no data", 20, prefixed(need, pack(nil))},
			{"no frame", 20, prefixed(need, nil)},
			{"half a prefix", 20, []byte{160, 0, 0, 0}},
			{"no prefix", 20, nil},
			{"bytes after the frame", 20, prefixed(need, append(slices.Clone(good), 1, 2, 3))},
			{"a raw buffer", 20, prefixed(need, raw)},
			{"2^30 rows", 1 << 30, prefixed(8<<30, good)},
			{"2^50 rows", 1 << 50, prefixed(8<<50, good)},
			{"2^57 rows", maxRows, prefixed(8*maxRows, good)},
		}
		for cut := range good {
			lies = append(lies, lie{fmt.Sprint("cut at byte ", cut), 20, prefixed(need, good[:cut])})
		}
		for _, lie := range lies {
			var req Request
			err := decodeWatched(t, forgedColumn(lie.rows, byte(codec), lie.buffer), Limits{}, &req)
			if err == nil || err.Kind != Malformed {
				t.Errorf("codec %d, %s: got %v, want it malformed", codec, lie.name, err)
			}
		}
		// A length that could be true is still held against the limits.
		var req Request
		constant := pack(make([]byte, 1<<20))
		err := decodeWatched(t, forgedColumn(1<<17, byte(codec), prefixed(1<<20, constant)), Limits{Bars: 1<<17 - 1}, &req)
		if err == nil || err.Kind != OverLimit {
			t.Errorf("codec %d: got %v, want it over the limit", codec, err)
		}
	}
}

func TestArrowRefusesAWindowOf512MiB(t *testing.T) {
	frame := slices.Clone(wideFrame)
	var req Request
	err := decodeWatched(t, forgedColumn(1, codecZSTD, prefixed(8, frame)), Limits{}, &req)
	if err == nil || err.Kind != Malformed {
		t.Errorf("got %v, want it malformed", err)
	}
	frame[5] = 0 // the smallest window
	if err := decodeWatched(t, forgedColumn(1, codecZSTD, prefixed(8, frame)), Limits{}, &req); err != nil {
		t.Error("the same with a window of 1 KiB: ", err)
	}
}

func TestArrowChecksTheChecksumsOfLZ4(t *testing.T) {
	series := periodic(3000)
	raw := wireBytes(series)
	frame := packLZ4(t, raw, lz4.ChecksumOption(true), lz4.BlockChecksumOption(true))
	dst := make([]byte, len(raw))
	if !inflateLZ4(dst, frame) || !bytes.Equal(dst, raw) {
		t.Fatal("the frame as it was is refused")
	}
	for i := range frame {
		flipped := slices.Clone(frame)
		flipped[i] ^= 0x10
		if inflateLZ4(dst, flipped) {
			t.Errorf("a flip in byte %d of %d went unseen", i, len(frame))
		}
	}
}

// The sums are those that XXH32 is known for, with the seed 0.
func TestXXH32(t *testing.T) {
	for text, want := range map[string]uint32{
		"":    0x02CC5D05,
		"a":   0x550D7456,
		"abc": 0x32D153FF,
	} {
		if got := xxh32([]byte(text)); got != want {
			t.Errorf("of %q: got %08x, want %08x", text, got, want)
		}
	}
}
