package encoding

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"texttax/kernel"
)

// packed returns what the library writes for v, integers as short as can be.
func packed(t testing.TB, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	e := msgpack.NewEncoder(&out)
	e.UseCompactInts(true)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestMessagePackReadsWholePricesExactly(t *testing.T) {
	// The bytes are those of the specification, by hand.
	body := []byte("\x81\xa5close\x9f" +
		"\x64" + // 100, positive fixint
		"\xcb\x40\x59\x20\x00\x00\x00\x00\x00" + // 100.5, float 64
		"\xcc\xff" + // 255, uint 8
		"\xcd\xff\xff" + // 65535, uint 16
		"\xce\x00\x01\x11\x70" + // 70000, uint 32
		"\xcf\x00\x00\x01\x00\x00\x00\x00\x00" + // 2^40, uint 64
		"\xca\x3f\x80\x00\x00" + // 1, float 32
		"\xca\x3d\xcc\xcc\xcd" + // 0.1 as float 32
		"\xff" + // -1, negative fixint
		"\xe0" + // -32
		"\xd0\x80" + // -128, int 8
		"\xd1\x80\x00" + // -32768, int 16
		"\xd2\x80\x00\x00\x00" + // -2^31, int 32
		"\xd3\x80\x00\x00\x00\x00\x00\x00\x00" + // -2^63, int 64
		"\xcf\x80\x00\x00\x00\x00\x00\x00\x00") // 2^63, uint 64
	want := []float64{100, 100.5, 255, 65535, 70000, 1 << 40, 1, float64(float32(0.1)), -1, -32, -128, -32768, -1 << 31, -1 << 63, 1 << 63}
	if got := mustDecode(t, MessagePack, body); got.Invalid != nil || !sameBits(got.Close, want) {
		t.Errorf("%v, %v; want %v", got.Close, got.Invalid, want)
	}
}

func TestMessagePackNotesTheFirstElementThatIsNoPrice(t *testing.T) {
	for name, test := range map[string]struct {
		element any
		index   int
	}{
		"nil":                          {nil, 1},
		"a string":                     {"100", 1},
		"a boolean":                    {true, 1},
		"an array":                     {[]any{1, []any{2}}, 1},
		"a map":                        {map[string]any{"a": []any{1}}, 1},
		"an inexact integer":           {int64(1<<53 + 1), 1},
		"an inexact negative integer":  {int64(-1<<53 - 1), 1},
		"an inexact unsigned integer":  {uint64(1<<63 + 1), 1},
		"the largest unsigned integer": {uint64(math.MaxUint64), 1},
		"the largest integer":          {int64(math.MaxInt64), 1},
	} {
		req := mustDecode(t, MessagePack, packed(t, map[string]any{"close": []any{100, test.element, 101, nil}}))
		if req.Invalid == nil {
			t.Errorf("%s is taken for a price: %v", name, req.Close)
			continue
		}
		wantError(t, req.Invalid, Invalid, "close", test.index)
		if req.Close[0] != 100 || !math.IsNaN(req.Close[1]) || req.Close[2] != 101 {
			t.Errorf("%s reads as %v", name, req.Close)
		}
	}
}

func TestMessagePackBinIsLittleEndianNumbers(t *testing.T) {
	body := []byte("\x82\xa5close\xc4\x10\x00\x00\x00\x00\x00\x00\xf0\x3f\x00\x00\x00\x00\x00\x20\x59\x40" +
		"\xa6params\xc4\x30" + "\x03\x00\x00\x00\x00\x00\x00\x00" + "\x06\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00")
	want := &Request{Close: []float64{1, 100.5}, Params: []kernel.Params{{3, 6, 2, 1, 2, 3}}}
	// At every alignment, since nothing in MessagePack is aligned.
	for shift := range 8 {
		shifted := append(make([]byte, shift, shift+len(body)), body...)[shift:]
		req := mustDecode(t, MessagePack, shifted)
		if !sameRequest(req, want) || !req.Packed {
			t.Errorf("shifted by %d: %+v", shift, req)
		}
	}
	if got := mustAppend(t, MessagePackBin, want); !bytes.Equal(got, body) {
		t.Errorf("written as %q", got)
	}
	res := &kernel.Results{PnL: []float64{1}, Trades: []int64{258}, Open: []int8{-1}}
	got, err := MessagePackBin.AppendResults(nil, res)
	if want := "\x83\xa3pnl\xc4\x08\x00\x00\x00\x00\x00\x00\xf0\x3f\xa6trades\xc4\x08\x02\x01\x00\x00\x00\x00\x00\x00\xa4open\xc4\x01\xff"; err != nil || string(got) != want {
		t.Errorf("results are written as %q, %v", got, err)
	}
}

func TestMessagePackRefuses(t *testing.T) {
	six := []int{1, 2, 3, 4, 5, 6}
	for _, test := range []struct {
		name  string
		body  []byte
		kind  Kind
		field string
		index int
	}{
		{"nothing", nil, Malformed, "", -1},
		{"the unused byte", []byte{0xc1}, Malformed, "", -1},
		{"an array", packed(t, []int{1}), Invalid, "", -1},
		{"something after the value", append(packed(t, map[string]any{}), 0xc0), Malformed, "", -1},
		{"an unknown key", packed(t, map[string]any{"closes": 1}), Malformed, "", -1},
		{"a key that is a number", []byte{0x81, 0x01, 0x01}, Malformed, "", -1},
		{"a repeated key", []byte("\x82\xa3fee\x00\xa3fee\x00"), Malformed, "fee", -1},
		{"a cut map", []byte("\x82\xa3fee\x00"), Malformed, "", -1},
		{"a cut float", []byte("\x81\xa3fee\xcb\x00"), Malformed, "", -1},
		{"a close that is a string", packed(t, map[string]any{"close": "x"}), Invalid, "close", -1},
		{"a close that is nil", packed(t, map[string]any{"close": nil}), Invalid, "close", -1},
		{"a close of 9 bytes", packed(t, map[string]any{"close": make([]byte, 9)}), Malformed, "close", -1},
		{"params of 47 bytes", packed(t, map[string]any{"params": make([]byte, 47)}), Malformed, "params", -1},
		{"params that are a number", packed(t, map[string]any{"params": 1}), Invalid, "params", -1},
		{"a combo that is nil", packed(t, map[string]any{"params": []any{six, nil}}), Invalid, "params", 1},
		{"a combo of five windows", packed(t, map[string]any{"params": []any{six, six[1:]}}), Invalid, "params", 1},
		{"half a window", packed(t, map[string]any{"params": []any{six, []any{1, 10.5, 3, 4, 5, 6}}}), Invalid, "params.hma_full", 1},
		{"a window in a string", packed(t, map[string]any{"params": []any{[]any{1, "10", 3, 4, 5, 6}}}), Invalid, "params.hma_full", 0},
		{"a window that is NaN", packed(t, map[string]any{"params": []any{[]any{1, 2, 3, 4, 5, math.NaN()}}}), Invalid, "params.hma3_full", 0},
		{"a window of 2^63", packed(t, map[string]any{"params": []any{[]any{uint64(1 << 63), 2, 3, 4, 5, 6}}}), Invalid, "params.hma_half", 0},
		{"a length that is nil", packed(t, map[string]any{"lengths": []any{6, nil}}), Invalid, "lengths", 1},
		{"lengths that are a string", packed(t, map[string]any{"lengths": "6"}), Invalid, "lengths", -1},
		{"a dataset that is a number", packed(t, map[string]any{"dataset": 1}), Invalid, "dataset", -1},
		{"an empty dataset", packed(t, map[string]any{"dataset": ""}), Invalid, "dataset", -1},
		{"a fee that is nil", packed(t, map[string]any{"fee": nil}), Invalid, "fee", -1},
		{"a fee that is an inexact integer", packed(t, map[string]any{"fee": uint64(math.MaxUint64)}), Invalid, "fee", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantError(t, MessagePack.Decode(test.body, new(Request)), test.kind, test.field, test.index)
		})
	}
}

func TestMessagePackReadsWindowsThatAreWholeFloats(t *testing.T) {
	req := mustDecode(t, MessagePack, packed(t, map[string]any{"params": []any{[]any{3, 6.0, float32(2), uint64(1), int8(2), 3e0}}, "lengths": []any{6.0, 8}}))
	if want := (kernel.Params{3, 6, 2, 1, 2, 3}); req.Params[0] != want || req.Lengths[0] != 6 {
		t.Errorf("%+v", req)
	}
}

func TestMessagePackThatLiesAboutItsLengthAllocatesNothing(t *testing.T) {
	for name, body := range map[string]string{
		"an array of 2^32-1":             "\xdd\xff\xff\xff\xff\xcb",
		"a close of 2^32-1":              "\x81\xa5close\xdd\xff\xff\xff\xff\xcb",
		"a bin of 2^32-1":                "\x81\xa5close\xc6\xff\xff\xff\xff",
		"a string of 2^32-1":             "\x81\xa7dataset\xdb\xff\xff\xff\xff",
		"a map of 2^32-1":                "\xdf\xff\xff\xff\xff",
		"an extension of 2^32-1":         "\x81\xa5close\xc9\xff\xff\xff\xff\x01",
		"a close one element too long":   "\x81\xa5close\x92\x01",
		"nested arrays":                  strings.Repeat("\x91", 3<<20),
		"nested arrays as close":         "\x81\xa5close" + strings.Repeat("\x91", 3<<20) + "\x01",
		"nested maps":                    strings.Repeat("\x81\xa1a", 1<<20),
		"a key that claims to be longer": "\x81\xdb\xff\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := MessagePack.Decode([]byte(body), new(Request))
			runtime.ReadMemStats(&after)
			wantError(t, err, Malformed, "", -1)
			if grown := int64(after.TotalAlloc-before.TotalAlloc) - int64(len(body)); grown > 1<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
		})
	}
}

func TestMessagePackDecodingAllocatesNothingForEachNumber(t *testing.T) {
	for _, c := range []Codec{MessagePack, MessagePackBin} {
		allocations := func(bars int) float64 {
			body := mustAppend(t, c, &Request{Close: make([]float64, bars)})
			req := new(Request)
			return testing.AllocsPerRun(20, func() {
				req.Reset(Limits{})
				if err := c.Decode(body, req); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := allocations(10), allocations(10_000); few != many {
			t.Errorf("10 numbers cost %v allocations, 10,000 cost %v", few, many)
		}
	}
}

func FuzzMessagePackDecode(f *testing.F) {
	f.Add(packed(f, map[string]any{"close": []any{100, 101.5, nil, "x"}, "fee": 0.1}))
	f.Add(packed(f, map[string]any{"close": make([]byte, 24), "params": [][]int{{3, 6, 2, 1, 2, 3}}}))
	f.Add(packed(f, map[string]any{"dataset": "gbm42", "lengths": []any{6, 8.0, int64(-1)}}))
	f.Add([]byte("\xdd\xff\xff\xff\xff\xcb"))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := fuzzDecode(t, MessagePack, body)
		if err != nil {
			return
		}
		for _, c := range []Codec{MessagePack, MessagePackBin} {
			fuzzRewrite(t, c, req)
		}
	})
}

func FuzzMessagePackDecodeResults(f *testing.F) {
	f.Add(packed(f, map[string]any{"pnl": []any{1.5, -2}, "trades": []int{3, 4}, "open": []int{1, -1}}))
	f.Add(packed(f, map[string]any{"pnl": make([]byte, 8), "trades": make([]byte, 8), "open": []byte{255}}))
	f.Fuzz(func(t *testing.T, body []byte) {
		if res, err := fuzzResults(t, MessagePack, body); err == nil {
			fuzzRewriteResults(t, MessagePackBin, res)
		}
	})
}
