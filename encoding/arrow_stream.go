package encoding

import (
	"bytes"
	"encoding/binary"
)

// The kinds of messages, as the union MessageHeader of Message.fbs numbers
// them. A stream's end is no message there.
const (
	messageEnd        = 0
	messageSchema     = 1
	messageDictionary = 2
	messageBatch      = 3
)

// The metadata versions that are read: those whose layout has been stable
// since Arrow 0.8.
const (
	metadataV4 = 3
	metadataV5 = 4
)

// continuation begins every message and every end of a stream.
const continuation = 0xFFFFFFFF

// fileMagic begins the Arrow file format, which holds a stream but isn't one.
var fileMagic = []byte("ARROW1")

// message is one encapsulated message.
type message struct {
	kind    uint8
	at      int // where it begins in the body of the request
	version int16
	header  flatTable // valid until the next message is read
	body    []byte
}

// messageReader takes a request's body apart into messages, as the sections
// "Encapsulated message format" and "IPC Streaming Format" of the Arrow
// columnar format say.
type messageReader struct {
	bytes []byte
	at    int
	meta  flatBuffer // metadata of the last message
}

// next returns the next message, or one of the kind messageEnd: at an
// end-of-stream marker, and at the end of the bytes where that is between two
// messages.
func (r *messageReader) next() (message, error) {
	m := message{kind: messageEnd, at: r.at}
	rest := r.bytes[r.at:]
	if len(rest) == 0 {
		return m, nil
	}
	if bytes.HasPrefix(rest, fileMagic) {
		return m, &Error{Kind: Unsupported, Index: -1, Detail: "this is the Arrow file (Feather) format; send the stream format: pyarrow.ipc.new_stream"}
	}
	if len(rest) < 4 || binary.LittleEndian.Uint32(rest) != continuation {
		return m, malformed("at byte %d neither a message nor an end of stream begins: there is no continuation marker 0xFFFFFFFF (streams from before Arrow 0.15 have none and are not read)", r.at)
	}
	if len(rest) < 8 {
		return m, r.cut()
	}
	size := int64(int32(binary.LittleEndian.Uint32(rest[4:])))
	rest = rest[8:]
	if size == 0 {
		r.at += 8
		return m, nil
	}
	if size < 0 || size%8 != 0 {
		return m, malformed("the message at byte %d has metadata of %d bytes: not a positive multiple of 8", r.at, size)
	}
	if size > int64(len(rest)) {
		return m, r.cut()
	}
	r.meta = flatBuffer{bytes: rest[:size]}
	rest = rest[size:]

	// Slots of the table Message: version, header_type, header, bodyLength.
	root := r.meta.root()
	m.version = root.int16(0)
	m.kind = root.uint8(1)
	m.header = root.table(2)
	length := root.int64(3)
	if r.meta.broken || !m.header.exists() {
		return m, r.broken(m.at)
	}
	if m.version != metadataV4 && m.version != metadataV5 {
		return m, invalidAt("", -1, "the message at byte %d has metadata version V%d; read are V4 and V5 (Arrow 0.8 and later)", r.at, m.version+1)
	}
	switch m.kind {
	case messageSchema, messageDictionary, messageBatch:
	default:
		return m, malformed("the message at byte %d has header type %d: the stream of a table has only schemas (1), dictionaries (2) and record batches (3)", r.at, m.kind)
	}
	if length < 0 || length%8 != 0 {
		return m, malformed("the message at byte %d has a body of %d bytes: not a multiple of 8", r.at, length)
	}
	if length > int64(len(rest)) {
		return m, r.cut()
	}
	m.body = rest[:length:length]
	r.at = len(r.bytes) - len(rest) + int(length)
	return m, nil
}

func (r *messageReader) cut() error {
	return malformed("the stream is cut within the message at byte %d: the body has only %d bytes", r.at, len(r.bytes))
}

func (r *messageReader) broken(at int) error {
	return malformed("the metadata of the message at byte %d is not a valid flatbuffer", at)
}

// table is one stream: a schema and its record batches.
type table struct {
	messages *messageReader
	schema   arrowSchema
	columns  []column // of the schema, those to read
	start    int      // where the messages after the schema begin
}

// open reads the schema that the next stream begins with, and looks for the
// known columns in it.
func (t *table) open(messages *messageReader, known []string) error {
	m, err := messages.next()
	if err != nil {
		return err
	}
	if m.kind != messageSchema {
		return malformed("at byte %d a stream must begin, with a schema", m.at)
	}
	t.messages = messages
	t.start = messages.at
	return t.schema.read(m, messages, known)
}

// next reads the next batch. It returns false at the end of the stream, after
// which the next one may begin. A schema is such an end too: some writers omit
// the marker.
func (t *table) next(b *batch) (bool, error) {
	for {
		m, err := t.messages.next()
		if err != nil {
			return false, err
		}
		switch m.kind {
		case messageEnd:
			return false, nil
		case messageSchema:
			t.messages.at = m.at
			return false, nil
		case messageBatch:
			return true, b.read(m, t)
		}
		// Dictionaries are for columns that are not read.
	}
}

// survey reads all batches but not their values, and returns the number of
// rows. With that it tells in how many batches they are, and leaves the last
// of these in b. The check is called with the number of rows so far.
func (t *table) survey(b *batch, check func(rows int) error) (rows, filled int, err error) {
	var next batch
	for {
		more, err := t.next(&next)
		if err != nil || !more {
			return rows, filled, err
		}
		if next.rows == 0 {
			continue
		}
		// Each addend is at most maxRows, so that the sum can't overflow.
		if rows += next.rows; rows > maxRows {
			return 0, 0, malformed("the batches have more rows than can be")
		}
		if err := check(rows); err != nil {
			return 0, 0, err
		}
		*b = next
		filled++
	}
}

// each reads all batches once more after survey, and calls use with each that
// has rows, and with the number of rows before it.
func (t *table) each(use func(b *batch, before int) error) error {
	end := t.messages.at
	t.messages.at = t.start
	before := 0
	var b batch
	for {
		more, err := t.next(&b)
		if err != nil {
			return err
		}
		if !more {
			t.messages.at = end
			return nil
		}
		if b.rows == 0 {
			continue
		}
		if err := use(&b, before); err != nil {
			return err
		}
		before += b.rows
	}
}
