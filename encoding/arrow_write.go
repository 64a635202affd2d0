package encoding

import (
	"slices"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/endian"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"texttax/kernel"
)

var (
	seriesSchema  = schemaOf([]string{"close"}, arrow.PrimitiveTypes.Float64)
	combosSchema  = schemaOf(kernel.WindowNames[:], arrow.PrimitiveTypes.Int64)
	resultsSchema = schemaOf(resultColumns, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int8)
)

// schemaOf returns a schema of columns without nulls, the last of the types
// being that of all further columns.
func schemaOf(names []string, types ...arrow.DataType) *arrow.Schema {
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = arrow.Field{Name: name, Type: types[min(i, len(types)-1)]}
	}
	return arrow.NewSchemaWithEndian(fields, nil, endian.LittleEndian)
}

func (arrowCodec) Append(dst []byte, req *Request) ([]byte, error) {
	switch {
	case req.Lengths != nil:
		return dst, inQuery("lengths")
	case req.Dataset != "":
		return dst, inQuery("dataset")
	case req.HasFee:
		return dst, inQuery("fee")
	}
	out := dst
	var err error
	if req.Close != nil {
		if out, err = appendTable(out, seriesSchema, len(req.Close), wireBytes(req.Close)); err != nil {
			return dst, err
		}
	}
	if req.Params != nil {
		columns := make([][]byte, len(kernel.WindowNames))
		for w := range columns {
			column := make([]int64, len(req.Params))
			for i := range column {
				column[i] = req.Params[i][w]
			}
			columns[w] = wireBytes(column)
		}
		if out, err = appendTable(out, combosSchema, len(req.Params), columns...); err != nil {
			return dst, err
		}
	}
	return out, nil
}

func (arrowCodec) AppendResults(dst []byte, res *kernel.Results) ([]byte, error) {
	n := len(res.PnL)
	if len(res.Trades) != n || len(res.Open) != n {
		return dst, &Error{Kind: Unspeakable, Index: -1, Detail: "the columns of a table are of one length"}
	}
	out, err := appendTable(dst, resultsSchema, n, wireBytes(res.PnL), wireBytes(res.Trades), wireBytes(res.Open))
	if err != nil {
		return dst, err
	}
	return out, nil
}

// wireBytes returns the little-endian bytes of the values, which on most
// machines are those that they have in memory.
func wireBytes[T wireNumber](values []T) []byte {
	if !littleEndian || len(values) == 0 {
		return appendNumbers(nil, values)
	}
	size := unsafe.Sizeof(values[0])
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), uintptr(len(values))*size)
}

// appendTable appends a stream with one batch to dst. Each column is the bytes
// of so many rows.
func appendTable(dst []byte, schema *arrow.Schema, rows int, columns ...[]byte) ([]byte, error) {
	arrays := make([]arrow.Array, len(columns))
	size := 1024 // the metadata takes about that
	for i, bytes := range columns {
		buffers := []*memory.Buffer{nil, memory.NewBufferBytes(bytes)}
		arrays[i] = array.MakeFromData(array.NewData(schema.Field(i).Type, rows, buffers, nil, 0, 0))
		size += len(bytes)
	}
	out := appender(slices.Grow(dst, size))
	writer := ipc.NewWriter(&out, ipc.WithSchema(schema))
	err := writer.Write(array.NewRecord(schema, arrays, int64(rows)))
	if closing := writer.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return dst, &Error{Kind: Unspeakable, Index: -1, Detail: "the columns can't be written as Arrow"}
	}
	return out, nil
}

// appender is a writer that appends to itself.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}
