package encoding

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"texttax/kernel"
)

// arrowGolden is what generate.py says of a stream that pyarrow wrote.
type arrowGolden struct {
	Name        string
	Rows        *int
	CloseSHA256 string `json:"close_sha256"`
	Close       []string
	Params      []kernel.Params
	Invalid     *int
	Error       *struct {
		Kind  string
		Field string
		Index int
	}
	Results *struct {
		PnL    []string
		Trades []int64
		Open   []int8
	}
}

func arrowGoldens(t testing.TB) []arrowGolden {
	t.Helper()
	text, err := os.ReadFile("testdata/arrow/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var goldens []arrowGolden
	if err := json.Unmarshal(text, &goldens); err != nil {
		t.Fatal(err)
	}
	return goldens
}

// arrowStream returns a golden stream at an address that is a multiple of 8.
func arrowStream(t testing.TB, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata/arrow", name+".arrows"))
	if err != nil {
		t.Fatal(err)
	}
	return misaligned(body, 0)
}

// misaligned returns a copy of b at an address that is so many bytes after a
// multiple of 8.
func misaligned(b []byte, offset int) []byte {
	words := make([]uint64, (len(b)+offset)/8+1)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*8)
	copied := raw[offset:][:len(b):len(b)]
	copy(copied, b)
	return copied
}

func hexBits(values []float64) []string {
	list := []string{}
	for _, v := range values {
		list = append(list, fmt.Sprintf("%016x", math.Float64bits(v)))
	}
	return list
}

// asNaN replaces the NaN that stands for a null by that of numpy, for the
// comparison: its sign and payload mean nothing.
func asNaN(values []float64, from int) []float64 {
	values = slices.Clone(values)
	for i := from; i < len(values); i++ {
		if values[i] != values[i] {
			values[i] = math.Float64frombits(0x7FF8000000000000)
		}
	}
	return values
}

func TestArrowReadsWhatPyarrowWrites(t *testing.T) {
	for _, golden := range arrowGoldens(t) {
		if golden.Results != nil {
			continue
		}
		for offset := range 8 {
			t.Run(fmt.Sprintf("%s/%d", golden.Name, offset), func(t *testing.T) {
				body := misaligned(arrowStream(t, golden.Name), offset)
				var req Request
				checkArrowGolden(t, golden, &req, Arrow.Decode(body, &req))
			})
		}
	}
}

func checkArrowGolden(t *testing.T, golden arrowGolden, req *Request, err error) {
	t.Helper()
	if golden.Error != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("got error %v, want one of kind %s", err, golden.Error.Kind)
		}
		kind := map[Kind]string{Malformed: "malformed", Invalid: "invalid", Unsupported: "unsupported"}[e.Kind]
		if kind != golden.Error.Kind || e.Field != golden.Error.Field || e.Index != golden.Error.Index {
			t.Errorf("got %s %q %d, want %s %q %d (%v)", kind, e.Field, e.Index, golden.Error.Kind, golden.Error.Field, golden.Error.Index, e)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	closes := req.Close
	if golden.Invalid != nil {
		closes = asNaN(closes, *golden.Invalid)
		if req.Invalid == nil || req.Invalid.Index != *golden.Invalid || req.Invalid.Kind != Invalid {
			t.Errorf("got invalid price %v, want index %d", req.Invalid, *golden.Invalid)
		}
	} else if req.Invalid != nil {
		t.Errorf("got invalid price %v, want none", req.Invalid)
	}
	if (golden.Rows == nil) != (req.Close == nil) || (golden.Params == nil) != (req.Params == nil) {
		t.Fatalf("got close %t, params %t, want the contrary of one", req.Close != nil, req.Params != nil)
	}
	if !slices.Equal(req.Params, golden.Params) {
		t.Errorf("got params %v, want %v", req.Params, golden.Params)
	}
	if golden.Rows == nil {
		return
	}
	if len(closes) != *golden.Rows {
		t.Fatalf("got %d rows, want %d", len(closes), *golden.Rows)
	}
	if golden.Close != nil {
		if got := hexBits(closes); !slices.Equal(got, golden.Close) {
			t.Errorf("got closes %v, want %v", got, golden.Close)
		}
	}
	sum := sha256.Sum256(appendNumbers(nil, closes))
	if got := hex.EncodeToString(sum[:]); got != golden.CloseSHA256 {
		t.Errorf("got closes of hash %s, want %s", got, golden.CloseSHA256)
	}
}

func TestArrowReadsAnswersOfPyarrow(t *testing.T) {
	for _, golden := range arrowGoldens(t) {
		if golden.Results == nil {
			continue
		}
		t.Run(golden.Name, func(t *testing.T) {
			body := arrowStream(t, golden.Name)
			res := kernel.Results{PnL: make([]float64, 2, 9)}
			if err := Arrow.DecodeResults(body, &res); err != nil {
				t.Fatal(err)
			}
			clear(body) // the results must not share its memory
			if got := hexBits(res.PnL); !slices.Equal(got, golden.Results.PnL) {
				t.Errorf("got pnl %v, want %v", got, golden.Results.PnL)
			}
			if !slices.Equal(res.Trades, golden.Results.Trades) {
				t.Errorf("got trades %v, want %v", res.Trades, golden.Results.Trades)
			}
			if !slices.Equal(res.Open, golden.Results.Open) {
				t.Errorf("got open %v, want %v", res.Open, golden.Results.Open)
			}
		})
	}
}

func TestArrowSaysWhatWouldBeRight(t *testing.T) {
	for name, words := range map[string][]string{
		"file":               {"file (Feather) format", "pyarrow.ipc.new_stream"},
		"legacy":             {"continuation marker", "0.15"},
		"close_in_capitals":  {`"Close"`, `\u00a3`, "...", "close", "hma_half"},
		"no_columns":         {"none"},
		"windows_some":       {"hma_full, hma3_full"},
		"close_dictionary":   {"dictionary", "float64"},
		"close_list":         {"type list"},
		"close_decimal":      {"type decimal"},
		"windows_string":     {"type utf8"},
		"windows_float_10_5": {"10.5", "whole"},
		"close_and_windows":  {"two streams"},
		"three_streams":      {"follows the two tables"},
		"trailing_byte":      {"at byte "},
	} {
		var req Request
		err := Arrow.Decode(arrowStream(t, name), &req)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if len(err.Error()) > 1000 {
			t.Errorf("%s: the text has %d bytes", name, len(err.Error()))
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", name, err, word)
			}
		}
	}
}

func TestArrowNamesWhatAPriceIs(t *testing.T) {
	for name, detail := range map[string]string{
		"nulls":          "null",
		"int64_inexact":  "9007199254740993",
		"uint64_inexact": "9223372036854775809",
	} {
		var req Request
		if err := Arrow.Decode(arrowStream(t, name), &req); err != nil {
			t.Fatal(err)
		}
		if req.Invalid == nil || !strings.Contains(req.Invalid.Detail, detail) {
			t.Errorf("%s: got %v, want it to say %s", name, req.Invalid, detail)
		}
	}
}

func TestArrowHoldsTheLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		over   string
	}{
		{"plain", Limits{Bars: 20}, ""},
		{"plain", Limits{Bars: 19}, "close"},
		{"batches", Limits{Bars: 20}, ""},
		{"batches", Limits{Bars: 19}, "close"},
		{"zstd_constant", Limits{Bars: 29999}, "close"},
		{"windows_int64", Limits{Bars: 1, Combos: 3}, ""},
		{"windows_int64", Limits{Combos: 2}, "params"},
		{"windows_batches", Limits{Combos: 2}, "params"},
		{"series_combos", Limits{Bars: 20, Combos: 2}, "params"},
	} {
		var req Request
		req.Reset(c.limits)
		err := Arrow.Decode(arrowStream(t, c.name), &req)
		var e *Error
		switch {
		case c.over == "" && err != nil:
			t.Errorf("%s %v: %v", c.name, c.limits, err)
		case c.over != "" && (!errors.As(err, &e) || e.Kind != OverLimit || e.Field != c.over):
			t.Errorf("%s %v: got %v, want %s over the limit", c.name, c.limits, err, c.over)
		}
	}
}

func TestArrowTakesClosesInPlace(t *testing.T) {
	for _, name := range []string{"plain", "series_combos", "combos_series", "pandas_index_first", "others_before", "sliced"} {
		body := arrowStream(t, name)
		var req Request
		if err := Arrow.Decode(body, &req); err != nil {
			t.Fatal(err)
		}
		first := uintptr(unsafe.Pointer(&req.Close[0]))
		begin := uintptr(unsafe.Pointer(&body[0]))
		if first < begin || first >= begin+uintptr(len(body)) {
			t.Errorf("%s: the closes were copied", name)
		}
	}
}

func TestArrowKeepsTheBodyAsItCame(t *testing.T) {
	for _, golden := range arrowGoldens(t) {
		body := arrowStream(t, golden.Name)
		was := slices.Clone(body)
		var req Request
		_ = Arrow.Decode(body, &req)
		if !slices.Equal(body, was) {
			t.Errorf("%s: the body was changed", golden.Name)
		}
	}
}

func TestArrowAllocatesAlikeForAnyLength(t *testing.T) {
	allocations := func(bars int) float64 {
		body, err := Arrow.Append(nil, &Request{Close: make([]float64, bars)})
		if err != nil {
			t.Fatal(err)
		}
		body = misaligned(body, 0)
		var req Request
		return testing.AllocsPerRun(100, func() {
			req.Reset(Limits{})
			if err := Arrow.Decode(body, &req); err != nil || len(req.Close) != bars {
				t.Fatal(err)
			}
		})
	}
	few, many := allocations(1), allocations(150_000)
	// Under the race detector pools forget at random, which costs one more.
	if few > 3 || many > 3 {
		t.Errorf("got %v allocations for one bar and %v for 150,000, want 3 at most", few, many)
	}
}

func TestArrowReusesTheRequest(t *testing.T) {
	var req Request
	for _, name := range []string{"batches", "lz4", "windows_int8", "float32", "zstd_nulls", "nulls", "plain"} {
		for _, golden := range arrowGoldens(t) {
			if golden.Name == name {
				req.Reset(Limits{})
				checkArrowGolden(t, golden, &req, Arrow.Decode(arrowStream(t, name), &req))
			}
		}
	}
}
