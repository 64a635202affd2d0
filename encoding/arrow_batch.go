package encoding

import "encoding/binary"

// compression is a batch's BodyCompression.
type compression uint8

const (
	uncompressed compression = iota
	compressedLZ4
	compressedZSTD
)

// maxRatios are the most bytes that one compressed byte can stand for: a
// match of LZ4 grows by 255 a byte, and a block of Zstandard holds 128 KiB
// and takes no less than 4 bytes. A length beyond that is a lie, and nothing
// is allocated for it; a length within could be true.
var maxRatios = [...]int64{compressedLZ4: 255, compressedZSTD: 128 << 10 / 4}

// padding is what the lengths of buffers are rounded up to, at most.
const padding = 64

// maxWanted is the number of columns that are read of one table.
const maxWanted = 6

// batch is a record batch: of each column to read, where its values are.
type batch struct {
	rows  int
	parts [maxWanted]part
}

// part is what a batch holds of a column.
type part struct {
	nulls    int
	validity arrowBuffer // absent if no bitmap came
	values   arrowBuffer
}

// arrowBuffer is a buffer, cut to the bytes that the rows need, or compressed.
type arrowBuffer struct {
	bytes []byte
	// size is the number of bytes after decompression, which need be no
	// fewer than needed.
	size   int
	needed int
	codec  compression
}

func (b *arrowBuffer) exists() bool { return b.bytes != nil }

// read reads the metadata of a batch of t. Nothing in it is believed: nodes
// and buffers must be as many as the schema says, and within the body.
func (b *batch) read(m message, t *table) error {
	// Slots of the table RecordBatch: length, nodes, buffers, compression,
	// variadicBufferCounts. A FieldNode has length and null count, a Buffer
	// offset and length.
	rows := m.header.int64(0)
	nodes := m.header.vector(1, 16)
	buffers := m.header.vector(2, 16)
	compressed := m.header.table(3)
	variadics := m.header.vector(4, 8)
	codec, method := compressed.uint8(0), compressed.uint8(1)
	if t.messages.meta.broken {
		return t.messages.broken(m.at)
	}
	if rows < 0 || rows > maxRows {
		return malformed("the batch at byte %d has %d rows", m.at, rows)
	}
	b.rows = int(rows)
	total := t.schema.total
	if nodes.n != total.nodes || variadics.n != total.variadics {
		return malformed("the batch at byte %d has %d nodes and %d variadic counts; its schema asks for %d and %d",
			m.at, nodes.n, variadics.n, total.nodes, total.variadics)
	}
	expected := int64(total.buffers)
	for i := range variadics.n {
		n := variadics.int64(i, 0)
		if n < 0 || n > int64(buffers.n) {
			return malformed("the batch at byte %d has a column of %d variadic buffers", m.at, n)
		}
		expected += n
	}
	if int64(buffers.n) != expected {
		return malformed("the batch at byte %d has %d buffers; its schema asks for %d", m.at, buffers.n, expected)
	}
	for i := range buffers.n {
		offset, length := buffers.int64(i, 0), buffers.int64(i, 8)
		if length < 0 || offset < 0 || length > 0 && offset > int64(len(m.body))-length {
			return malformed("buffer %d of the batch at byte %d lies outside the message's body", i, m.at)
		}
	}
	packing := uncompressed
	if compressed.exists() {
		if codec > 1 || method != 0 {
			return invalidAt("", -1, "the batch at byte %d is compressed in an unknown way; LZ4_FRAME and ZSTD are read", m.at)
		}
		packing = compressedLZ4 + compression(codec)
	}
	for i := range t.columns {
		if err := b.parts[i].read(m, &t.columns[i], rows, nodes, buffers, variadics, packing); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) read(m message, c *column, rows int64, nodes, buffers, variadics flatVector, packing compression) error {
	*p = part{}
	length, nulls := nodes.int64(c.before.nodes, 0), nodes.int64(c.before.nodes, 8)
	if length != rows {
		return malformed("a column of the batch at byte %d has %d rows, the batch has %d", m.at, length, rows)
	}
	if nulls < 0 || nulls > rows {
		return malformed("a column of the batch at byte %d has %d nulls in %d rows", m.at, nulls, rows)
	}
	p.nulls = int(nulls)
	if rows == 0 {
		return nil // buffers of nothing may be absent, whatever their layout
	}
	first := c.before.buffers
	for i := range c.before.variadics {
		first += int(variadics.int64(i, 0))
	}
	take := func(i int) []byte {
		offset, length := buffers.int64(i, 0), buffers.int64(i, 8)
		if length == 0 {
			return nil
		}
		return m.body[offset:][:length:length]
	}
	if bitmap := take(first); bitmap != nil && !isPackedNothing(bitmap, packing) {
		if !p.validity.set(bitmap, (rows+7)/8, packing) {
			return malformed("a validity bitmap of the batch at byte %d does not fit its %d rows", m.at, rows)
		}
	} else if nulls > 0 {
		return malformed("a column of the batch at byte %d has %d nulls and no validity bitmap", m.at, nulls)
	}
	if !p.values.set(take(first+1), rows*numberSizes[c.kind], packing) {
		return malformed("a column of the batch at byte %d has a buffer whose length does not fit its %d rows", m.at, rows)
	}
	return nil
}

// isPackedNothing tells whether a buffer is a compressed one of no bytes: the
// length 0 and nothing behind it, as Arrow's Java library writes it where
// others leave the buffer out.
func isPackedNothing(raw []byte, packing compression) bool {
	return packing != uncompressed && len(raw) == 8 && binary.LittleEndian.Uint64(raw) == 0
}

// set makes b the buffer of raw bytes in which so many bytes are needed. A
// compressed buffer begins with its length before compression, or with -1 if
// it was left as it was. Buffers may be padded, and so may what was
// compressed; but the length is what will be allocated, so that it may be no
// longer than padding makes it.
func (b *arrowBuffer) set(raw []byte, needed int64, packing compression) bool {
	length := int64(-1)
	if packing != uncompressed {
		if len(raw) < 8 {
			return false
		}
		length = int64(binary.LittleEndian.Uint64(raw))
		raw = raw[8:]
	}
	if length == -1 {
		if needed > int64(len(raw)) {
			return false
		}
		*b = arrowBuffer{bytes: raw[:needed:needed], size: int(needed), needed: int(needed)}
		return true
	}
	if length < needed || length > (needed+padding-1)/padding*padding || length > int64(len(raw))*maxRatios[packing] {
		return false
	}
	*b = arrowBuffer{bytes: raw, size: int(length), needed: int(needed), codec: packing}
	return true
}
