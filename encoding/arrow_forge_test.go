package encoding

import (
	"encoding/binary"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
)

// What follows writes streams with lies in them, through the FlatBuffers
// library. Slots and types are those of Schema.fbs and Message.fbs.

type (
	flatOffset  = flatbuffers.UOffsetT
	flatBuilder = flatbuffers.Builder
)

// forgedMessage is a message before it is written.
type forgedMessage struct {
	version    int16
	kind       byte
	header     func(b *flatbuffers.Builder) flatOffset
	body       []byte
	bodyLength *int64 // said instead of the body's length
}

func (m forgedMessage) bytes() []byte {
	b := flatbuffers.NewBuilder(0)
	header := m.header(b)
	length := int64(len(m.body))
	if m.bodyLength != nil {
		length = *m.bodyLength
	}
	b.StartObject(5)
	b.PrependInt16Slot(0, m.version, 0)
	b.PrependByteSlot(1, m.kind, 0)
	b.PrependUOffsetTSlot(2, header, 0)
	b.PrependInt64Slot(3, length, 0)
	b.Finish(b.EndObject())
	meta := b.FinishedBytes()
	for len(meta)%8 != 0 {
		meta = append(meta, 0)
	}
	out := binary.LittleEndian.AppendUint32(nil, continuation)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(meta)))
	return append(append(out, meta...), m.body...)
}

// forgedField is a field of a schema.
type forgedField struct {
	name       string
	id         byte
	kind       func(b *flatbuffers.Builder) flatOffset
	children   []flatOffset
	dictionary bool
}

func noSlots(b *flatbuffers.Builder) flatOffset {
	b.StartObject(0)
	return b.EndObject()
}

func float64Type(b *flatbuffers.Builder) flatOffset {
	b.StartObject(1)
	b.PrependInt16Slot(0, 2, 0)
	return b.EndObject()
}

func (f forgedField) write(b *flatbuffers.Builder) flatOffset {
	name := b.CreateString(f.name)
	kind := f.kind(b)
	children := flatOffset(0)
	if f.children != nil {
		children = offsetVector(b, f.children)
	}
	dictionary := flatOffset(0)
	if f.dictionary {
		dictionary = noSlots(b)
	}
	b.StartObject(7)
	b.PrependUOffsetTSlot(0, name, 0)
	b.PrependByteSlot(2, f.id, 0)
	b.PrependUOffsetTSlot(3, kind, 0)
	b.PrependUOffsetTSlot(4, dictionary, 0)
	b.PrependUOffsetTSlot(5, children, 0)
	return b.EndObject()
}

func offsetVector(b *flatbuffers.Builder, offsets []flatOffset) flatOffset {
	b.StartVector(4, len(offsets), 4)
	for i := len(offsets) - 1; i >= 0; i-- {
		b.PrependUOffsetT(offsets[i])
	}
	return b.EndVector(len(offsets))
}

func closeField() forgedField {
	return forgedField{name: "close", id: typeFloatingPoint, kind: float64Type}
}

// forgedSchema returns a schema message of the fields.
func forgedSchema(version int16, endianness int16, fields ...func(b *flatbuffers.Builder) flatOffset) []byte {
	return forgedMessage{version: version, kind: messageSchema, header: func(b *flatbuffers.Builder) flatOffset {
		offsets := make([]flatOffset, len(fields))
		for i, field := range fields {
			offsets[i] = field(b)
		}
		vector := offsetVector(b, offsets)
		b.StartObject(4)
		b.PrependInt16Slot(0, endianness, 0)
		b.PrependUOffsetTSlot(1, vector, 0)
		return b.EndObject()
	}}.bytes()
}

func closeSchema() []byte { return forgedSchema(metadataV5, 0, closeField().write) }

// forgedBatch is a record batch before it is written.
type forgedBatch struct {
	rows        int64
	nodes       [][2]int64 // length, null count
	buffers     [][2]int64 // offset, length
	compression *[2]byte   // codec, method
	variadics   []int64
	body        []byte
	bodyLength  *int64
}

// closeBatch returns a batch of so many closes, all 1.5, with a validity
// bitmap of the given bytes.
func closeBatch(rows int, bitmap ...byte) forgedBatch {
	body := make([]byte, (len(bitmap)+7)/8*8)
	copy(body, bitmap)
	values := int64(len(body))
	for range rows {
		body = append(body, 0, 0, 0, 0, 0, 0, 0xF8, 0x3F)
	}
	return forgedBatch{
		rows:    int64(rows),
		nodes:   [][2]int64{{int64(rows), 0}},
		buffers: [][2]int64{{0, int64(len(bitmap))}, {values, int64(rows) * 8}},
		body:    body,
	}
}

func (f forgedBatch) write(b *flatbuffers.Builder) flatOffset {
	pairs := func(list [][2]int64) flatOffset {
		b.StartVector(16, len(list), 8)
		for i := len(list) - 1; i >= 0; i-- {
			b.Prep(8, 16)
			b.PrependInt64(list[i][1])
			b.PrependInt64(list[i][0])
		}
		return b.EndVector(len(list))
	}
	nodes, buffers := pairs(f.nodes), pairs(f.buffers)
	variadics := flatOffset(0)
	if f.variadics != nil {
		b.StartVector(8, len(f.variadics), 8)
		for i := len(f.variadics) - 1; i >= 0; i-- {
			b.PrependInt64(f.variadics[i])
		}
		variadics = b.EndVector(len(f.variadics))
	}
	compressed := flatOffset(0)
	if f.compression != nil {
		b.StartObject(2)
		b.PrependByteSlot(0, f.compression[0], 0)
		b.PrependByteSlot(1, f.compression[1], 0)
		compressed = b.EndObject()
	}
	b.StartObject(5)
	b.PrependInt64Slot(0, f.rows, 0)
	b.PrependUOffsetTSlot(1, nodes, 0)
	b.PrependUOffsetTSlot(2, buffers, 0)
	b.PrependUOffsetTSlot(3, compressed, 0)
	b.PrependUOffsetTSlot(4, variadics, 0)
	return b.EndObject()
}

func (f forgedBatch) bytes() []byte {
	return forgedMessage{version: metadataV5, kind: messageBatch, header: f.write, body: f.body, bodyLength: f.bodyLength}.bytes()
}

// forgedColumn returns a stream of one batch of closes with a compressed
// buffer, which may be anything.
func forgedColumn(rows int64, codec byte, buffer []byte) []byte {
	length := int64(len(buffer))
	for len(buffer)%8 != 0 {
		buffer = append(buffer, 0)
	}
	return append(closeSchema(), forgedBatch{
		rows:        rows,
		nodes:       [][2]int64{{rows, 0}},
		buffers:     [][2]int64{{0, 0}, {0, length}},
		compression: &[2]byte{codec, 0},
		body:        buffer,
	}.bytes()...)
}

// A forged stream without a lie is read: what the hostile tests find refused
// is refused for its lie.
func TestArrowReadsAnHonestForgery(t *testing.T) {
	var req Request
	if err := Arrow.Decode(append(closeSchema(), closeBatch(3).bytes()...), &req); err != nil {
		t.Fatal(err)
	}
	if len(req.Close) != 3 || req.Close[2] != 1.5 {
		t.Errorf("got %v, want three times 1.5", req.Close)
	}
}
