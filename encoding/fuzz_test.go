package encoding

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"texttax/kernel"
)

// The fuzz targets decode as a server does that has these limits. Whatever a
// body says, decoding it must not allocate more than twice the body limit.
const fuzzBody = 1 << 20

var fuzzLimits = Limits{Bars: 1 << 13, Combos: 1 << 10}

// watched runs f, and fails if it allocates more than so many bytes.
func watched(t testing.TB, most uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
		t.Errorf("%d bytes were allocated, the bound is %d", allocated, most)
	}
}

// fuzzDecode decodes a body under the limits, and checks that this allocates
// in bounds, leaves the body as it was, and holds the limits, or that its error
// can be shown to a client. The target skips bodies over the body limit, which
// a server refuses unread.
func fuzzDecode(t *testing.T, c Codec, body []byte) (*Request, error) {
	t.Helper()
	return decodeUnder(t, c, body, fuzzLimits)
}

func decodeUnder(t *testing.T, c Codec, body []byte, limits Limits) (*Request, error) {
	t.Helper()
	if len(body) > fuzzBody {
		t.Skip("over the body limit")
	}
	was := bytes.Clone(body)
	req := new(Request)
	req.Reset(limits)
	var err error
	watched(t, 2*fuzzBody, func() { err = c.Decode(body, req) })
	if !bytes.Equal(body, was) {
		t.Fatalf("%s changed the body %x", codecName(c), was)
	}
	if err != nil {
		checkFuzzError(t, err)
		return nil, err
	}
	if len(req.Close) > limits.Bars || len(req.Params) > limits.Combos || len(req.Lengths) > limits.Combos {
		t.Fatalf("%s reads %d bars, %d params and %d lengths, over the limits", codecName(c), len(req.Close), len(req.Params), len(req.Lengths))
	}
	if req.Invalid != nil {
		checkFuzzError(t, req.Invalid)
		if i := req.Invalid.Index; req.Invalid.Field != "close" || i < 0 || i >= len(req.Close) || req.Close[i] == req.Close[i] {
			t.Fatalf("%s stores no NaN for the invalid %v", codecName(c), req.Invalid)
		}
	}
	return req, nil
}

// fuzzRewrite checks that what was read is written, read back to the same bits,
// and written again to the same bytes. It returns these. NaN stands for an
// invalid price, and is an ordinary one where the format can say it.
func fuzzRewrite(t *testing.T, c Codec, req *Request) []byte {
	t.Helper()
	written := mustAppend(t, c, req)
	again := mustDecode(t, c, written)
	if !sameRequest(again, req) || (again.Params == nil) != (req.Params == nil) || (again.Lengths == nil) != (req.Lengths == nil) || again.Invalid != nil {
		t.Fatalf("%s: written and read again %+v is %+v", codecName(c), req, again)
	}
	if twice := mustAppend(t, c, again); !bytes.Equal(twice, written) {
		t.Fatalf("%s: %+v is written as %x, and then as %x", codecName(c), req, written, twice)
	}
	return written
}

// fuzzResults does as fuzzDecode and fuzzRewrite do, for an answer. That has no
// limits, but a number takes a byte at least.
func fuzzResults(t *testing.T, c Codec, body []byte) (*kernel.Results, error) {
	t.Helper()
	was := bytes.Clone(body)
	res := new(kernel.Results)
	var err error
	watched(t, uint64(2*fuzzBody+64*len(body)), func() { err = c.DecodeResults(body, res) })
	if !bytes.Equal(body, was) {
		t.Fatalf("%s changed the body %x", codecName(c), was)
	}
	if err != nil {
		checkFuzzError(t, err)
		return nil, err
	}
	if len(res.PnL) != len(res.Trades) || c != Octet && len(res.PnL) != len(res.Open) {
		t.Fatalf("%s reads %x as columns of different lengths: %+v", codecName(c), body, res)
	}
	fuzzRewriteResults(t, c, res)
	return res, nil
}

func fuzzRewriteResults(t *testing.T, c Codec, res *kernel.Results) {
	t.Helper()
	written, err := c.AppendResults(nil, res)
	if err != nil {
		t.Fatal(err)
	}
	again := new(kernel.Results)
	if err := c.DecodeResults(written, again); err != nil {
		t.Fatalf("%s can't read what it wrote, %x: %v", codecName(c), written, err)
	}
	if !sameBits(again.PnL, res.PnL) || !slices.Equal(again.Trades, res.Trades) || !slices.Equal(again.Open, res.Open) {
		t.Fatalf("%s: written and read again %+v is %+v", codecName(c), res, again)
	}
	if twice, err := c.AppendResults(nil, again); err != nil || !bytes.Equal(twice, written) {
		t.Fatalf("%s: %+v is written as %x, and then as %x, %v", codecName(c), res, written, twice, err)
	}
}

// checkFuzzError checks that a refusal can be shown to a client.
func checkFuzzError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e == nil {
		t.Fatalf("the error is no *Error: %v", err)
	}
	if len(e.Error()) > 2000 || e.Detail == "" {
		t.Fatalf("the error is no text for a client: %q", e.Error())
	}
}

// The bound of the fuzz targets holds for bodies that they would hardly make:
// those that say the most numbers in the fewest bytes.
func TestNoBodyMakesADecoderAllocateMoreThanTwiceTheBodyLimit(t *testing.T) {
	bars := fuzzLimits.Bars
	repeat := func(head, element string, n int, tail string) []byte {
		return append(append([]byte(head), bytes.Repeat([]byte(element), n)...), tail...)
	}
	for _, n := range []int{bars - 1, bars, 2 * bars, fuzzBody / 2} {
		for name, body := range map[string][]byte{
			"digits":          repeat(`{"close":[`, "1,", n-1, "1]}"),
			"nulls":           repeat(`{"close":[`, "0,", n/4, "null]}"),
			"empty combos":    repeat(`{"params":[`, "[],", min(n, fuzzBody/3)-1, "[]]}"),
			"lengths":         repeat(`{"lengths":[`, "6,", n-1, "6]}"),
			"whole numbers":   repeat(`{"lengths":[`, "1e1,", min(n, fuzzBody/4)-1, "6]}"),
			"strings":         repeat(`{"close":[`, `"",`, min(n, fuzzBody/3)-1, `""]}`),
			"nested arrays":   repeat(`{"close":`, "[", n, ""),
			"one long string": repeat(`{"dataset":"`, "x", n, `"}`),
			"escapes":         repeat(`{"dataset":"`, `\n`, n-20, `"}`),
			"a long number":   repeat(`{"close":[1`, "0", n, "]}"),
			"a long fraction": repeat(`{"close":[0.`, "3", n, "]}"),
		} {
			for _, c := range jsonCodecs {
				t.Run(fmt.Sprint(c.Name(), " ", name, " ", n), func(t *testing.T) { _, _ = fuzzDecode(t, c, body) })
			}
		}
		be32 := func(n int) string { return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) }
		for name, body := range map[string][]byte{
			"small integers": repeat("\x81\xa5close\xdd"+be32(n), "\x01", n, ""),
			"nils":           repeat("\x81\xa5close\xdd"+be32(n), "\xc0", n, ""),
			"bin":            repeat("\x81\xa5close\xc6"+be32(n/8*8), "\x01", n/8*8, ""),
			"empty combos":   repeat("\x81\xa6params\xdd"+be32(n), "\x90", n, ""),
			"lengths":        repeat("\x81\xa7lengths\xdd"+be32(n), "\x06", n, ""),
			"a string":       repeat("\x81\xa7dataset\xdb"+be32(n), "x", n, ""),
			"a key":          repeat("\x81\xdb"+be32(n), "x", n, "\x01"),
		} {
			t.Run(fmt.Sprint("msgpack ", name, " ", n), func(t *testing.T) { _, _ = fuzzDecode(t, MessagePack, body) })
		}
		column := make([]byte, 8*n)
		for codec, packed := range [][]byte{codecLZ4: packLZ4(t, column), codecZSTD: packZSTD(t, column)} {
			t.Run(fmt.Sprint("arrow ", codec, " ", n), func(t *testing.T) {
				_, _ = fuzzDecode(t, Arrow, forgedColumn(int64(n), byte(codec), prefixed(int64(8*n), packed)))
			})
		}
		for shift := range 8 {
			t.Run(fmt.Sprint("octet ", shift, " ", n), func(t *testing.T) {
				_, _ = fuzzDecode(t, Octet, misaligned(make([]byte, min(8*n, fuzzBody)), shift))
			})
		}
	}
}

// The limits of the server's defaults in proportion: 10 million bars and
// 100,000 combos to a body of 64 MiB. Such a series is longer than its body
// can be as float64.
func TestTheLongestSeriesMakesABinaryDecoderAllocateNoMoreThanTwiceTheBodyLimit(t *testing.T) {
	const bars = 10_000_000 * fuzzBody / (64 << 20)
	limits := Limits{Bars: bars, Combos: 100_000 * fuzzBody / (64 << 20)}
	decode := func(name string, c Codec, body []byte) {
		t.Run(name, func(t *testing.T) {
			req, err := decodeUnder(t, c, body, limits)
			if err != nil || len(req.Close) != bars && c != Octet {
				t.Errorf("%v", err)
			}
		})
	}
	n := string([]byte{0, byte(bars >> 16), byte(bars >> 8 & 0xFF), byte(bars & 0xFF)})
	decode("msgpack", MessagePack, append([]byte("\x81\xa5close\xdd"+n), bytes.Repeat([]byte{1}, bars)...))
	decode("octet, misaligned", Octet, misaligned(make([]byte, fuzzBody), 3))
	values := make([]byte, 8*bars)
	for name, pack := range map[string]func(b []byte) []byte{
		"lz4":  func(b []byte) []byte { return packLZ4(t, b) },
		"zstd": func(b []byte) []byte { return packZSTD(t, b) },
	} {
		codec := map[string]byte{"lz4": codecLZ4, "zstd": codecZSTD}[name]
		decode("arrow, "+name, Arrow, forgedColumn(bars, codec, prefixed(8*bars, pack(values))))
		padded := append(bytes.Clone(values), make([]byte, 48)...)
		decode("arrow, padded, "+name, Arrow, forgedColumn(bars, codec, prefixed(int64(len(padded)), pack(padded))))
	}
}

// The limits are a quarter of the server's defaults. Where one reader of JSON
// gives up in the end, it must not leave the other to allocate all anew.
func TestNoLongJSONMakesADecoderAllocateMoreThanTwiceTheBodyLimit(t *testing.T) {
	const bars, combos, bodyLimit = 2_500_000, 25_000, 16 << 20
	repeat := func(head, element string, n int, tail string) []byte {
		return append(append([]byte(head), bytes.Repeat([]byte(element), n)...), tail...)
	}
	for name, test := range map[string]struct {
		body []byte
		bars int // 0 if it is refused
	}{
		"ones":                  {repeat(`{"close":[`, "1,", bars-1, "1]}"), bars},
		"a zero at the end":     {repeat(`{"close":[`, "1,", bars-1, "0]}"), bars},
		"a null at the end":     {repeat(`{"close":[`, "1,", bars-1, "null]}"), bars},
		"a null fee at the end": {repeat(`{"close":[`, "1,", bars-1, `1],"fee":null}`), 0},
		"nulls":                 {repeat(`{"close":[`, "null,", bars-1, "1]}"), bars},
		"trues":                 {repeat(`{"close":[`, "true,", bars-1, "1]}"), bars},
		"strings":               {repeat(`{"close":[`, `"",`, bars-1, "1]}"), bars},
		"a string of commas":    {repeat(`{"close":["`, ",", maxStdToken-2, `"]}`), 1},
		"a long one":            {repeat(`{"close":["`, ",", bars, `"]}`), 1},
		"lengths":               {repeat(`{"lengths":[`, "6,", bars-1, "6]}"), 0},
		"params":                {repeat(`{"params":[`, "6,", bars-1, "6]}"), 0},
		"params in one":         {repeat(`{"params":[[`, "6,", bars-1, "6]]}"), 0},
	} {
		for _, c := range jsonCodecs {
			t.Run(codecName(c)+" "+name, func(t *testing.T) {
				var req Request
				req.Reset(Limits{Bars: bars, Combos: combos})
				watched(t, 2*bodyLimit, func() {
					if err := c.Decode(test.body, &req); (err == nil) != (test.bars > 0) || err == nil && len(req.Close) != test.bars {
						t.Errorf("%d bars and %v", len(req.Close), err)
					}
				})
			})
		}
	}
}

func TestASeriesInJSONTakesItsMemoryOnce(t *testing.T) {
	const bars = 150_000
	for name, body := range map[string][]byte{
		"numbers":       mustAppend(t, JSON, &Request{Close: randomSeries(rand.New(rand.NewPCG(5, 6)), bars)}),
		"nulls between": append(append([]byte(`{"close":[`), bytes.Repeat([]byte("1,null,"), bars/2-1)...), "1,null]}"...),
	} {
		t.Run(name, func(t *testing.T) {
			var req Request
			watched(t, 8*bars+64<<10, func() {
				if err := JSON.Decode(body, &req); err != nil || len(req.Close) != bars {
					t.Errorf("%d bars and %v", len(req.Close), err)
				}
			})
		})
	}
}
