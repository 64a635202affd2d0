package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// formats are the ways to send a body, with the media types that ask for them.
var formats = []struct {
	name, mediaType string
	codec           encoding.Codec
}{
	{"json", "application/json", encoding.JSON},
	{"json-std", "application/json; codec=std", encoding.JSONStd},
	{"msgpack", "application/vnd.msgpack", encoding.MessagePack},
	{"msgpack-bin", "application/vnd.msgpack; numbers=bin", encoding.MessagePackBin},
	{"arrow", "application/vnd.apache.arrow.stream", encoding.Arrow},
	{"octet", "application/octet-stream", encoding.Octet},
}

func encode(t testing.TB, codec encoding.Codec, req *encoding.Request) []byte {
	t.Helper()
	body, err := codec.Append(nil, req)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// goldenCase is a series with combos, and what numba makes of them.
type goldenCase struct {
	Name    string
	Fee     float64
	Close   []float64
	Windows []kernel.Params
	PnL     []float64
	Trades  []int64
	Open    []int8
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// goldenCases are the edge cases, and the demo series with its grid of 80.
func goldenCases(t testing.TB) []goldenCase {
	t.Helper()
	var cases []goldenCase
	readJSON(t, "../../kernel/testdata/edge_cases.json", &cases)
	var grid []struct {
		Windows kernel.Params
		PnL     float64
		Trades  int64
	}
	readJSON(t, "../../kernel/testdata/sweep_gbm42.json", &grid)
	demo := goldenCase{Name: "gbm42", Fee: kernel.DefaultFee, Close: gbm42.Close()}
	for _, combo := range grid {
		demo.Windows = append(demo.Windows, combo.Windows)
		demo.PnL = append(demo.PnL, combo.PnL)
		demo.Trades = append(demo.Trades, combo.Trades)
	}
	return append(cases, demo)
}

// everyTenth returns the case with a tenth of its combos.
func (g goldenCase) everyTenth() goldenCase {
	few := goldenCase{Name: g.Name, Fee: g.Fee, Close: g.Close}
	for i := 0; i < len(g.Windows); i += 10 {
		few.Windows = append(few.Windows, g.Windows[i])
		few.PnL = append(few.PnL, g.PnL[i])
		few.Trades = append(few.Trades, g.Trades[i])
	}
	return few
}

func (g *goldenCase) check(t *testing.T, got *kernel.Results) {
	t.Helper()
	if len(got.PnL) != len(g.PnL) {
		t.Fatalf("%s: %d results, not %d", g.Name, len(got.PnL), len(g.PnL))
	}
	for i := range g.PnL {
		if math.Float64bits(got.PnL[i]) != math.Float64bits(g.PnL[i]) || got.Trades[i] != g.Trades[i] {
			t.Errorf("%s, combo %d: pnl %v on %d trades, numba has %v on %d", g.Name, i, got.PnL[i], got.Trades[i], g.PnL[i], g.Trades[i])
		}
		if g.Open != nil && got.Open != nil && got.Open[i] != g.Open[i] {
			t.Errorf("%s, combo %d: open %d, numba has %d", g.Name, i, got.Open[i], g.Open[i])
		}
	}
}

func TestGoldenDataPassesInEveryFormat(t *testing.T) {
	s := start(t)
	cases := goldenCases(t)
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			for _, g := range cases {
				if g.Name == "gbm42" && f.name != "octet" {
					g = g.everyTenth() // the whole grid in one format is enough to wait for
				}
				body := encode(t, f.codec, &encoding.Request{Close: g.Close, Params: g.Windows})
				r := ask(t, "POST", fmt.Sprintf("%s/sweep?fee=%v", s.url, g.Fee), body, "Content-Type", f.mediaType)
				if r.status != 200 || r.header.Get("Content-Type") != f.codec.MediaType() {
					t.Fatalf("%s: status %d, %s: %.200s", g.Name, r.status, r.header.Get("Content-Type"), r.body)
				}
				var got kernel.Results
				if err := f.codec.DecodeResults(r.body, &got); err != nil {
					t.Fatalf("%s: %v", g.Name, err)
				}
				g.check(t, &got)
			}
		})
	}
}

func TestTheFirstCurlGivesThePublishedFingerprint(t *testing.T) {
	s := start(t)
	r := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6:200:80", nil)
	var got struct {
		PnL    []float64
		Trades []int64
		Open   []int8
	}
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	if len(got.PnL) != 80 || len(got.Trades) != 80 || len(got.Open) != 80 || got.PnL[0] != -5165.584357716994 || got.Trades[0] != 57029 {
		t.Errorf("%.100s", r.body)
	}
}

func TestTheQueryServesEveryFormat(t *testing.T) {
	s := start(t)
	for _, f := range formats {
		for _, dataset := range []bool{false, true} {
			url, body := s.url+"/sweep?lengths=6", encode(t, f.codec, &encoding.Request{Close: gbm42.Close()})
			if dataset {
				url, body = url+"&dataset=gbm42", nil
			}
			r := ask(t, "POST", url, body, "Content-Type", f.mediaType)
			var got kernel.Results
			if err := f.codec.DecodeResults(r.body, &got); r.status != 200 || err != nil || got.PnL[0] != -5165.584357716994 {
				t.Errorf("%s: status %d, %v: %.200q", f.name, r.status, err, r.body)
			}
		}
	}
}

func TestADatasetTakesItsCombosFromTheBody(t *testing.T) {
	s := start(t)
	params := []kernel.Params{kernel.Expand(6)}
	for name, req := range map[string]*encoding.Request{
		"params": {Params: params, Dataset: "gbm42"}, "lengths": {Lengths: []int64{6}, Dataset: "gbm42"}, "fee": {Lengths: []int64{6}, Dataset: "gbm42", HasFee: true, Fee: kernel.DefaultFee},
	} {
		for _, f := range formats {
			url, sent := s.url+"/sweep", *req
			if f.name == "arrow" || f.name == "octet" { // they only have a place for params
				if name != "params" {
					continue
				}
				url, sent.Dataset = url+"?dataset=gbm42", ""
			}
			r := ask(t, "POST", url, encode(t, f.codec, &sent), "Content-Type", f.mediaType)
			var got kernel.Results
			if err := f.codec.DecodeResults(r.body, &got); r.status != 200 || err != nil || got.Trades[0] != 57029 {
				t.Errorf("%s, %s: status %d, %v: %.200q", f.name, name, r.status, err, r.body)
			}
		}
	}
}

func TestTheFeeChangesThePnLAndNotTheTrades(t *testing.T) {
	s := start(t)
	for _, f := range formats[:4] {
		r := ask(t, "POST", s.url+"/sweep", encode(t, f.codec, &encoding.Request{Dataset: "gbm42", Lengths: []int64{200}, HasFee: true}), "Content-Type", f.mediaType, "Accept", "application/json")
		q := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=200&fee=0", nil)
		d := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=200", nil)
		if r.status != 200 || string(r.body) != string(q.body) || string(r.body) == string(d.body) {
			t.Errorf("%s: fee 0 in the body gives %s, in the query %s, and the default %s", f.name, r.body, q.body, d.body)
		}
	}
}

func TestEchoGivesEveryBitBackInEveryPairOfFormats(t *testing.T) {
	s := start(t)
	plain := []float64{100, 0.1, math.Copysign(0, -1), 1e-300, 5e-324, 1.7976931348623157e308, -3, 0}
	odd := append(slices.Clone(plain), math.NaN(), math.Inf(1), math.Inf(-1), math.Float64frombits(0x7ff4000000000123))
	for _, from := range formats {
		for _, to := range formats {
			series := odd
			if strings.HasPrefix(from.name, "json") || strings.HasPrefix(to.name, "json") {
				series = plain
			}
			for n := range len(series) + 1 {
				if n == 0 && from.name == "arrow" {
					continue // nothing to say is nothing sent
				}
				body := encode(t, from.codec, &encoding.Request{Close: series[:n]})
				r := ask(t, "POST", s.url+"/echo", body, "Content-Type", from.mediaType, "Accept", to.mediaType)
				var got encoding.Request
				if err := to.codec.Decode(r.body, &got); r.status != 200 || err != nil {
					t.Fatalf("%s to %s: status %d, %v: %q", from.name, to.name, r.status, err, r.body)
				}
				same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
				if !slices.EqualFunc(got.Close, series[:n], same) {
					t.Errorf("%s to %s: %x came back as %x", from.name, to.name, series[:n], got.Close)
				}
			}
		}
	}
}

func TestEchoMirrorsHowMessagePackNumbersCame(t *testing.T) {
	s := start(t)
	packed := encode(t, encoding.MessagePackBin, &encoding.Request{Close: []float64{1, 2}})
	if r := ask(t, "POST", s.url+"/echo", packed, "Content-Type", "application/msgpack"); string(r.body) != string(packed) {
		t.Errorf("%q came back as %q", packed, r.body)
	}
}

func TestEchoTakesTheBodyOfASweep(t *testing.T) {
	s := start(t)
	for _, f := range formats {
		body := encode(t, f.codec, &encoding.Request{Close: []float64{1, 2}, Params: []kernel.Params{{1, 2, 3, 4, 5, 6}}, Op: encoding.OpEcho})
		r := ask(t, "POST", s.url+"/echo", body, "Content-Type", f.mediaType)
		var got encoding.Request
		if err := f.codec.Decode(r.body, &got); r.status != 200 || err != nil || len(got.Close) != 2 || got.Params != nil {
			t.Errorf("%s: status %d, %v: %+v", f.name, r.status, err, got)
		}
	}
}

func TestBigEndianOctetsComeBackAsTheyCame(t *testing.T) {
	s := start(t)
	var body []byte
	for _, v := range []float64{100, 100.5, 3} {
		body = binary.BigEndian.AppendUint64(body, math.Float64bits(v))
	}
	if r := ask(t, "POST", s.url+"/echo", body); r.status != 200 || string(r.body) != string(body) {
		t.Errorf("status %d: %x came back as %x", r.status, body, r.body)
	}
}

func TestManyClientsGetTheirOwnBytes(t *testing.T) {
	s := start(t)
	done := make(chan error)
	const clients = 64
	for c := range clients {
		go func() {
			for round := range 20 {
				f := formats[(c+round)%len(formats)]
				series := make([]float64, 1+(c*37+round*101)%3000)
				for i := range series {
					series[i] = float64(c*1000+round) + float64(i)/8
				}
				body, err := f.codec.Append(nil, &encoding.Request{Close: series})
				if err != nil {
					done <- err
					return
				}
				r, err := client.Post(s.url+"/echo", f.mediaType, bytes.NewReader(body))
				if err != nil {
					done <- err
					return
				}
				got, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err != nil || !bytes.Equal(got, body) {
					done <- fmt.Errorf("client %d, %s: %d bytes came back as %d others, status %d, %w", c, f.name, len(body), len(got), r.StatusCode, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestDatasetsCanBeListedAndRead(t *testing.T) {
	s := start(t)
	var list []struct {
		ID, ETag    string
		Bars, Bytes int
	}
	r := ask(t, "GET", s.url+"/datasets", nil)
	if err := json.Unmarshal(r.body, &list); err != nil || len(list) != 1 || list[0].ID != "gbm42" || list[0].Bars != 150_000 || list[0].Bytes != 1_200_000 {
		t.Errorf("%s: %v", r.body, err)
	}
	for _, f := range formats {
		r := ask(t, "GET", s.url+"/datasets/gbm42", nil, "Accept", f.mediaType)
		var got encoding.Request
		if err := f.codec.Decode(r.body, &got); err != nil || !slices.Equal(got.Close, gbm42.Close()) {
			t.Errorf("%s: %v, %d bars", f.name, err, len(got.Close))
		}
		if want := `"42e58fb99a4734653ea5a9f7f6dbddf8204b626754a448a8a78560d02511b947"`; r.header.Get("ETag") != want || list[0].ETag != want {
			t.Errorf("ETag %s", r.header.Get("ETag"))
		}
	}
	head := ask(t, "HEAD", s.url+"/datasets/gbm42", nil, "Accept", "application/octet-stream")
	if head.status != 200 || head.header.Get("Content-Length") != "1200000" || len(head.body) != 0 {
		t.Errorf("HEAD: %d, %v", head.status, head.header)
	}
	if r := ask(t, "GET", s.url+"/datasets/gbm%342", nil); r.status != 200 {
		t.Errorf("an escaped id: %d", r.status)
	}
	wantProblem(t, ask(t, "GET", s.url+"/datasets/none", nil), 404, "dataset", -1)
	wantProblem(t, ask(t, "GET", s.url+"/datasets/gbm42", nil, "Accept", "text/html"), 406, "", -1)
}
