package encoding

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"texttax/kernel"
	"texttax/kernel/gbm42"
)

var allCodecs = []Codec{JSON, JSONStd, MessagePack, MessagePackBin, Arrow, Octet}

func codecName(c Codec) string {
	if c == MessagePackBin {
		return "msgpack-bin"
	}
	return c.Name()
}

// randomFloat draws from all finite float64, not only from those of usual size.
func randomFloat(r *rand.Rand) float64 {
	switch r.IntN(4) {
	case 0:
		return 100 * math.Exp(r.NormFloat64())
	case 1:
		return float64(r.IntN(1000)) / 4
	case 2:
		return math.Copysign(0, -1)
	}
	for {
		if v := math.Float64frombits(r.Uint64()); v-v == 0 {
			return v
		}
	}
}

func randomSeries(r *rand.Rand, n int) []float64 {
	series := make([]float64, n)
	for i := range series {
		series[i] = randomFloat(r)
	}
	return series
}

func randomParams(r *rand.Rand, n int) []kernel.Params {
	params := make([]kernel.Params, n)
	for i := range params {
		for w := range params[i] {
			params[i][w] = r.Int64() >> r.IntN(63)
		}
	}
	return params
}

func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// sameRequest tells whether two requests ask for the same, bit for bit.
func sameRequest(a, b *Request) bool {
	return sameBits(a.Close, b.Close) && (a.Close == nil) == (b.Close == nil) &&
		slices.Equal(a.Params, b.Params) && slices.Equal(a.Lengths, b.Lengths) &&
		a.Dataset == b.Dataset && a.HasFee == b.HasFee &&
		math.Float64bits(a.Fee) == math.Float64bits(b.Fee)
}

func mustAppend(t *testing.T, c Codec, req *Request) []byte {
	t.Helper()
	body, err := c.Append(nil, req)
	if err != nil {
		t.Fatalf("%s can't say the request: %v", codecName(c), err)
	}
	return body
}

func mustDecode(t *testing.T, c Codec, body []byte) *Request {
	t.Helper()
	req := new(Request)
	if err := c.Decode(body, req); err != nil {
		t.Fatalf("%s can't read the body: %v", codecName(c), err)
	}
	return req
}

func TestEveryPairOfFormatsCarriesTheSameRequest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			t.Run(codecName(from)+" to "+codecName(to), func(t *testing.T) {
				for _, bars := range []int{1, 2, 7, 300} {
					want := &Request{Close: randomSeries(r, bars), Params: randomParams(r, 1+bars%5)}
					if bars == 7 { // and once with no zero, which some readers take a second look at
						for i := range want.Close {
							want.Close[i] = math.Abs(want.Close[i]) + 1
						}
					}
					first := mustDecode(t, from, mustAppend(t, from, want))
					second := mustDecode(t, to, mustAppend(t, to, &Request{Close: first.Close, Params: first.Params}))
					if !sameRequest(want, second) {
						t.Fatalf("%d bars arrived as %+v, not as %+v", bars, second, want)
					}
				}
			})
		}
	}
}

func TestEveryPairOfFormatsCarriesTheSameResults(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			t.Run(codecName(from)+" to "+codecName(to), func(t *testing.T) {
				for _, n := range []int{0, 1, 2, 100} {
					want := kernel.Results{PnL: randomSeries(r, n), Trades: make([]int64, n), Open: make([]int8, n)}
					for i := range n {
						want.Trades[i], want.Open[i] = r.Int64N(1<<40), int8(r.IntN(3)-1)
					}
					got := want
					for _, c := range []Codec{from, to} {
						body, err := c.AppendResults(nil, &got)
						if err != nil {
							t.Fatal(err)
						}
						got = kernel.Results{}
						if err := c.DecodeResults(body, &got); err != nil {
							t.Fatal(err)
						}
						if c == Octet {
							got.Open = want.Open // octets have no place for it
						}
					}
					if !sameBits(got.PnL, want.PnL) || !slices.Equal(got.Trades, want.Trades) || !slices.Equal(got.Open, want.Open) {
						t.Fatalf("%d combos arrived as %+v, not as %+v", n, got, want)
					}
				}
			})
		}
	}
}

func TestMapFormatsCarryLengthsDatasetAndFee(t *testing.T) {
	for _, c := range []Codec{JSON, JSONStd, MessagePack, MessagePackBin} {
		for _, want := range []*Request{
			{Close: []float64{1, 2}, Lengths: []int64{6, 200, math.MaxInt64}, Fee: 0.0009, HasFee: true},
			{Dataset: `a "quoted" \ ünïcode id`, Fee: 0, HasFee: true},
			{Dataset: "gbm42", Params: []kernel.Params{{1, 2, 3, 4, 5, 6}}},
			{Close: []float64{1.5}, HasFee: true, Fee: -0.25},
			{},
		} {
			if got := mustDecode(t, c, mustAppend(t, c, want)); !sameRequest(got, want) {
				t.Errorf("%s: %+v arrived as %+v", codecName(c), want, got)
			}
		}
	}
}

func TestFormatsWithoutAPlaceForAPartSayToPutItInTheQuery(t *testing.T) {
	for _, c := range []Codec{Arrow, Octet} {
		for field, req := range map[string]*Request{
			"lengths": {Close: []float64{1}, Lengths: []int64{6}},
			"dataset": {Dataset: "gbm42"},
			"fee":     {Close: []float64{1}, HasFee: true},
		} {
			_, err := c.Append(nil, req)
			var e *Error
			if !errors.As(err, &e) || e.Kind != Unspeakable || e.Field != field {
				t.Errorf("%s with %s: %v", codecName(c), field, err)
			}
		}
	}
}

func TestBinaryFormatsKeepEveryBitOfTheSeries(t *testing.T) {
	odd := []float64{
		math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0x7ff0000000000001), // quiet and signalling NaN
		math.Float64frombits(0xfff8dead0000beef), math.Inf(1), math.Inf(-1),
		math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64,
	}
	for _, c := range []Codec{MessagePack, MessagePackBin, Arrow, Octet} {
		if got := mustDecode(t, c, mustAppend(t, c, &Request{Close: odd})); !sameBits(got.Close, odd) {
			t.Errorf("%s: %x came back as %x", codecName(c), odd, got.Close)
		}
	}
}

func TestJSONRefusesToSayWhatItHasNoWordsFor(t *testing.T) {
	for _, c := range []Codec{JSON, JSONStd} {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			_, err := c.Append(nil, &Request{Close: []float64{1, v, math.NaN()}})
			wantError(t, err, Unspeakable, "close", 1)
			_, err = c.AppendResults(nil, &kernel.Results{PnL: []float64{1, 2, v}, Trades: make([]int64, 3), Open: make([]int8, 3)})
			wantError(t, err, Unspeakable, "pnl", 2)
		}
	}
}

func TestAnAnswerHasNoSideButThree(t *testing.T) {
	for _, c := range allCodecs {
		if c == Octet {
			continue // octets have no place for it
		}
		for _, side := range []int8{2, -2, 127, -128} {
			body, err := c.AppendResults(nil, &kernel.Results{PnL: []float64{1, 2}, Trades: []int64{1, 2}, Open: []int8{1, side}})
			if err != nil {
				t.Fatal(err)
			}
			t.Run(codecName(c), func(t *testing.T) {
				wantError(t, c.DecodeResults(body, new(kernel.Results)), Invalid, "open", 1)
			})
		}
	}
}

func wantError(t *testing.T, err error, kind Kind, field string, index int) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, not an *Error", err)
	}
	if e.Kind != kind || e.Field != field || e.Index != index {
		t.Errorf("got kind %d, field %q, index %d (%v); want kind %d, field %q, index %d", e.Kind, e.Field, e.Index, e, kind, field, index)
	}
}

func TestAppendKeepsWhatIsThereAlready(t *testing.T) {
	for _, c := range allCodecs {
		req := &Request{Close: []float64{1, 2}}
		bare := mustAppend(t, c, req)
		behind, err := c.Append([]byte("before"), req)
		if err != nil || string(behind) != "before"+string(bare) {
			t.Errorf("%s: %q, %v", codecName(c), behind, err)
		}
		res := &kernel.Results{PnL: []float64{1}, Trades: []int64{2}, Open: []int8{-1}}
		bare, _ = c.AppendResults(nil, res)
		behind, err = c.AppendResults([]byte("before"), res)
		if err != nil || string(behind) != "before"+string(bare) {
			t.Errorf("%s: %q, %v", codecName(c), behind, err)
		}
	}
}

func TestLimitsAreCheckedInEveryFormat(t *testing.T) {
	long := &Request{Close: make([]float64, 11)}
	many := &Request{Close: []float64{1}, Params: make([]kernel.Params, 4)}
	for i := range long.Close {
		long.Close[i] = 1
	}
	for _, c := range allCodecs {
		limits := Limits{Bars: 10, Combos: 3}
		req := new(Request)
		req.Reset(limits)
		wantError(t, c.Decode(mustAppend(t, c, long), req), OverLimit, "close", -1)
		req.Reset(limits)
		wantError(t, c.Decode(mustAppend(t, c, many), req), OverLimit, "params", -1)
		req.Reset(Limits{Bars: 11, Combos: 4})
		if err := c.Decode(mustAppend(t, c, long), req); err != nil {
			t.Errorf("%s refuses just as much as the limit allows: %v", codecName(c), err)
		}
		req.Reset(Limits{Bars: 11, Combos: 4})
		if err := c.Decode(mustAppend(t, c, many), req); err != nil {
			t.Errorf("%s refuses just as much as the limit allows: %v", codecName(c), err)
		}
	}
}

func TestARequestCanBeUsedAgainAfterReset(t *testing.T) {
	req := new(Request)
	for _, c := range allCodecs {
		for _, want := range []*Request{{Close: []float64{3, 1, 2}, Params: make([]kernel.Params, 2)}, {Close: []float64{4}}} {
			req.Reset(Limits{})
			if err := c.Decode(mustAppend(t, c, want), req); err != nil || !sameRequest(req, want) {
				t.Errorf("%s: %+v, %v; want %+v", codecName(c), req, err, want)
			}
		}
	}
}

// BenchmarkTextTax encodes and decodes 150,000 closes in each format, and tells
// how many times as long as copying their bytes that takes. Copies are timed
// between the runs, so that both meet the same machine.
func BenchmarkTextTax(b *testing.B) {
	series := gbm42.Close()
	raw, _ := Octet.Append(nil, &Request{Close: series})
	copied := make([]byte, len(raw))
	for _, c := range allCodecs {
		packed, err := c.Append(nil, &Request{Close: series})
		if err != nil {
			b.Fatal(err)
		}
		// Where the server would read it to.
		offset := BodyOffset(c, int64(len(packed)))
		words := make([]uint64, len(packed)/8+2)
		body := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))[offset:][:len(packed)]
		copy(body, packed)

		run := func(direction string, once func()) {
			b.Run(fmt.Sprintf("format=%s/%s", codecName(c), direction), func(b *testing.B) {
				b.ReportAllocs()
				var copies, runs []time.Duration
				for b.Loop() {
					began := time.Now()
					copy(copied, raw)
					middle := time.Now()
					once()
					copies, runs = append(copies, middle.Sub(began)), append(runs, time.Since(middle))
				}
				slices.Sort(copies)
				slices.Sort(runs)
				median := runs[len(runs)/2]
				b.ReportMetric(float64(median.Nanoseconds())/1e3, "us")
				b.ReportMetric(float64(median)/float64(copies[len(copies)/2]), "copies")
				b.ReportMetric(float64(len(body)), "body-bytes")
			})
		}
		out := make([]byte, 0, len(packed)+1024)
		run("encode", func() {
			if c == Octet { // as /echo does
				out = LittleEndian(series)
				return
			}
			out, _ = c.Append(out[:0], &Request{Close: series})
		})
		req := new(Request)
		run("decode", func() {
			req.Reset(Limits{})
			if err := c.Decode(body, req); err != nil {
				b.Fatal(err)
			}
		})
	}
}
