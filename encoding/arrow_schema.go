package encoding

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// numberKind is a type of numbers that a column can have.
type numberKind uint8

const (
	noNumber numberKind = iota
	float16s
	float32s
	float64s
	int8s
	int16s
	int32s
	int64s
	uint8s
	uint16s
	uint32s
	uint64s
)

// numberSizes are the sizes of the kinds in bytes.
var numberSizes = [...]int64{
	float16s: 2, float32s: 4, float64s: 8,
	int8s: 1, int16s: 2, int32s: 4, int64s: 8,
	uint8s: 1, uint16s: 2, uint32s: 4, uint64s: 8,
}

// The places of some types in the union Type of Schema.fbs.
const (
	typeInt           = 2
	typeFloatingPoint = 3
	typeUnion         = 14
	typeRunEndEncoded = 22
)

// fieldTypes are the types of the union Type of Schema.fbs, each with the
// number of buffers that a field of it has in a record batch, as the section
// "Buffer Listing for Each Layout" of the columnar format says. A variadic
// type has further ones, which each batch counts.
var fieldTypes = [...]struct {
	name     string
	buffers  int
	variadic bool
}{
	{}, // NONE
	{name: "null"},
	{name: "int", buffers: 2},
	{name: "floating point", buffers: 2},
	{name: "binary", buffers: 3},
	{name: "utf8", buffers: 3},
	{name: "bool", buffers: 2},
	{name: "decimal", buffers: 2},
	{name: "date", buffers: 2},
	{name: "time", buffers: 2},
	{name: "timestamp", buffers: 2},
	{name: "interval", buffers: 2},
	{name: "list", buffers: 2},
	{name: "struct", buffers: 1},
	{name: "union", buffers: 1}, // dense ones have one more
	{name: "fixed-size binary", buffers: 2},
	{name: "fixed-size list", buffers: 1},
	{name: "map", buffers: 2},
	{name: "duration", buffers: 2},
	{name: "large binary", buffers: 3},
	{name: "large utf8", buffers: 3},
	{name: "large list", buffers: 2},
	{name: "run-end encoded"},
	{name: "binary view", buffers: 2, variadic: true},
	{name: "utf8 view", buffers: 2, variadic: true},
	{name: "list view", buffers: 3},
	{name: "large list view", buffers: 3},
}

// maxNesting is the number of levels of children that a field may have.
const maxNesting = 64

// extent counts what fields take up in a record batch.
type extent struct {
	nodes     int
	buffers   int // without the variadic ones
	variadics int // counts of variadic buffers
}

// column is a column to read.
type column struct {
	count    int // of columns with its name
	kind     numberKind
	typeName string // for messages
	before   extent // of the fields before it
}

// maxKnown is the number of names that a schema can be searched for.
const maxKnown = 7

// arrowSchema says where the known columns of a table are in its batches.
type arrowSchema struct {
	columns [maxKnown]column // in the order of the known names
	total   extent
	fields  flatVector // valid until the next message is read
}

// read reads the schema in m. The known columns may be absent, doubled or of
// the wrong type: that is for the caller to judge.
func (s *arrowSchema) read(m message, messages *messageReader, known []string) error {
	// Slots of the table Schema: endianness, fields.
	if endianness := m.header.int16(0); endianness != 0 && !messages.meta.broken {
		return invalidAt("", -1, "the table is big-endian; send it little-endian")
	}
	s.fields = m.header.vector(1, 4)
	walk := schemaWalk{
		version: m.version,
		// A table takes 4 bytes, and an offset to it as many. A schema that
		// leads to more fields than that leads to some of them several times,
		// which in a few levels makes more work than there is time.
		left: len(messages.meta.bytes) / 8,
	}
	for i := range s.fields.n {
		field := s.fields.table(i)
		name := field.string(0)
		before := walk.total
		if err := walk.add(field, 0); err != nil {
			return err
		}
		if messages.meta.broken {
			break
		}
		for k := range known {
			if string(name) != known[k] {
				continue
			}
			c := &s.columns[k]
			if c.count++; c.count == 1 {
				c.before = before
				c.kind, c.typeName = numberType(field)
			}
		}
	}
	if messages.meta.broken {
		return messages.broken(m.at)
	}
	s.total = walk.total
	return nil
}

// schemaWalk adds up the extents of fields, in the order of a pre-order
// depth-first traversal, which is that of a record batch.
type schemaWalk struct {
	version int16
	total   extent
	left    int // fields that may still come
}

func (w *schemaWalk) add(field flatTable, level int) error {
	if w.left--; w.left < 0 || level > maxNesting {
		return malformed("the schema leads to more fields than it has, or nests them deeper than %d levels", maxNesting)
	}
	// Slots of the table Field: name, nullable, type_type, type, dictionary,
	// children.
	id := int(field.uint8(2))
	kind := field.table(3)
	if !field.exists() || field.in.broken {
		return nil // the caller looks at broken
	}
	w.total.nodes++
	if field.table(4).exists() {
		// What a batch holds of it are its indices; its values, with any
		// children, are in the dictionary.
		w.total.buffers += 2
		return nil
	}
	if id == 0 || id >= len(fieldTypes) {
		return invalidAt("", -1, "the column %s has the unknown type %d of the Arrow format", quoted(field.string(0)), id)
	}
	w.total.buffers += fieldTypes[id].buffers
	if fieldTypes[id].variadic {
		w.total.variadics++
	}
	if dense := id == typeUnion && kind.int16(0) == 1; dense {
		w.total.buffers++
	}
	if w.version == metadataV4 && (id == typeUnion || id == typeRunEndEncoded) {
		w.total.buffers++ // a validity bitmap, which V5 took away
	}
	children := field.vector(5, 4)
	for i := range children.n {
		if err := w.add(children.table(i), level+1); err != nil {
			return err
		}
		if field.in.broken {
			return nil
		}
	}
	return nil
}

// numberType returns the kind of numbers that a field holds, and the name of
// its type for messages.
func numberType(field flatTable) (numberKind, string) {
	if field.table(4).exists() {
		return noNumber, "dictionary"
	}
	kind := field.table(3)
	switch id := field.uint8(2); id {
	case typeFloatingPoint:
		switch kind.int16(0) {
		case 0:
			return float16s, "float16"
		case 1:
			return float32s, "float32"
		case 2:
			return float64s, "float64"
		}
		return noNumber, fieldTypes[id].name
	case typeInt:
		bits, signed := kind.int32(0), kind.uint8(1) != 0
		switch {
		case bits == 8 && signed:
			return int8s, "int8"
		case bits == 16 && signed:
			return int16s, "int16"
		case bits == 32 && signed:
			return int32s, "int32"
		case bits == 64 && signed:
			return int64s, "int64"
		case bits == 8:
			return uint8s, "uint8"
		case bits == 16:
			return uint16s, "uint16"
		case bits == 32:
			return uint32s, "uint32"
		case bits == 64:
			return uint64s, "uint64"
		case signed:
			return noNumber, fmt.Sprintf("int%d", bits) // polars has int128
		}
		return noNumber, fmt.Sprintf("uint%d", bits)
	default:
		return noNumber, fieldTypes[id].name
	}
}

// names lists the columns of the schema for a message, if not too many.
func (s *arrowSchema) names() string {
	const most = 8
	if s.fields.n == 0 {
		return "none"
	}
	var list []string
	for i := range min(s.fields.n, most) {
		list = append(list, quoted(s.fields.table(i).string(0)))
	}
	if s.fields.n > most {
		list = append(list, "...")
	}
	return strings.Join(list, ", ")
}

// quoted returns a name that a client sent for use in an answer to it.
func quoted(name []byte) string {
	const most = 64
	if len(name) > most {
		return strconv.QuoteToASCII(string(name[:most])) + "..."
	}
	return strconv.QuoteToASCII(string(name))
}

// maxRows is the number of rows that a table can have so that no size in
// bytes or bits overflows.
const maxRows = math.MaxInt / 64
