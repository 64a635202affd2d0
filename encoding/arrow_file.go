package encoding

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// DecodeArrowColumn reads one column of a table into req.Close, by the rules
// of the format Arrow for the column close: the table is an IPC stream, or an
// Arrow file (Feather version 2), and the column may have any name. What is
// said there of sharing memory holds here too.
func DecodeArrowColumn(file []byte, name string, req *Request) error {
	stream, whole, err := streamOf(file)
	if err != nil {
		return err
	}
	messages := messageReader{bytes: stream}
	var t table
	if err := t.open(&messages, []string{name}); err != nil {
		return err
	}
	switch n := t.schema.columns[0].count; {
	case n == 0:
		return invalidAt(name, -1, "there is no such column; the table's columns: %s", t.schema.names())
	case n > 1:
		return malformedAt(name, -1, "the table has %d columns of this name", n)
	}
	err = decodeSeries(&t, req)
	if err == nil && whole && messages.at < len(stream) {
		err = malformed("at byte %d something follows the table", messages.at)
	}
	for _, e := range []*Error{asError(err), req.Invalid} {
		if e != nil && e.Field == "close" {
			e.Field = name
		}
	}
	return err
}

func asError(err error) *Error {
	var e *Error
	_ = errors.As(err, &e)
	return e
}

// streamOf returns the stream in an Arrow file, which lies between its magic
// and its footer, or else what it is given, and whether that is a stream to its
// last byte.
func streamOf(file []byte) (stream []byte, whole bool, err error) {
	if !bytes.HasPrefix(file, fileMagic) {
		return file, true, nil
	}
	const head, tail = 8, 4 + 6 // the magic and padding; the footer's length and the magic
	if len(file) < head+tail || !bytes.HasSuffix(file, fileMagic) {
		return nil, false, malformed("the Arrow file is cut: it does not end as it begins")
	}
	footer := int64(int32(binary.LittleEndian.Uint32(file[len(file)-tail:])))
	end := int64(len(file)) - tail - footer
	if footer < 0 || end < head {
		return nil, false, malformed("the Arrow file has a footer of %d bytes, more than there are", footer)
	}
	return file[head:end], false, nil
}
