package encoding

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"

	"texttax/kernel"
)

// decodeWatched decodes body as a request, and fails if that allocates more
// than it may, or if the error is no *Error.
func decodeWatched(t testing.TB, body []byte, limits Limits, req *Request) *Error {
	t.Helper()
	*req = Request{}
	req.Reset(limits)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Arrow.Decode(body, req)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(2*len(body)+1<<20) {
		t.Errorf("decoding %d bytes allocated %d", len(body), allocated)
	}
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) || e == nil {
		t.Fatalf("got the error %#v, which is no *Error", err)
	}
	return e
}

func TestArrowRefusesAStreamCutInAMessage(t *testing.T) {
	for _, name := range []string{"plain", "windows_int8", "lz4_random", "zstd_random", "nulls"} {
		whole := arrowStream(t, name)
		schema := 8 + int(binary.LittleEndian.Uint32(whole[4:])) // a schema has no body
		between := []int{0, schema, len(whole) - 8}
		for cut := range whole {
			var req Request
			err := decodeWatched(t, whole[:cut], Limits{}, &req)
			switch at := slices.Index(between, cut); {
			case at < 0 && (err == nil || err.Kind != Malformed):
				t.Fatalf("%s cut at byte %d: got %v, want it malformed", name, cut, err)
			case at >= 0 && err != nil:
				t.Errorf("%s cut at byte %d, between messages: %v", name, cut, err)
			case at == 1 && len(req.Close)+len(req.Params) != 0:
				t.Errorf("%s cut after the schema: got rows", name)
			}
		}
	}
}

func TestArrowRefusesLies(t *testing.T) {
	to := func(v int64) *int64 { return &v }
	batch := func(change func(b *forgedBatch)) []byte {
		b := closeBatch(3)
		change(&b)
		return append(closeSchema(), b.bytes()...)
	}
	patched := func(offset int, value uint32) []byte {
		body := batch(func(*forgedBatch) {})
		binary.LittleEndian.PutUint32(body[offset:], value)
		return body
	}
	schema := len(closeSchema())
	withBitmap := func(nulls int64, bitmap ...byte) []byte {
		b := closeBatch(3, bitmap...)
		b.nodes[0][1] = nulls
		return append(closeSchema(), b.bytes()...)
	}
	other := func(version int16, kind byte) []byte {
		return forgedMessage{version: version, kind: kind, header: noSlots}.bytes()
	}
	for _, c := range []struct {
		name string
		body []byte
		kind Kind
		says string
	}{
		{"metadata of -8 bytes", patched(4, 0xFFFFFFF8), Malformed, "metadata of -8"},
		{"metadata of 2 GiB", patched(4, 0x7FFFFFF8), Malformed, "cut"},
		{"metadata of -1 bytes", patched(schema+4, 0xFFFFFFFF), Malformed, "metadata of -1"},
		{"metadata of 12 bytes", patched(4, 12), Malformed, "multiple of 8"},
		{"a root far away", patched(8, 0xFFFFFFFF), Malformed, "flatbuffer"},
		{"a root at its own offset", patched(8, 0), Malformed, "flatbuffer"},
		{"a body of 2^40 bytes", batch(func(b *forgedBatch) { b.bodyLength = to(1 << 40) }), Malformed, "cut"},
		{"a body of 2^63-8 bytes", batch(func(b *forgedBatch) { b.bodyLength = to(math.MaxInt64 - 7) }), Malformed, "cut"},
		{"a body of -8 bytes", batch(func(b *forgedBatch) { b.bodyLength = to(-8) }), Malformed, "body of -8"},
		{"a body of -2^63 bytes", batch(func(b *forgedBatch) { b.bodyLength = to(math.MinInt64) }), Malformed, "body of -"},
		{"a body of 20 bytes", batch(func(b *forgedBatch) { b.bodyLength = to(20) }), Malformed, "multiple of 8"},
		{"a body of less than the buffers", batch(func(b *forgedBatch) { b.bodyLength = to(16) }), Malformed, "outside"},
		{"-1 rows", batch(func(b *forgedBatch) { b.rows = -1 }), Malformed, "-1 rows"},
		{"2^63-1 rows", batch(func(b *forgedBatch) { b.rows = math.MaxInt64; b.nodes[0][0] = math.MaxInt64 }), Malformed, "rows"},
		{"2^57-1 rows", batch(func(b *forgedBatch) { b.rows = maxRows; b.nodes[0][0] = maxRows }), Malformed, "does not fit"},
		{"a row more than there is", batch(func(b *forgedBatch) { b.rows = 4; b.nodes[0][0] = 4 }), Malformed, "does not fit"},
		{"a column longer than the batch", batch(func(b *forgedBatch) { b.nodes[0][0] = 4 }), Malformed, "has 4 rows"},
		{"a column shorter than the batch", batch(func(b *forgedBatch) { b.nodes[0][0] = 2 }), Malformed, "has 2 rows"},
		{"-1 nulls", batch(func(b *forgedBatch) { b.nodes[0][1] = -1 }), Malformed, "-1 nulls"},
		{"4 nulls in 3 rows", withBitmap(4, 0), Malformed, "4 nulls"},
		{"nulls without a bitmap", batch(func(b *forgedBatch) { b.nodes[0][1] = 1 }), Malformed, "no validity bitmap"},
		{"more nulls than in the bitmap", withBitmap(2, 0b110), Malformed, "null count"},
		{"fewer nulls than in the bitmap", withBitmap(0, 0b110), Malformed, "null count"},
		{"a bitmap too short", append(closeSchema(), func() []byte {
			b := closeBatch(9, 0xFF)
			return b.bytes()
		}()...), Malformed, "bitmap"},
		{"a buffer at -8", batch(func(b *forgedBatch) { b.buffers[1][0] = -8 }), Malformed, "outside"},
		{"a buffer at 2^63-1", batch(func(b *forgedBatch) { b.buffers[1][0] = math.MaxInt64 }), Malformed, "outside"},
		{"a buffer of 2^63-1 bytes", batch(func(b *forgedBatch) { b.buffers[1][1] = math.MaxInt64 }), Malformed, "outside"},
		{"a buffer of -1 bytes", batch(func(b *forgedBatch) { b.buffers[1][1] = -1 }), Malformed, "outside"},
		{"a buffer beyond the body", batch(func(b *forgedBatch) { b.buffers[1][0] = 8 }), Malformed, "outside"},
		{"a buffer too short", batch(func(b *forgedBatch) { b.buffers[1][1] = 23 }), Malformed, "does not fit"},
		{"a buffer of nothing", batch(func(b *forgedBatch) { b.buffers[1] = [2]int64{} }), Malformed, "does not fit"},
		{"no nodes", batch(func(b *forgedBatch) { b.nodes = nil }), Malformed, "0 nodes"},
		{"two nodes", batch(func(b *forgedBatch) { b.nodes = append(b.nodes, b.nodes[0]) }), Malformed, "2 nodes"},
		{"one buffer", batch(func(b *forgedBatch) { b.buffers = b.buffers[:1] }), Malformed, "1 buffers"},
		{"three buffers", batch(func(b *forgedBatch) { b.buffers = append(b.buffers, b.buffers[0]) }), Malformed, "3 buffers"},
		{"variadic buffers of no column", batch(func(b *forgedBatch) { b.variadics = []int64{0} }), Malformed, "variadic"},
		{"an unknown codec", batch(func(b *forgedBatch) { b.compression = &[2]byte{2, 0} }), Invalid, "LZ4_FRAME and ZSTD"},
		{"an unknown method", batch(func(b *forgedBatch) { b.compression = &[2]byte{0, 1} }), Invalid, "LZ4_FRAME and ZSTD"},
		{"a batch before the schema", closeBatch(1).bytes(), Malformed, "schema"},
		{"an end before the schema", []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}, Malformed, "schema"},
		{"half a marker", []byte{0xFF, 0xFF}, Malformed, "continuation"},
		{"only a marker", []byte{0xFF, 0xFF, 0xFF, 0xFF}, Malformed, "cut"},
		{"a dictionary before the schema", other(metadataV5, messageDictionary), Malformed, "schema"},
		{"a tensor", other(metadataV5, 4), Malformed, "header type 4"},
		{"no header type", other(metadataV5, 0), Malformed, "header type 0"},
		{"metadata V3", other(2, messageSchema), Invalid, "V3"},
		{"metadata V1", other(0, messageSchema), Invalid, "V1"},
		{"metadata V6", other(5, messageSchema), Invalid, "V6"},
		{"a schema without fields", other(metadataV5, messageSchema), Invalid, "none"},
		{"big-endian numbers", forgedSchema(metadataV5, 1, closeField().write), Invalid, "big-endian"},
		{"type 27", forgedSchema(metadataV5, 0, forgedField{name: "odd", id: 27, kind: noSlots}.write, closeField().write), Invalid, `"odd" has the unknown type 27`},
		{"type 0", forgedSchema(metadataV5, 0, forgedField{name: "odd", kind: noSlots}.write), Invalid, "type 0"},
		{"floats of precision 3", forgedSchema(metadataV5, 0, forgedField{name: "close", id: typeFloatingPoint, kind: func(b *flatbuffers.Builder) flatOffset {
			b.StartObject(1)
			b.PrependInt16Slot(0, 3, 0)
			return b.EndObject()
		}}.write), Invalid, "floating point"},
		{"integers of 24 bits", forgedSchema(metadataV5, 0, forgedField{name: "close", id: typeInt, kind: func(b *flatbuffers.Builder) flatOffset {
			b.StartObject(2)
			b.PrependInt32Slot(0, 24, 0)
			return b.EndObject()
		}}.write), Invalid, "type uint24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req Request
			err := decodeWatched(t, misaligned(c.body, 0), Limits{}, &req)
			if err == nil || err.Kind != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %#v, want kind %d and the words %q", err, c.kind, c.says)
			}
			var res kernel.Results
			if Arrow.DecodeResults(c.body, &res) == nil {
				t.Error("it is accepted as an answer")
			}
		})
	}
}

func TestArrowReadsABitmapWithoutNulls(t *testing.T) {
	for _, bitmap := range []byte{0b111, 0xFF} { // what is beyond the rows means nothing
		var req Request
		body := misaligned(append(closeSchema(), closeBatch(3, bitmap).bytes()...), 0)
		if err := decodeWatched(t, body, Limits{}, &req); err != nil {
			t.Fatal(err)
		}
		if req.Invalid != nil || !slices.Equal(req.Close, []float64{1.5, 1.5, 1.5}) {
			t.Errorf("got %v (%v), want three times 1.5", req.Close, req.Invalid)
		}
	}
}

func TestArrowChecksEveryVector(t *testing.T) {
	view := forgedField{name: "view", id: 24, kind: noSlots}
	views := func(counts ...int64) []byte {
		b := closeBatch(3)
		b.nodes = append([][2]int64{{3, 0}}, b.nodes...)
		b.buffers = append([][2]int64{{}, {}, {}}, b.buffers...)
		b.variadics = counts
		return append(forgedSchema(metadataV5, 0, view.write, closeField().write), b.bytes()...)
	}
	var req Request
	if err := decodeWatched(t, views(1), Limits{}, &req); err != nil {
		t.Fatal("the honest one: ", err)
	}
	for _, counts := range [][]int64{{}, {0}, {2}, {-1}, {math.MaxInt64}, {math.MinInt64}, {1, 0}} {
		if err := decodeWatched(t, views(counts...), Limits{}, &req); err == nil || err.Kind != Malformed {
			t.Errorf("variadic counts %v: got %v, want it malformed", counts, err)
		}
	}

	// Where the vectors are is found by the reader itself.
	messages := messageReader{bytes: views(1)}
	schema, _ := messages.next()
	places := []int64{8 + schema.header.vector(1, 4).at - 4}
	batch, _ := messages.next()
	for slot, size := range map[int]int64{1: 16, 2: 16, 4: 8} {
		places = append(places, int64(batch.at)+8+batch.header.vector(slot, size).at-4)
	}
	for _, place := range places {
		for _, length := range []uint32{0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 1 << 20, 0} {
			body := views(1)
			binary.LittleEndian.PutUint32(body[place:], length)
			if err := decodeWatched(t, body, Limits{}, &req); err == nil {
				t.Errorf("a vector at byte %d of length %d was accepted", place, length)
			}
		}
	}
}

func TestArrowBoundsSchemas(t *testing.T) {
	nested := func(levels, children int) []byte {
		return forgedSchema(metadataV5, 0, func(b *flatbuffers.Builder) flatOffset {
			field := closeField().write(b)
			for range levels {
				field = forgedField{name: "s", id: 13, kind: noSlots, children: slices.Repeat([]flatOffset{field}, children)}.write(b)
			}
			return field
		})
	}
	for name, body := range map[string][]byte{
		"40 levels that each lead twice to the next": nested(40, 2),
		"3 levels that each lead 500 times":          nested(3, 500),
		"10,000 levels":                              nested(10_000, 1),
	} {
		var req Request
		// The bound, and not the end of all the work, must be what refuses them.
		err := decodeWatched(t, body, Limits{}, &req)
		if err == nil || err.Kind != Malformed || !strings.Contains(err.Error(), "more fields than it has") {
			t.Errorf("%s: got %v, want it malformed", name, err)
		}
	}

	wide := make([]func(b *flatbuffers.Builder) flatOffset, 50_000)
	for i := range wide {
		wide[i] = forgedField{name: fmt.Sprint("column ", i), id: 1, kind: noSlots}.write
	}
	wide = append(wide, closeField().write)
	b := closeBatch(3)
	b.nodes = slices.Repeat([][2]int64{{3, 0}}, len(wide))
	var req Request
	if err := decodeWatched(t, append(forgedSchema(metadataV5, 0, wide...), b.bytes()...), Limits{}, &req); err != nil || len(req.Close) != 3 {
		t.Errorf("a wide table: %v", err)
	}
}

func TestArrowSurvivesFlippedBytes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{
		"plain", "series_combos", "batches", "lz4", "lz4_random", "zstd", "zstd_random", "zstd_nulls", "lz4_nulls", "zstd_both",
		"nulls", "others_before", "others_zstd", "others_v4", "pandas", "windows_int8", "windows_float64", "beside_utf8_view", "answer", "answer_zstd",
	}
	const rounds = 1000
	accepted := 0
	for _, name := range names {
		whole := arrowStream(t, name)
		body := misaligned(whole, 0)
		for range rounds {
			copy(body, whole)
			for range 1 + random.IntN(4) {
				body[random.IntN(len(body))] ^= byte(1 + random.IntN(255))
			}
			var req Request
			// The limits keep what is honestly compressed within the bound.
			if decodeWatched(t, body, Limits{Bars: 1 << 15, Combos: 1 << 10}, &req) == nil {
				accepted++
			}
			var res kernel.Results
			_ = Arrow.DecodeResults(body, &res)
		}
	}
	t.Logf("%d of %d accepted", accepted, len(names)*rounds)
}
