package encoding

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"texttax/kernel"
)

// arrowColumns reads one stream with Arrow's own reader, which is good enough
// for what we wrote ourselves, and returns the columns of its one batch.
func arrowColumns(t *testing.T, r *bytes.Reader) map[string]arrow.Array {
	t.Helper()
	reader, err := ipc.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]arrow.Array{}
	for reader.Next() {
		record := reader.Record()
		for i, column := range record.Columns() {
			column.Retain()
			name := record.ColumnName(i)
			if columns[name] != nil {
				t.Fatalf("a second batch or column %s", name)
			}
			columns[name] = column
		}
	}
	if err := reader.Err(); err != nil {
		t.Fatal(err)
	}
	return columns
}

func TestArrowWritesWhatTheLibraryReads(t *testing.T) {
	for _, golden := range arrowGoldens(t) {
		if golden.Error != nil || golden.Results != nil || golden.Invalid != nil {
			continue
		}
		t.Run(golden.Name, func(t *testing.T) {
			var req Request
			if err := Arrow.Decode(arrowStream(t, golden.Name), &req); err != nil {
				t.Fatal(err)
			}
			body, err := Arrow.Append([]byte("before"), &req)
			if err != nil {
				t.Fatal(err)
			}
			body, found := bytes.CutPrefix(body, []byte("before"))
			if !found {
				t.Fatal("what was in dst is gone")
			}
			stream := bytes.NewReader(body)
			var read Request
			if golden.Rows != nil {
				read.Close = append([]float64{}, arrowColumns(t, stream)["close"].(*array.Float64).Float64Values()...)
			}
			if golden.Params != nil {
				columns := arrowColumns(t, stream)
				read.Params = make([]kernel.Params, len(golden.Params))
				for w, name := range kernel.WindowNames {
					for i, v := range columns[name].(*array.Int64).Int64Values() {
						read.Params[i][w] = v
					}
				}
			}
			if stream.Len() != 0 {
				t.Errorf("%d bytes are left over", stream.Len())
			}
			checkArrowGolden(t, golden, &read, nil)

			var again Request
			checkArrowGolden(t, golden, &again, Arrow.Decode(body, &again))
		})
	}
}

func TestArrowWritesAnswersThatTheLibraryReads(t *testing.T) {
	for _, res := range []*kernel.Results{
		{PnL: []float64{1.5, math.Copysign(0, -1), math.Float64frombits(0x7FF8000000000123)}, Trades: []int64{0, math.MaxInt64, -1}, Open: []int8{-1, 0, 1}},
		{PnL: []float64{}, Trades: []int64{}, Open: []int8{}},
		{},
	} {
		body, err := Arrow.AppendResults(nil, res)
		if err != nil {
			t.Fatal(err)
		}
		if columns := arrowColumns(t, bytes.NewReader(body)); len(columns) > 0 {
			if got := columns["pnl"].(*array.Float64).Float64Values(); !slices.Equal(hexBits(got), hexBits(res.PnL)) {
				t.Errorf("got pnl %v, want %v", got, res.PnL)
			}
			if got := columns["trades"].(*array.Int64).Int64Values(); !slices.Equal(got, res.Trades) {
				t.Errorf("got trades %v, want %v", got, res.Trades)
			}
			if got := columns["open"].(*array.Int8).Int8Values(); !slices.Equal(got, res.Open) {
				t.Errorf("got open %v, want %v", got, res.Open)
			}
		} else {
			t.Error("the columns are missing")
		}
		again := kernel.Results{PnL: make([]float64, 9)}
		if err := Arrow.DecodeResults(body, &again); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(hexBits(again.PnL), hexBits(res.PnL)) || !slices.Equal(again.Trades, res.Trades) || !slices.Equal(again.Open, res.Open) {
			t.Errorf("got %v, want %v", again, res)
		}
	}
}

func TestArrowSaysWhatBelongsIntoTheQuery(t *testing.T) {
	for field, req := range map[string]*Request{
		"lengths": {Close: []float64{1}, Lengths: []int64{}},
		"dataset": {Dataset: "x"},
		"fee":     {Close: []float64{1}, HasFee: true},
	} {
		body, err := Arrow.Append(nil, req)
		var e *Error
		if !errors.As(err, &e) || e.Kind != Unspeakable || e.Field != field || e.Index != -1 || body != nil {
			t.Errorf("%s: got %v and %d bytes", field, err, len(body))
		}
	}
}

func TestArrowWritesColumnsOfOneLengthOnly(t *testing.T) {
	_, err := Arrow.AppendResults(nil, &kernel.Results{PnL: []float64{1}, Trades: []int64{1}})
	var e *Error
	if !errors.As(err, &e) || e.Kind != Unspeakable {
		t.Errorf("got %v", err)
	}
}

func TestArrowOfNothingIsNothing(t *testing.T) {
	body, err := Arrow.Append(nil, &Request{})
	if err != nil || len(body) != 0 {
		t.Fatalf("got %d bytes, %v", len(body), err)
	}
	var req Request
	if err := Arrow.Decode(body, &req); err != nil || req.Close != nil || req.Params != nil {
		t.Errorf("got %v, %v, %v", req.Close, req.Params, err)
	}
	var res kernel.Results
	if err := Arrow.DecodeResults(body, &res); err == nil {
		t.Error("an empty answer is accepted")
	}
}

func TestArrowRefusesWhatIsNoAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  Kind
		field string
	}{
		{"plain", Invalid, "pnl"},
		{"windows_int64", Invalid, "pnl"},
		{"no_columns", Invalid, "pnl"},
		{"no_answer_nulls", Invalid, "pnl"},
		{"no_answer_int32", Invalid, "trades"},
		{"no_answer_without_open", Invalid, "open"},
		{"no_answer_twice", Malformed, "open"},
		{"file", Unsupported, ""},
		{"legacy", Malformed, ""},
	} {
		var res kernel.Results
		var e *Error
		if err := Arrow.DecodeResults(arrowStream(t, c.name), &res); !errors.As(err, &e) || e.Kind != c.kind || e.Field != c.field {
			t.Errorf("%s: got %#v, want kind %d and the field %q", c.name, err, c.kind, c.field)
		}
	}
	answer := arrowStream(t, "answer")
	var res kernel.Results
	if err := Arrow.DecodeResults(append(answer, answer...), &res); err == nil {
		t.Error("two answers are accepted as one")
	}
}
