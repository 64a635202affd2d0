package encoding

import (
	"bytes"
	"encoding/binary"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

var update = flag.Bool("update", false, "write testdata/hostile anew")

const hostileFolder = "testdata/hostile"

// endOfStream is the marker behind the last message of a stream.
var endOfStream = []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}

// wideFrame is a Zstandard frame of the bytes of one close, 1.5: magic, a
// descriptor without single segment or content size, the window 2^(10+19),
// which is 512 MiB, then one raw block of 8 bytes, the last.
var wideFrame = []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 19 << 3, 8<<3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F}

// hostileStreams are streams with one lie each, and honest ones beside them.
// They lie in testdata/hostile too, for the tests that send them to a server.
func hostileStreams(t testing.TB) map[string][]byte {
	batch := func(change func(b *forgedBatch)) []byte {
		b := closeBatch(3)
		change(&b)
		return append(closeSchema(), b.bytes()...)
	}
	withBitmap := func(nulls int64, bitmap ...byte) []byte {
		b := closeBatch(3, bitmap...)
		b.nodes[0][1] = nulls
		return append(closeSchema(), b.bytes()...)
	}
	// A bitmap and values, both compressed.
	packedBitmap := func(nulls int64, bitmap []byte) []byte {
		values := prefixed(-1, wireBytes([]float64{1.5, 2.5, 3.5}))
		body := append(slices.Clone(bitmap), make([]byte, (8-len(bitmap)%8)%8)...)
		at := int64(len(body))
		return append(closeSchema(), forgedBatch{
			rows:        3,
			nodes:       [][2]int64{{3, nulls}},
			buffers:     [][2]int64{{0, int64(len(bitmap))}, {at, int64(len(values))}},
			compression: &[2]byte{codecLZ4, 0},
			body:        append(body, values...),
		}.bytes()...)
	}
	honest := batch(func(*forgedBatch) {})
	ended := slices.Concat(honest, endOfStream)
	columns := func(n int) []byte {
		b := closeBatch(3)
		b.nodes = slices.Repeat(b.nodes, n)
		b.buffers = slices.Repeat(b.buffers, n)
		return append(forgedSchema(metadataV5, 0, slices.Repeat([]func(*flatBuilder) flatOffset{closeField().write}, n)...), b.bytes()...)
	}
	vector := slices.Clone(honest)
	messages := messageReader{bytes: vector}
	schema, err := messages.next()
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(vector[8+schema.header.vector(1, 4).at-4:], math.MaxUint32)

	streams := map[string][]byte{
		"honest":       honest,
		"honest-ended": ended,

		"bitmap-full":               withBitmap(0, 0b111),
		"bitmap-null":               withBitmap(1, 0b101),
		"bitmap-missing":            withBitmap(1),
		"bitmap-null-not-counted":   withBitmap(0, 0b101),
		"bitmap-null-only-counted":  withBitmap(1, 0b111),
		"bitmap-short":              append(closeSchema(), closeBatch(9, 0xFF).bytes()...),
		"bitmap-packed-empty":       packedBitmap(0, prefixed(0, nil)),
		"bitmap-packed-empty-nulls": packedBitmap(1, prefixed(0, nil)),
		"bitmap-packed-null":        packedBitmap(1, prefixed(-1, []byte{0b101})),
		"bitmap-packed-2-40":        packedBitmap(1, prefixed(1<<40, packLZ4(t, []byte{0b101}))),

		"rows-more":     batch(func(b *forgedBatch) { b.rows = 4; b.nodes[0][0] = 4 }),
		"rows-2-57":     batch(func(b *forgedBatch) { b.rows = maxRows; b.nodes[0][0] = maxRows }),
		"rows-negative": batch(func(b *forgedBatch) { b.rows = -1; b.nodes[0][0] = -1 }),
		"column-longer": batch(func(b *forgedBatch) { b.nodes[0][0] = 4 }),
		"column-short":  batch(func(b *forgedBatch) { b.nodes[0][0] = 2 }),
		"column-2-63":   batch(func(b *forgedBatch) { b.nodes[0][0] = math.MaxInt64 }),
		"buffer-beyond": batch(func(b *forgedBatch) { b.buffers[1][1] = 1 << 40 }),
		"body-2-40":     batch(func(b *forgedBatch) { length := int64(1) << 40; b.bodyLength = &length }),
		"vector-2-32":   vector,

		"close-twice": columns(2),
		"close-seven": columns(7),

		"trailing-byte":     append(slices.Clone(ended), 0),
		"trailing-word":     append(slices.Clone(ended), make([]byte, 8)...),
		"trailing-text":     append(slices.Clone(ended), "\r\n"...),
		"trailing-marker":   append(slices.Clone(ended), endOfStream...),
		"trailing-batch":    slices.Concat(ended, closeBatch(3).bytes()),
		"trailing-half":     append(slices.Clone(ended), endOfStream[:4]...),
		"trailing-no-table": slices.Concat(ended, forgedSchema(metadataV5, 0), endOfStream),

		"zstd-window-512-MiB": forgedColumn(1, codecZSTD, prefixed(8, wideFrame)),
	}
	raw := wireBytes(periodic(20))
	need := int64(len(raw))
	for name, pack := range map[string]func() (codec byte, packed []byte){
		"lz4":  func() (byte, []byte) { return codecLZ4, packLZ4(t, raw) },
		"zstd": func() (byte, []byte) { return codecZSTD, packZSTD(t, raw, zstd.WithEncoderLevel(zstd.SpeedFastest)) },
	} {
		codec, packed := pack()
		for lie, length := range map[string]int64{
			"honest": need, "2-40": 1 << 40, "2-63": math.MaxInt64, "8-more": need + 8, "8-fewer": need - 8, "1-more": need + 1, "1-fewer": need - 1,
			"0": 0, "negative": -2, "said-raw": -1,
		} {
			streams[name+"-"+lie] = forgedColumn(20, codec, prefixed(length, packed))
		}
		streams[name+"-rows-2-40"] = forgedColumn(1<<40, codec, prefixed(8<<40, packed))
	}
	return streams
}

func TestTheHostileStreamsOnDiskAreTheForgedOnes(t *testing.T) {
	streams := hostileStreams(t)
	path := func(name string) string { return filepath.Join(hostileFolder, name+".arrows") }
	if *update {
		if err := os.MkdirAll(hostileFolder, 0o777); err != nil {
			t.Fatal(err)
		}
		for name, stream := range streams {
			if err := os.WriteFile(path(name), stream, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range streams {
		if got, err := os.ReadFile(path(name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what was forged (go test -run HostileStreams -update ./encoding writes it): %v", name, err)
		}
	}
	files, err := filepath.Glob(path("*"))
	if err != nil || len(files) != len(streams) {
		t.Errorf("there are %d files for %d streams: %v", len(files), len(streams), err)
	}
}

func TestArrowRefusesEveryHostileStream(t *testing.T) {
	accepted := map[string]bool{"honest": true, "honest-ended": true, "bitmap-full": true, "bitmap-null": true, "bitmap-packed-empty": true, "bitmap-packed-null": true, "lz4-honest": true, "zstd-honest": true}
	for name, stream := range hostileStreams(t) {
		var req Request
		err := decodeWatched(t, stream, Limits{Bars: 1 << 20}, &req)
		if accepted[name] {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if null := strings.HasSuffix(name, "-null"); null != (req.Invalid != nil) || null && req.Invalid.Index != 1 {
				t.Errorf("%s: the invalid price is %v", name, req.Invalid)
			}
			continue
		}
		if err == nil || err.Kind != Malformed && name != "trailing-no-table" {
			t.Errorf("%s: got %v, want it malformed", name, err)
		}
		if strings.HasPrefix(name, "close-") && (err == nil || err.Field != "close" || !strings.Contains(err.Detail, "columns of this name")) {
			t.Errorf("%s: %v does not name the column", name, err)
		}
	}
}
