package encoding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"texttax/kernel"
)

var jsonCodecs = []Codec{JSON, JSONStd}

func TestJSONReadsTheSameFromAllItsSpellings(t *testing.T) {
	want := &Request{Close: []float64{100, 0.5, 1e300}, Params: []kernel.Params{{3, 6, 2, 1, 2, 3}}, Fee: 0.001, HasFee: true}
	for name, text := range map[string]string{
		"plain":               `{"close":[100,0.5,1e300],"params":[[3,6,2,1,2,3]],"fee":0.001}`,
		"another order":       `{"fee":0.001,"params":[[3,6,2,1,2,3]],"close":[100,0.5,1e300]}`,
		"white space":         " {\t\"close\" :\n[ 100 , 0.5,1e300 ]\r\n,\"params\": [ [3,6,2,1,2,3 ] ], \"fee\" : 0.001 } \n",
		"exponents":           `{"close":[1e2,5E-1,1E+300],"params":[[3,6,2,1,2,3]],"fee":1e-3}`,
		"whole, with a point": `{"close":[100.0,0.5,1e300],"params":[[3.0,6,2e0,1,20e-1,3]],"fee":0.001}`,
		"escaped key":         `{"cl\u006fse":[100,0.5,1e300],"params":[[3,6,2,1,2,3]],"f\u0065e":0.001}`,
	} {
		for _, c := range jsonCodecs {
			if got := mustDecode(t, c, []byte(text)); !sameRequest(got, want) {
				t.Errorf("%s, %s: %+v", c.Name(), name, got)
			}
		}
	}
}

func TestJSONReadsWholeNumbersExactly(t *testing.T) {
	for text, want := range map[string]int64{
		"10": 10, "10.0": 10, "1e1": 10, "1E+1": 10, "100e-1": 10, "0.1e2": 10, "10.000000000000000000000000": 10, "-3.0": -3, "0": 0, "0e5": 0, "-0": 0, "0.000e-99999999999999999999": 0,
		"9007199254740993.0": 9007199254740993, "9223372036854775807.0": math.MaxInt64, "922337203685477580.7e1": math.MaxInt64, "-9223372036854775808": math.MinInt64, "9.2e18": 9200000000000000000,
	} {
		for _, c := range jsonCodecs {
			if got := mustDecode(t, c, []byte(`{"lengths":[`+text+`]}`)).Lengths[0]; got != want {
				t.Errorf("%s reads %s as %d", c.Name(), text, got)
			}
		}
	}
}

func TestJSONReadsNumbersToTheNearestFloat(t *testing.T) {
	// Numbers that fast parsers have got wrong by one unit in the last place,
	// with the bits that David Gay's strtod, in CPython, gives them.
	for text, bits := range map[string]uint64{
		"1052748004135.6885":      0x426ea3957764f608,
		"0.9884619112598676":      0x3fefa17adfc67d38,
		"5e-324":                  1,
		"2.2250738585072011e-308": 0x000fffffffffffff,
		"2.2250738585072014e-308": 0x0010000000000000,
		"1.7976931348623157e308":  0x7fefffffffffffff,
		"9007199254740993":        0x4340000000000000, // halfway: to even
		"-0":                      0x8000000000000000,
		"-0.0":                    0x8000000000000000,
		"1e-400":                  0,
		"0.1":                     0x3fb999999999999a,
	} {
		for _, c := range jsonCodecs {
			got := mustDecode(t, c, []byte(`{"close":[`+text+`]}`)).Close[0]
			if math.Float64bits(got) != bits {
				t.Errorf("%s reads %s as %016x, not %016x", c.Name(), text, math.Float64bits(got), bits)
			}
		}
	}
}

func TestJSONWritesTheShortestTextThatReadsBack(t *testing.T) {
	for v, want := range map[float64]string{
		1: "1", 0.1: "0.1", 100.25: "100.25", 1e21: "1e+21", 1e20: "100000000000000000000",
		1e-6: "0.000001", 1e-7: "1e-7", 1.5e-10: "1.5e-10", 1234567.5: "1234567.5",
		5e-324: "5e-324", 1.7976931348623157e308: "1.7976931348623157e+308", -1.5: "-1.5",
		0.30000000000000004: "0.30000000000000004",
	} {
		if got := string(mustAppend(t, JSON, &Request{Close: []float64{v}})); got != `{"close":[`+want+`]}` {
			t.Errorf("%v is written %s, not %s", v, got, want)
		}
	}
	for _, c := range jsonCodecs {
		// Python's json reads -0 as the integer 0.
		if got := string(mustAppend(t, c, &Request{Close: []float64{math.Copysign(0, -1)}})); got != `{"close":[-0.0]}` {
			t.Errorf("%s writes negative zero as %s", c.Name(), got)
		}
		res := &kernel.Results{PnL: []float64{math.Copysign(0, -1)}, Trades: []int64{0}, Open: []int8{0}}
		if got, err := c.AppendResults(nil, res); string(got) != `{"pnl":[-0.0],"trades":[0],"open":[0]}` {
			t.Errorf("%s writes negative zero as %s, %v", c.Name(), got, err)
		}
	}
}

func TestTheStandardLibraryReallyReadsUsualBodies(t *testing.T) {
	for _, text := range []string{
		`{"close":[100,101.5],"params":[[3,6,2,1,2,3]],"fee":0}`, `{"lengths":[6,8],"dataset":"gbm42"}`, `{"close":[],"params":[],"lengths":[]}`,
	} {
		req := new(Request)
		if !decodeStd([]byte(text), req) {
			t.Errorf("%s is left to the plain reader", text)
		}
		if want := mustDecode(t, JSON, []byte(text)); !sameRequest(req, want) {
			t.Errorf("%s reads as %+v", text, req)
		}
	}
}

func TestJSONStdAllocatesNoMoreThanTheLimitsAllow(t *testing.T) {
	for name, body := range map[string]string{
		"empty combos": `{"params":[` + strings.Repeat("[],", 1<<20) + `[]]}`,
		"many closes":  `{"close":[` + strings.Repeat("1,", 1<<20) + `1]}`,
	} {
		req := new(Request)
		req.Reset(Limits{Bars: 1 << 16, Combos: 1 << 10})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := JSONStd.Decode([]byte(body), req)
		runtime.ReadMemStats(&after)
		if all := after.TotalAlloc - before.TotalAlloc; err == nil || all > 8<<20 {
			t.Errorf("%s: %v, %d bytes", name, err, all)
		}
	}
}

func TestJSONNumbersSurviveBothWays(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	series := randomSeries(r, 20_000)
	for _, from := range jsonCodecs {
		for _, to := range jsonCodecs {
			if got := mustDecode(t, to, mustAppend(t, from, &Request{Close: series})); !sameBits(got.Close, series) {
				t.Errorf("%s to %s changes bits", from.Name(), to.Name())
			}
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	const six = `[1,2,3,4,5,6]`
	for _, test := range []struct {
		name, text string
		kind       Kind
		field      string
		index      int
	}{
		{"nothing", ``, Malformed, "", -1},
		{"white space only", ` `, Malformed, "", -1},
		{"an array", `[1,2]`, Invalid, "", -1},
		{"a number", `1`, Invalid, "", -1},
		{"null", `null`, Invalid, "", -1},
		{"a cut object", `{"close":[1,2]`, Malformed, "", -1},
		{"a cut array", `{"close":[1,2`, Malformed, "", -1},
		{"a cut key", `{"clo`, Malformed, "", -1},
		{"a cut number", `{"close":[1.`, Malformed, "", -1},
		{"a trailing comma in an array", `{"close":[1,]}`, Malformed, "", -1},
		{"a trailing comma in an object", `{"close":[1],}`, Malformed, "", -1},
		{"a missing comma", `{"close":[1 2]}`, Malformed, "", -1},
		{"something after the value", `{"close":[1]} 1`, Malformed, "", -1},
		{"two values", `{"close":[1]}{"close":[1]}`, Malformed, "", -1},
		{"an unknown key", `{"close":[1],"closes":[1]}`, Malformed, "", -1},
		{"a key in another case", `{"Close":[1]}`, Malformed, "", -1},
		{"a repeated key", `{"close":[1],"fee":0,"close":[1]}`, Malformed, "close", -1},
		{"a key repeated by an escape", `{"close":[1],"cl\u006fse":[1]}`, Malformed, "close", -1},
		{"a bare key", `{close:[1]}`, Malformed, "", -1},
		{"single quotes", `{'close':[1]}`, Malformed, "", -1},
		{"a comment", `{"close":[1/* one */]}`, Malformed, "", -1},
		{"a leading zero", `{"close":[01]}`, Malformed, "", -1},
		{"a point without digits behind it", `{"close":[1.]}`, Malformed, "", -1},
		{"a point without digits before it", `{"close":[.5]}`, Malformed, "", -1},
		{"a plus sign", `{"close":[+1]}`, Malformed, "", -1},
		{"two signs", `{"close":[--1]}`, Malformed, "", -1},
		{"an empty exponent", `{"close":[1e]}`, Malformed, "", -1},
		{"hexadecimal", `{"close":[0x10]}`, Malformed, "", -1},
		{"an underscore", `{"close":[1_000]}`, Malformed, "", -1},
		{"NaN", `{"close":[NaN]}`, Malformed, "", -1},
		{"Infinity", `{"close":[1,Infinity]}`, Malformed, "", -1},
		{"a number beyond float64", `{"close":[1,1e400]}`, Malformed, "close", 1},
		{"deep nesting", `{"close":` + strings.Repeat("[", 100_000), Malformed, "", -1},
		{"deep nesting of objects", `{"close":` + strings.Repeat(`{"a":`, 100_000), Malformed, "", -1},
		{"a string that is not UTF-8", "{\"dataset\":\"\xff\"}", Malformed, "", -1},
		{"a control character", "{\"dataset\":\"a\nb\"}", Malformed, "", -1},
		{"a bad escape", `{"dataset":"\q"}`, Malformed, "", -1},
		{"a byte order mark", "\ufeff{}", Malformed, "", -1},
		{"a close that is a number", `{"close":1}`, Invalid, "close", -1},
		{"a close that is null", `{"close":null}`, Invalid, "close", -1},
		{"a close that is a string", `{"close":"1,2"}`, Invalid, "close", -1},
		{"params that are an object", `{"params":{}}`, Invalid, "params", -1},
		{"params that are null", `{"params":null}`, Invalid, "params", -1},
		{"a combo that is a number", `{"params":[` + six + `,7]}`, Invalid, "params", 1},
		{"a combo that is null", `{"params":[` + six + `,null]}`, Invalid, "params", 1},
		{"a combo of five windows", `{"params":[` + six + `,[1,2,3,4,5]]}`, Invalid, "params", 1},
		{"a combo of seven windows", `{"params":[[1,2,3,4,5,6,7]]}`, Invalid, "params", 0},
		{"half a window", `{"params":[` + six + `,[1,10.5,3,4,5,6]]}`, Invalid, "params.hma_full", 1},
		{"a window in quotes", `{"params":[[1,2,"10",4,5,6]]}`, Invalid, "params.hma_smooth", 0},
		{"a window that is null", `{"params":[[1,2,3,null,5,6]]}`, Invalid, "params.hma3_third", 0},
		{"a window beyond 2^63", `{"params":[[1,2,3,4,9223372036854775808,6]]}`, Invalid, "params.hma3_half", 0},
		{"a window that is almost whole", `{"params":[[10.00000000000000000001,2,3,4,5,6]]}`, Invalid, "params.hma_half", 0},
		{"a window of 1e-1", `{"params":[[1e-1,2,3,4,5,6]]}`, Invalid, "params.hma_half", 0},
		{"a window of 1e99999999999999999999", `{"params":[[1e99999999999999999999,2,3,4,5,6]]}`, Invalid, "params.hma_half", 0},
		{"a window of 1e-99999999999999999999", `{"params":[[1e-99999999999999999999,2,3,4,5,6]]}`, Invalid, "params.hma_half", 0},
		{"a window of 1e300", `{"params":[[1,2,3,4,5,1e300]]}`, Invalid, "params.hma3_full", 0},
		{"half a length", `{"lengths":[6,6.5]}`, Invalid, "lengths", 1},
		{"a length that is null", `{"lengths":[6,8,null]}`, Invalid, "lengths", 2},
		{"lengths that are a string", `{"lengths":"6:200:80"}`, Invalid, "lengths", -1},
		{"a dataset that is a number", `{"dataset":42}`, Invalid, "dataset", -1},
		{"a dataset that is null", `{"dataset":null}`, Invalid, "dataset", -1},
		{"an empty dataset", `{"dataset":""}`, Invalid, "dataset", -1},
		{"a fee in quotes", `{"fee":"0.1"}`, Invalid, "fee", -1},
		{"a fee that is null", `{"fee":null}`, Invalid, "fee", -1},
		{"a fee beyond float64", `{"fee":1e999}`, Malformed, "fee", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, c := range jsonCodecs {
				wantError(t, c.Decode([]byte(test.text), new(Request)), test.kind, test.field, test.index)
			}
		})
	}
}

func TestJSONNotesTheFirstElementThatIsNoPrice(t *testing.T) {
	for text, index := range map[string]int{
		`[100,null,101,null]`: 1, `[null]`: 0, `[0,null]`: 1, `[1,"2"]`: 1, `[1,2,true]`: 2, `[[1]]`: 0, `[1,{"a":[]}]`: 1,
	} {
		for _, c := range jsonCodecs {
			req := mustDecode(t, c, []byte(`{"close":`+text+`}`))
			if req.Invalid == nil {
				t.Errorf("%s: %s is taken for a series: %v", c.Name(), text, req.Close)
				continue
			}
			wantError(t, req.Invalid, Invalid, "close", index)
			if !math.IsNaN(req.Close[index]) {
				t.Errorf("%s: %s reads as %v", c.Name(), text, req.Close)
			}
		}
	}
}

func TestJSONTellsNothingFromEmpty(t *testing.T) {
	for _, c := range jsonCodecs {
		if req := mustDecode(t, c, []byte(`{}`)); req.Close != nil || req.Params != nil || req.Lengths != nil || req.HasFee {
			t.Errorf("%s: {} reads as %+v", c.Name(), req)
		}
		if req := mustDecode(t, c, []byte(`{"close":[],"params":[],"lengths":[],"fee":0}`)); req.Close == nil || req.Params == nil || req.Lengths == nil || !req.HasFee {
			t.Errorf("%s: empty arrays read as %+v", c.Name(), req)
		}
	}
}

func TestJSONDecodingAllocatesNothingForEachNumber(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	allocations := func(bars int) float64 {
		body := mustAppend(t, JSON, &Request{Close: randomSeries(r, bars)})
		req := new(Request)
		return testing.AllocsPerRun(20, func() {
			req.Reset(Limits{})
			if err := JSON.Decode(body, req); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocations(10), allocations(10_000); few != many {
		t.Errorf("10 numbers cost %v allocations, 10,000 cost %v", few, many)
	}
}

func TestJSONEncodingAllocatesNothingForEachNumber(t *testing.T) {
	req := &Request{Close: randomSeries(rand.New(rand.NewPCG(19, 20)), 10_000)}
	body := mustAppend(t, JSON, req)
	if all := testing.AllocsPerRun(20, func() { body, _ = JSON.Append(body[:0], req) }); all > 2 {
		t.Errorf("10,000 numbers cost %v allocations", all)
	}
}

// FuzzJSONDecode checks that both readers of JSON agree on every body, and
// that what they accept is written and read back unchanged.
func FuzzJSONDecode(f *testing.F) {
	for _, seed := range []string{
		`{"close":[100,101.5],"params":[[3,6,2,1,2,3]],"fee":0.0009}`,
		`{"close":[1e2,-0,5e-324],"lengths":[6,8,1e1]}`,
		`{"dataset":"gbm42","lengths":[]}`, `{"close":[1,null,"x",{}]}`, `{"params":[[1,2]]}`, `{"fee":null}`, `[`, `{"close":[1e999]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		plain, plainErr := fuzzDecode(t, JSON, body)
		std, stdErr := fuzzDecode(t, JSONStd, body)
		if fmt.Sprint(plainErr) != fmt.Sprint(stdErr) {
			t.Fatalf("%q: json says %v, json-std says %v", body, plainErr, stdErr)
		}
		if plainErr != nil {
			return
		}
		if !sameRequest(plain, std) || fmt.Sprint(plain.Invalid) != fmt.Sprint(std.Invalid) {
			t.Fatalf("%q: json reads %+v, json-std reads %+v", body, plain, std)
		}
		if plain.Invalid != nil {
			return
		}
		for _, c := range jsonCodecs {
			fuzzRewrite(t, c, plain)
		}
	})
}

func FuzzJSONDecodeResults(f *testing.F) {
	f.Add([]byte(`{"pnl":[1.5,-2],"trades":[3,4],"open":[1,-1]}`))
	for _, seed := range []string{
		`{"pnl":[null],"trades":[],"open":[2]}`, `{"pnl":[1],"trades":[null],"open":[0]}`, `{"pnl":[1],"trades":[1],"open":[5]}`,
		`{"PNL":[1],"trades":[1],"open":[1]}`, `{"pnl":[1],"pnl":[1],"trades":[1],"open":[1]}`, `{"pnl":[0],"trades":[0],"open":[0],"x":1}`,
		`{"pnl":[0],"trades":[2.0],"open":[0]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		plain, plainErr := fuzzResults(t, JSON, body)
		std, stdErr := fuzzResults(t, JSONStd, body)
		if fmt.Sprint(plainErr) != fmt.Sprint(stdErr) {
			t.Fatalf("%q: json says %v, json-std says %v", body, plainErr, stdErr)
		}
		if plainErr != nil {
			return
		}
		if !sameBits(plain.PnL, std.PnL) || !slices.Equal(plain.Trades, std.Trades) || !slices.Equal(plain.Open, std.Open) {
			t.Fatalf("%q: json reads %+v, json-std reads %+v", body, plain, std)
		}
	})
}

func TestJSONTextIsThatOfTheStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 1000 {
		req := &Request{Close: randomSeries(r, 20)}
		for i := range req.Close {
			req.Close[i] += 0 // which makes negative zero, the one exception, positive
		}
		want, err := json.Marshal(map[string]any{"close": req.Close})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range jsonCodecs {
			if got := mustAppend(t, c, req); !bytes.Equal(got, want) {
				t.Fatalf("%s writes\n%s, encoding/json\n%s", c.Name(), got, want)
			}
		}
	}
}
