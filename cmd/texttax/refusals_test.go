package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/klauspost/compress/zstd"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// stillServes checks that a refusal has done no harm: the next request works.
func stillServes(t testing.TB, s *server) {
	t.Helper()
	if r := ask(t, "POST", s.url+"/sweep?lengths=2", octets(100, 101, 102)); r.status != 200 {
		t.Errorf("the next request fails: %d %s", r.status, r.body)
	}
}

func octets(series ...float64) []byte {
	var b []byte
	for _, v := range series {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func TestRefusedRequestsSayWhatIsWrong(t *testing.T) {
	s := start(t, "--bars-max", "1000", "--combos-max", "50", "--work-max", "2000", "--body-max", "100KiB")
	const (
		jsonType = "application/json"
		octet    = "application/octet-stream"
	)
	frame := func(opcode byte, bars, combos int, numbers ...uint64) []byte {
		b := []byte{opcode}
		b = binary.LittleEndian.AppendUint32(b, uint32(bars))
		b = binary.LittleEndian.AppendUint32(b, uint32(combos))
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		return b
	}
	one := math.Float64bits(1)
	for _, test := range []struct {
		name, method, path, contentType, body string
		status                                int
		field                                 string
		index                                 int
	}{
		{"an unknown path", "GET", "/nothing", "", "", 404, "", -1},
		{"a trailing slash", "POST", "/sweep/?lengths=6", octet, string(octets(1)), 404, "", -1},
		{"two slashes", "POST", "//sweep?lengths=6", octet, string(octets(1)), 404, "", -1},
		{"GET of a sweep", "GET", "/sweep", "", "", 405, "", -1},
		{"PUT of a sweep", "PUT", "/sweep", octet, "", 405, "", -1},
		{"OPTIONS of a sweep", "OPTIONS", "/sweep", "", "", 405, "", -1},
		{"an unknown method of nothing", "BREW", "/nothing", "", "", 404, "", -1},
		{"a slash in an id", "GET", "/datasets/gbm42%2F", "", "", 404, "dataset", -1},
		{"POST of a slash in an id", "POST", "/datasets/a%2Fb", "", "", 405, "", -1},
		{"an unknown method", "BREW", "/sweep", "", "", 405, "", -1},
		{"POST of the health", "POST", "/healthz", "", "", 405, "", -1},
		{"another media type", "POST", "/sweep", "multipart/form-data; boundary=application/json", "x", 415, "", -1},
		{"curl's own media type", "POST", "/sweep", "application/x-www-form-urlencoded", "x=1", 415, "", -1},
		{"JSON that is cut", "POST", "/sweep?lengths=6", jsonType, `{"close":[1,`, 400, "", -1},
		{"JSON of another shape", "POST", "/sweep?lengths=6", jsonType, `[1,2]`, 422, "", -1},
		{"JSON with an unknown key", "POST", "/sweep", jsonType, `{"prices":[1]}`, 400, "", -1},
		{"JSON with a repeated key", "POST", "/sweep", jsonType, `{"close":[1],"close":[1]}`, 400, "close", -1},
		{"half a window", "POST", "/sweep", jsonType, `{"close":[1],"params":[[1,2,3,4,5,6.5]]}`, 422, "params.hma3_full", 0},
		{"a window of 0", "POST", "/sweep", jsonType, `{"close":[1],"params":[[1,2,3,4,5,6],[1,0,3,4,5,6]]}`, 422, "params.hma_full", 1},
		{"a window of -1", "POST", "/sweep", octet, string(frame(0, 1, 1, one, 1, 2, 3, 4, 5, math.MaxUint64)), 422, "params.hma3_full", 0},
		{"octets that are no whole number of floats", "POST", "/sweep?lengths=6", octet, strings.Repeat("x", 12), 400, "", -1},
		{"a frame that counts more bars than it has", "POST", "/sweep", octet, string(frame(0, 2, 0, one)), 400, "", -1},
		{"an echo frame for a sweep", "POST", "/sweep?lengths=6", octet, string(frame(1, 1, 0, one)), 422, "opcode", -1},
		{"a sweep frame for an echo", "POST", "/echo", octet, string(frame(0, 1, 0, one)), 422, "opcode", -1},
		{"an opcode that is none", "POST", "/echo", octet, string(frame(9, 1, 0, one)), 400, "opcode", -1},
		{"no series", "POST", "/sweep?lengths=6", jsonType, `{}`, 422, "close", -1},
		{"no series and no body", "POST", "/sweep?lengths=6", "", "", 422, "close", -1},
		{"an empty series", "POST", "/sweep?lengths=6", jsonType, `{"close":[]}`, 422, "close", -1},
		{"no combos", "POST", "/sweep", octet, string(octets(1)), 422, "lengths", -1},
		{"an empty list of lengths", "POST", "/sweep", jsonType, `{"close":[1],"lengths":[]}`, 422, "lengths", -1},
		{"a length of 1", "POST", "/sweep", jsonType, `{"close":[1],"lengths":[6,1]}`, 422, "lengths", 1},
		{"a length of 1 in the query", "POST", "/sweep?lengths=6,1", octet, string(octets(1)), 422, "lengths", 1},
		{"lengths that are no numbers", "POST", "/sweep?lengths=six", octet, string(octets(1)), 400, "lengths", 0},
		{"an unknown parameter", "POST", "/sweep?length=6", octet, string(octets(1)), 400, "", -1},
		{"a parameter given twice", "POST", "/sweep?lengths=6&lengths=8", octet, string(octets(1)), 400, "lengths", -1},
		{"a query that can't be parsed", "POST", "/sweep?lengths=%zz", octet, string(octets(1)), 400, "", -1},
		{"a parameter of an echo", "POST", "/echo?lengths=6", octet, string(octets(1)), 400, "", -1},
		{"a fee that is no number", "POST", "/sweep?lengths=6&fee=free", octet, string(octets(1)), 400, "fee", -1},
		{"a fee that is NaN", "POST", "/sweep?lengths=6&fee=NaN", octet, string(octets(1)), 400, "fee", -1},
		{"a fee in percent", "POST", "/sweep?lengths=6&fee=9", octet, string(octets(1)), 422, "fee", -1},
		{"a dataset that is not there", "POST", "/sweep?lengths=6&dataset=nope", "", "", 404, "dataset", -1},
		{"a dataset without a name", "POST", "/sweep?lengths=6&dataset=", "", "", 422, "dataset", -1},
		{"a dataset beside a series", "POST", "/sweep?lengths=6&dataset=gbm42", octet, string(octets(1)), 400, "dataset", -1},
		{"a dataset beside a series, both in the body", "POST", "/sweep?lengths=6", jsonType, `{"close":[1],"dataset":"gbm42"}`, 400, "dataset", -1},
		{"a dataset given twice", "POST", "/sweep?lengths=6&dataset=gbm42", jsonType, `{"dataset":"gbm42"}`, 400, "dataset", -1},
		{"lengths given twice", "POST", "/sweep?lengths=6", jsonType, `{"close":[1],"lengths":[6]}`, 400, "lengths", -1},
		{"lengths beside params", "POST", "/sweep?lengths=6", octet, string(frame(0, 1, 1, one, 1, 2, 3, 4, 5, 6)), 400, "lengths", -1},
		{"lengths beside params in the body", "POST", "/sweep", jsonType, `{"close":[1],"lengths":[6],"params":[[1,2,3,4,5,6]]}`, 400, "lengths", -1},
		{"a fee given twice", "POST", "/sweep?lengths=6&fee=0.1", jsonType, `{"close":[1],"fee":0.1}`, 400, "fee", -1},
		{"a dataset for an echo", "POST", "/echo", jsonType, `{"dataset":"gbm42"}`, 422, "dataset", -1},
		{"an echo of nothing", "POST", "/echo", jsonType, `{"lengths":[6]}`, 422, "close", -1},
		{"too many bars", "POST", "/sweep?lengths=6", octet, string(make([]byte, 8*1001)), 422, "close", -1},
		{"too many bars in JSON", "POST", "/sweep?lengths=6", jsonType, `{"close":[` + strings.Repeat("1,", 1000) + `1]}`, 422, "close", -1},
		{"too many combos", "POST", "/sweep", jsonType, `{"close":[1],"lengths":[` + strings.Repeat("6,", 50) + `6]}`, 422, "lengths", -1},
		{"too many combos in the query", "POST", "/sweep?lengths=6:200:51", octet, string(octets(1)), 422, "lengths", 0},
		{"a range of 2^62 lengths", "POST", "/sweep?lengths=6:200:4611686018427387904", octet, string(octets(1)), 422, "lengths", 0},
		{"too much work", "POST", "/sweep?lengths=6&dataset=gbm42", "", "", 422, "", -1},
		{"a body over the limit", "POST", "/sweep?lengths=6", octet, strings.Repeat("x", 100<<10+1), 413, "", -1},
		{"an Arrow file", "POST", "/sweep?lengths=6", "application/vnd.apache.arrow.stream", "ARROW1\x00\x00" + strings.Repeat("x", 100), 415, "", -1},
		{"an Arrow stream that is cut", "POST", "/sweep?lengths=6", "application/vnd.apache.arrow.stream", string(encode(t, encoding.Arrow, &encoding.Request{Close: []float64{1, 2}})[:100]), 400, "", -1},
		{"several content encodings", "POST", "/sweep?lengths=6", octet, "x", 415, "", -1},
		{"an unknown content encoding", "POST", "/sweep?lengths=6", octet, "x", 415, "", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			headers := []string{}
			if test.contentType != "" {
				headers = append(headers, "Content-Type", test.contentType)
			}
			if strings.HasPrefix(test.name, "several") {
				headers = append(headers, "Content-Encoding", "gzip", "Content-Encoding", "zstd")
			}
			if strings.Contains(test.name, "unknown content encoding") {
				headers = append(headers, "Content-Encoding", "br")
			}
			r := ask(t, test.method, s.url+test.path, []byte(test.body), headers...)
			p := wantProblem(t, r, test.status, test.field, test.index)
			switch test.status {
			case 405:
				if r.header.Get("Allow") == "" {
					t.Error("there is no Allow")
				}
			case 415:
				if r.header.Get("Accept-Post") == "" && r.header.Get("Accept-Encoding") == "" {
					t.Error("nothing says what is supported")
				}
			}
			if strings.Contains(test.name, "too m") && !strings.Contains(p.Detail, "limit") {
				t.Errorf("the limit is not named: %s", p.Detail)
			}
			stillServes(t, s)
		})
	}
}

func TestHeadOfASweepIsNotAllowed(t *testing.T) {
	s := start(t)
	if r := ask(t, "HEAD", s.url+"/sweep", nil); r.status != 405 || r.header.Get("Allow") != "POST" {
		t.Errorf("status %d, Allow %q", r.status, r.header.Get("Allow"))
	}
}

func TestThePriceAtFaultIsTheSameInEveryFormat(t *testing.T) {
	s := start(t)
	for name, bad := range map[string]float64{"NaN": math.NaN(), "Inf": math.Inf(1), "zero": 0, "negative": -1, "negative zero": math.Copysign(0, -1)} {
		for _, f := range formats {
			series := []float64{100, bad, 101, math.NaN()}
			if strings.HasPrefix(f.name, "json") {
				if bad-bad != 0 {
					continue // JSON can't say it
				}
				series[3] = 0
			}
			r := ask(t, "POST", s.url+"/sweep?lengths=6", encode(t, f.codec, &encoding.Request{Close: series}), "Content-Type", f.mediaType)
			t.Run(name+" in "+f.name, func(t *testing.T) { wantProblem(t, r, 422, "close", 1) })
		}
	}
	for mediaType, body := range map[string]string{
		"application/json":            `{"close":[100,null,101]}`,
		"application/json; codec=std": `{"close":[100,null,101]}`,
		"application/msgpack":         "\x81\xa5close\x93\x64\xc0\x65",
	} {
		for _, path := range []string{"/sweep?lengths=6", "/echo"} {
			r := ask(t, "POST", s.url+path, []byte(body), "Content-Type", mediaType)
			t.Run("null in "+mediaType+path, func(t *testing.T) { wantProblem(t, r, 422, "close", 1) })
		}
	}
	// A zero before a null is the first fault, whatever the decoder sees first.
	r := ask(t, "POST", s.url+"/sweep?lengths=6", []byte(`{"close":[100,0,null]}`), "Content-Type", "application/json")
	wantProblem(t, r, 422, "close", 1)
}

func TestWhatJSONCanNotSayIsRefusedBeforeAnythingIsSent(t *testing.T) {
	s := start(t)
	for _, accept := range []string{"application/json", "application/json;codec=std"} {
		wantProblem(t, ask(t, "POST", s.url+"/echo", octets(1, math.NaN(), math.Inf(1)), "Accept", accept), 422, "close", 1)
		// Profits beyond float64: from 1e-300 up to 1e300.
		zigzag := make([]float64, 64)
		for i := range zigzag {
			zigzag[i] = []float64{1e-300, 1e300}[i%2]
		}
		r := ask(t, "POST", s.url+"/sweep?lengths=2", octets(zigzag...), "Accept", accept)
		wantProblem(t, r, 422, "pnl", 0)
		if r := ask(t, "POST", s.url+"/sweep?lengths=2", octets(zigzag...)); r.status != 200 {
			t.Errorf("octets can say it, but: %d %s", r.status, r.body)
		}
	}
}

func TestTheAnswersFormatIsWhatTheClientAccepts(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		accept, want string
	}{
		{"", "application/octet-stream"},
		{"*/*", "application/octet-stream"},
		{"application/json;q=0.1, application/msgpack", "application/vnd.msgpack"},
		{"application/json", "application/json"},
		{"application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"},
	} {
		headers := []string{}
		if test.accept != "" {
			headers = []string{"Accept", test.accept}
		}
		r := ask(t, "POST", s.url+"/echo", octets(1, 2), headers...)
		if got := r.header.Get("Content-Type"); r.status != 200 || got != test.want || r.header.Get("Vary") != "Accept" {
			t.Errorf("Accept %q: %d %s, Vary %s", test.accept, r.status, got, r.header.Get("Vary"))
		}
	}
	r := ask(t, "POST", s.url+"/echo", octets(1), "Accept", "application/json;q=0, */*")
	if r.status != 200 || r.header.Get("Content-Type") == "application/json" {
		t.Errorf("JSON was excluded, and got %s", r.header.Get("Content-Type"))
	}
	refused := ask(t, "POST", s.url+"/echo", octets(1), "Accept", "application/json2")
	if wantProblem(t, refused, 406, "", -1); !strings.Contains(refused.header.Get("Accept-Post"), "application/json") {
		t.Errorf("the supported types are not listed: %v", refused.header)
	}
}

func gzipped(t testing.TB, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstded(t testing.TB, body []byte, options ...zstd.EOption) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(body, nil)
}

func TestRequestsMayBeCompressed(t *testing.T) {
	s := start(t)
	for _, f := range formats {
		body := encode(t, f.codec, &encoding.Request{Close: []float64{100, 101, 102}, Params: []kernel.Params{kernel.Expand(2)}})
		plain := ask(t, "POST", s.url+"/sweep", body, "Content-Type", f.mediaType)
		for coding, packed := range map[string][]byte{"gzip": gzipped(t, body), "zstd": zstded(t, body), "GZIP": gzipped(t, body), "identity": body} {
			r := ask(t, "POST", s.url+"/sweep", packed, "Content-Type", f.mediaType, "Content-Encoding", coding)
			if r.status != 200 || string(r.body) != string(plain.body) {
				t.Errorf("%s, %s: %d %q, not %q", f.name, coding, r.status, r.body, plain.body)
			}
			if decompress := strings.Contains(r.header.Get("Server-Timing"), "decompress;"); decompress != (coding != "identity") {
				t.Errorf("%s: Server-Timing %s", coding, r.header.Get("Server-Timing"))
			}
		}
	}
}

func TestCompressedBodiesAreBoundedAfterExpansion(t *testing.T) {
	s := start(t, "--body-max", "1MiB")
	bomb := make([]byte, 64<<20)
	for coding, packed := range map[string][]byte{"gzip": gzipped(t, bomb), "zstd": zstded(t, bomb)} {
		if len(packed) > 1<<20 {
			t.Fatalf("the bomb is not small: %d bytes", len(packed))
		}
		wantProblem(t, ask(t, "POST", s.url+"/echo", packed, "Content-Encoding", coding), 413, "", -1)
		stillServes(t, s)
	}
	wide := zstded(t, bomb[:900<<10], zstd.WithWindowSize(512<<20), zstd.WithSingleSegment(false))
	wide[5] = 0xe8 // the window descriptor of a frame without content size: 512 MiB and more
	if p := wantProblem(t, ask(t, "POST", s.url+"/echo", wide, "Content-Encoding", "zstd"), 415, "", -1); !strings.Contains(p.Detail, "window") {
		t.Errorf("%s", p.Detail)
	}
	stillServes(t, s)
}

func TestCompressedBodiesThatAreCutOrDamagedAreMalformed(t *testing.T) {
	s := start(t)
	body := octets(gbm42.Close()[:1000]...)
	for coding, packed := range map[string][]byte{"gzip": gzipped(t, body), "zstd": zstded(t, body)} {
		for name, bad := range map[string][]byte{
			"cut":          packed[:len(packed)/2],
			"cut by one":   packed[:len(packed)-1],
			"nothing":      nil,
			"not packed":   body,
			"with garbage": append(append([]byte{}, packed...), "garbage"...),
			"flipped":      append(append([]byte{}, packed[:len(packed)-3]...), packed[len(packed)-3]^0xff, packed[len(packed)-2], packed[len(packed)-1]),
		} {
			r := ask(t, "POST", s.url+"/echo", bad, "Content-Encoding", coding, "Content-Type", "application/octet-stream")
			t.Run(coding+" "+name, func(t *testing.T) { wantProblem(t, r, 400, "", -1) })
		}
	}
	stillServes(t, s)
}

func TestAnswersAreCompressedOnlyIfBothSidesWant(t *testing.T) {
	body := []byte(`{"close":[` + strings.Repeat("100.25,", 1000) + `1]}`)
	send := func(s *server, answer, accept string) reply {
		return ask(t, "POST", s.url+"/echo", body, "Content-Type", "application/json", "Accept", answer, "Accept-Encoding", accept)
	}
	off, text, all := start(t), start(t, "--compress", "text"), start(t, "--compress", "all")
	for _, test := range []struct {
		s                    *server
		name, answer, accept string
		want                 string
	}{
		{off, "off", "application/json", "gzip, zstd", ""},
		{text, "text", "application/json", "gzip", "gzip"},
		{text, "text", "application/json", "gzip, deflate, br, zstd", "zstd"},
		{text, "text", "application/json", "gzip;q=0.5, zstd;q=0.4", "gzip"},
		{text, "text", "application/json", "gzip;q=0", ""},
		{text, "text", "application/json", "*", "zstd"},
		{text, "text", "application/json", "br", ""},
		{text, "text", "application/json", "gzip;q=0.5, identity", ""},
		{text, "text", "application/json", "gzip, identity;q=0.5", "gzip"},
		{text, "text", "application/json", "gzip, identity", "gzip"},
		{text, "text", "application/octet-stream", "gzip", ""},
		{all, "all", "application/octet-stream", "gzip", "gzip"},
	} {
		r := send(test.s, test.answer, test.accept)
		if got := r.header.Get("Content-Encoding"); r.status != 200 || got != test.want {
			t.Errorf("--compress %s, Accept %s, Accept-Encoding %s: %d, %q", test.name, test.answer, test.accept, r.status, got)
			continue
		}
		plain := send(off, test.answer, "").body
		var in io.Reader = bytes.NewReader(r.body)
		var err error
		switch test.want {
		case "gzip":
			in, err = gzip.NewReader(in)
		case "zstd":
			in, err = zstd.NewReader(in)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes came, %d were sent: %v", len(got), len(plain), err)
		}
		if (test.want != "") != strings.Contains(r.header.Get("Server-Timing"), "compress;") {
			t.Errorf("Server-Timing %s", r.header.Get("Server-Timing"))
		}
	}
}

// dial opens a connection that ends with the test.
func dial(t testing.TB, url string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// exchange sends raw bytes on a connection of its own, and reads one answer.
func exchange(t testing.TB, s *server, request string) (*http.Response, []byte) {
	t.Helper()
	c := dial(t, s.url)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body
}

func TestABodyThatIsDeclaredTooLongIsRefusedUnread(t *testing.T) {
	s := start(t)
	r, body := exchange(t, s, "POST /sweep HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 1099511627776\r\n\r\n")
	wantProblem(t, reply{r.StatusCode, r.Header, body}, 413, "", -1)
	stillServes(t, s)
}

func TestExpectContinueIsNotAnsweredBeforeARefusal(t *testing.T) {
	s := start(t)
	for _, test := range []struct {
		header string
		status int
	}{
		{"Content-Type: text/plain\r\nContent-Length: 8\r\n", 415},
		{"Content-Type: application/octet-stream\r\nContent-Length: 99999999999\r\n", 413},
		{"Content-Type: application/octet-stream\r\nAccept: text/html\r\nContent-Length: 8\r\n", 406},
	} {
		// ReadResponse would return the 100 if there were one.
		r, body := exchange(t, s, "POST /sweep?lengths=6 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+test.header+"\r\n")
		wantProblem(t, reply{r.StatusCode, r.Header, body}, test.status, "", -1)
	}
	r, _ := exchange(t, s, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n")
	if r.StatusCode != http.StatusContinue {
		t.Errorf("a good request got %d, not 100", r.StatusCode)
	}
}

func TestAChunkedBodyIsReadAndBounded(t *testing.T) {
	s := start(t, "--body-max", "1KiB")
	chunk := func(b []byte) string { return fmt.Sprintf("%x\r\n%s\r\n", len(b), b) }
	head := "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
	sent := octets(1, 2, 3)
	if r, body := exchange(t, s, head+chunk(sent[:5])+chunk(sent[5:])+"0\r\n\r\n"); r.StatusCode != 200 || !bytes.Equal(body, sent) {
		t.Errorf("%d %x", r.StatusCode, body)
	}
	r, body := exchange(t, s, head+chunk(make([]byte, 600))+chunk(make([]byte, 600))+"0\r\n\r\n")
	wantProblem(t, reply{r.StatusCode, r.Header, body}, 413, "", -1)
	r, body = exchange(t, s, head+"zz\r\n")
	wantProblem(t, reply{r.StatusCode, r.Header, body}, 400, "", -1)
	stillServes(t, s)
}

func TestABodyThatEndsEarlyIsMalformed(t *testing.T) {
	s := start(t)
	c := dial(t, s.url)
	if _, err := io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 800\r\n\r\n12345678"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	if p := wantProblem(t, reply{r.StatusCode, r.Header, body}, 400, "", -1); !strings.Contains(p.Detail, "8 of 800") {
		t.Errorf("%s", p.Detail)
	}
}

// occupy starts the longest sweep, and returns once it computes. hangUp ends it,
// and returns when the client has gone.
func occupy(t *testing.T, s *server) (hangUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	slow, err := http.NewRequestWithContext(ctx, "POST", s.url+longestSweep, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if r, err := http.DefaultClient.Do(slow); err == nil {
			_ = r.Body.Close()
		}
	}()
	for metric(t, s, "texttax_compute_slots_busy") == 0 {
		select {
		case <-gone:
			t.Fatal("the sweep was over before it was seen to begin")
		case <-time.After(time.Millisecond):
		}
	}
	return func() {
		cancel()
		<-gone
	}
}

func TestAShortSweepGetsThroughBesideALongOne(t *testing.T) {
	s := start(t, "--slots", "1")
	hangUp := occupy(t, s)
	for range 5 {
		if r := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil); r.status != 200 || !strings.HasPrefix(string(r.body), `{"pnl":[-5165.584357716994]`) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if n := metric(t, s, "texttax_requests_in_flight"); n != 2 { // and the one that asks
		t.Errorf("%v requests are in flight: the long sweep is over", n)
	}
	hangUp()
	settle(t, s)
	if n := metric(t, s, "texttax_compute_slots_busy"); n != 0 {
		t.Errorf("%v slots are busy", n)
	}
}

func TestAFullQueueIsRefusedWithARetryAfter(t *testing.T) {
	s := start(t, "--queue-max", "0", "--slots", "1")
	hangUp := occupy(t, s)
	r := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil)
	if wantProblem(t, r, 503, "", -1); r.header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	// The slow client goes away, and its slot comes back.
	hangUp()
	settle(t, s)
	if n := metric(t, s, "texttax_compute_slots_busy"); n != 0 {
		t.Errorf("%v slots are busy", n)
	}
	if n := metric(t, s, `texttax_rejected_total{reason="queue-full"}`); n != 1 {
		t.Errorf("%v rejections are counted", n)
	}
	if n := metric(t, s, `texttax_requests_total{code="499",endpoint="sweep"}`); n != 1 {
		t.Errorf("%v clients are counted as gone", n)
	}
	if strings.Contains(s.log.String(), "context canceled") {
		t.Errorf("a client that goes away is no failure of the server's:\n%s", s.log)
	}
	stillServes(t, s)
}

func TestSeveralContentTypesAreRefused(t *testing.T) {
	s := start(t)
	r := ask(t, "POST", s.url+"/echo", octets(1), "Content-Type", "application/octet-stream", "Content-Type", "application/json")
	wantProblem(t, r, 415, "", -1)
	if r := ask(t, "POST", s.url+"/echo", gzipped(t, octets(1)), "Content-Encoding", "identity", "Content-Encoding", "gzip"); !bytes.Equal(r.body, octets(1)) {
		t.Errorf("identity and gzip: %d %x", r.status, r.body)
	}
}

func TestAnIDIsDecodedOnce(t *testing.T) {
	s := start(t)
	wantProblem(t, ask(t, "GET", s.url+"/datasets/%2567bm42", nil), 404, "dataset", -1)
	wantProblem(t, ask(t, "GET", s.url+"/datasets/a%25b", nil), 404, "dataset", -1)
}

func TestABodyThatWasNeverInvitedIsNotWaitedFor(t *testing.T) {
	s := start(t)
	r, _ := exchange(t, s, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\n")
	if r.StatusCode != 415 || !r.Close {
		t.Errorf("%d, and the connection stays open", r.StatusCode)
	}
}

func TestARefusalDoesNotWaitForABodyThatNeverComes(t *testing.T) {
	s := start(t)
	// Nothing would end the wait: exchange keeps the connection open, and has all
	// the patience of go test.
	r, body := exchange(t, s, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\nabc")
	wantProblem(t, reply{r.StatusCode, r.Header, body}, 415, "", -1)
}

func TestAConnectionIsUsedAgainAfterARefusal(t *testing.T) {
	s := start(t)
	c := dial(t, s.url)
	in := bufio.NewReader(c)
	for i := range 5 {
		for request, status := range map[string]int{
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc": 415,
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":                             400,
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n12345678":                        200,
			"GET /sweep HTTP/1.1\r\nHost: x\r\n\r\n":                                                     405,
		} {
			if i == 2 {
				time.Sleep(300 * time.Millisecond) // longer than a refusal waits for a body
			}
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(in, nil)
			if err != nil || r.StatusCode != status {
				t.Fatalf("%q: %v, %v", request, r, err)
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRefusalsBeforeTheRouteCountForTheirEndpoint(t *testing.T) {
	s := start(t, "--body-max", "1000")
	ask(t, "POST", s.url+"/echo", make([]byte, 1001))
	ask(t, "GET", s.url+"/sweep", nil)
	settle(t, s)
	for series, want := range map[string]float64{
		`texttax_requests_total{code="413",endpoint="echo"}`:  1,
		`texttax_requests_total{code="405",endpoint="sweep"}`: 1,
	} {
		if got := metric(t, s, series); got != want {
			t.Errorf("%s is %v", series, got)
		}
	}
}

func TestRequestIDsAreTakenIfValidAndElseMade(t *testing.T) {
	s := start(t)
	if got := ask(t, "GET", s.url+"/healthz", nil, "X-Request-Id", "abc-123_x.y").header.Get("X-Request-Id"); got != "abc-123_x.y" {
		t.Errorf("a valid id came back as %q", got)
	}
	seen := map[string]bool{}
	for _, bad := range []string{"", "a b", "a\tb", "ü", "a:b", "//a", `"`, "<script>", strings.Repeat("x", 129)} {
		got := ask(t, "GET", s.url+"/healthz", nil, "X-Request-Id", bad).header.Get("X-Request-Id")
		if got == bad || len(got) < 16 || seen[got] {
			t.Errorf("%q came back as %q", bad, got)
		}
		seen[got] = true
	}
}

func TestTheLogHasOneLineForEachRequest(t *testing.T) {
	s := start(t, "--log-format", "json")
	ask(t, "GET", s.url+"/healthz", nil)
	ask(t, "GET", s.url+"/metrics", nil)
	ask(t, "POST", s.url+"/echo", octets(1), "X-Request-Id", "mine")
	ask(t, "GET", s.url+"/evil%0Alevel=ERROR%22%7D", nil, "X-Request-Id", "yours")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	var requests []string
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, `"msg":"request"`) {
			requests = append(requests, line)
		}
	}
	if len(requests) != 2 {
		t.Fatalf("%d lines:\n%s", len(requests), s.log)
	}
	// In no order: a request may be logged after the answer to the next one.
	for _, want := range []string{`"id":"mine","method":"POST","path":"/echo","status":200,"bytes_in":8,"bytes_out":8`, `"id":"yours","method":"GET","path":"/evil\nlevel=ERROR\"}","status":404`} {
		if !slices.ContainsFunc(requests, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("%q\nlacks %s", requests, want)
		}
	}
}

func TestASlowBodyIsCutOff(t *testing.T) {
	s := start(t, "--transfer-grace", "200ms", "--transfer-rate", "1MiB")
	for name, request := range map[string]string{
		"never begins": "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 800\r\n\r\n",
		"stops":        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 800\r\n\r\n12345678",
		"chunked":      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n",
		"compressed":   "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 800\r\n\r\n\x1f\x8b",
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := exchange(t, s, request)
			p := wantProblem(t, reply{answer.StatusCode, answer.Header, body}, 408, "", -1)
			if !answer.Close || !strings.Contains(p.Detail, "beyond the first 200ms") {
				t.Errorf("connection closes: %t; %s", answer.Close, p.Detail)
			}
		})
	}
	t.Run("a byte at a time", func(t *testing.T) {
		c := dial(t, s.url)
		if _, err := io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		sent := 0
		go func() {
			for ; ; sent++ {
				if _, err := c.Write([]byte{1}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		wantProblem(t, reply{answer.StatusCode, answer.Header, body}, 408, "", -1)
	})
	t.Run("a fast start and then nothing", func(t *testing.T) {
		s := start(t, "--transfer-grace", "200ms", "--transfer-rate", "1B")
		answer, body := exchange(t, s, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 80000\r\n\r\n"+strings.Repeat("x", 8000))
		wantProblem(t, reply{answer.StatusCode, answer.Header, body}, 408, "", -1)
	})
	// A connection is as good as new after a body that came in time.
	c := dial(t, s.url)
	in := bufio.NewReader(c)
	for range 3 {
		if _, err := c.Write(append([]byte("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n"), octets(1)...)); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(answer, err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		time.Sleep(300 * time.Millisecond) // beyond the grace
	}
	stillServes(t, s)
}

// A sweep that lasts longer than the time a body may take is not cut off.
func TestTheBodysDeadlineIsNotTheSweeps(t *testing.T) {
	s := start(t, "--transfer-grace", "50ms", "--transfer-rate", "1MiB")
	r := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=4000", octets()) // by the reference
	if r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if took := timings(t, r.header.Get("Server-Timing"))["compute"]; took < 0.05 {
		t.Logf("the sweep took only %v s, so that nothing was seen", took)
	}
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	s := start(t, "--transfer-grace", "2s", "--transfer-rate", "1GiB")
	c := dial(t, s.url)
	body := make([]byte, 32<<20) // more than socket buffers hold
	if _, err := c.Write(append(fmt.Appendf(nil, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(body)), body...)); err != nil {
		t.Fatal(err)
	}
	settle(t, s) // or it would be in flight for ever
	if n := metric(t, s, `texttax_requests_total{code="499",endpoint="echo"}`); n != 1 {
		t.Errorf("%v clients are counted as gone", n)
	}
	stillServes(t, s)
}

func TestADeadlineEndsASweep(t *testing.T) {
	s := start(t, "--request-timeout", "100ms")
	r := ask(t, "POST", s.url+longestSweep, nil)
	if p := wantProblem(t, r, 503, "", -1); !strings.HasSuffix(p.Type, "deadline-passed") || r.header.Get("Retry-After") == "" {
		t.Errorf("%s", r.body)
	}
	settle(t, s)
	if n := metric(t, s, "texttax_compute_slots_busy"); n != 0 {
		t.Errorf("%v slots are busy", n)
	}

	// However short a client's own is, it never lifts the server's.
	r = ask(t, "POST", s.url+longestSweep, nil, "X-Request-Timeout", "1e-12")
	wantProblem(t, r, 503, "", -1)

	patient := start(t)
	r = ask(t, "POST", patient.url+longestSweep, nil, "X-Request-Timeout", "0.1")
	wantProblem(t, r, 503, "", -1)
	for _, bad := range []string{"", "0", "-1", "NaN", "soon", "1, 2"} {
		r := ask(t, "POST", patient.url+"/sweep?dataset=gbm42&lengths=6", nil, "X-Request-Timeout", bad)
		if p := wantProblem(t, r, 400, "", -1); !strings.Contains(p.Detail, "X-Request-Timeout") {
			t.Errorf("%q: %s", bad, p.Detail)
		}
	}
	for _, good := range []string{"60", "1e9", "1e300", "0.5e2"} {
		if r := ask(t, "POST", patient.url+"/sweep?dataset=gbm42&lengths=6", nil, "X-Request-Timeout", good); r.status != 200 {
			t.Errorf("%q: %d %s", good, r.status, r.body)
		}
	}
}

// The deadline of a sweep counts while its body comes, and while it waits for
// memory.
func TestADeadlineEndsASweepBeforeItsBodyHasCome(t *testing.T) {
	for _, args := range [][]string{nil, {"--transfer-grace", "0"}, {"--transfer-grace", "1h"}} {
		s := start(t, append(args, "--body-max", "4MiB", "--memory-max", "32MiB", "--queue-time", "1h")...)
		const head = "POST /sweep?lengths=6 HTTP/1.1\r\nHost: x\r\nX-Request-Timeout: 0.1\r\nContent-Length: 4000000\r\n\r\n"
		r, body := exchange(t, s, head+"12345678")
		if r.StatusCode != 503 || !strings.Contains(string(body), "problem:deadline-passed") {
			t.Errorf("%q: half a body: %d %s", args, r.StatusCode, body)
		}
		settle(t, s)

		other := dial(t, s.url)
		if _, err := io.WriteString(other, strings.Replace(head, "X-Request-Timeout: 0.1\r\n", "", 1)); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "memory to be short", func() bool { return metric(t, s, "texttax_body_memory_reserved_bytes") > 30e6 })
		late := ask(t, "POST", s.url+"/sweep?lengths=6", make([]byte, 1<<20), "X-Request-Timeout", "0.1")
		if p := wantProblem(t, late, 503, "", -1); !strings.HasSuffix(p.Type, "deadline-passed") {
			t.Errorf("%q: without memory: %s", args, late.body)
		}
		_ = other.Close()
		settle(t, s)
		stillServes(t, s)
	}
}

func TestADeadlineInATrailerIsAnsweredToo(t *testing.T) {
	s := start(t, "--transfer-grace", "200ms")
	const chunks = " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n%s\r\n8\r\n12345678\r\n0\r\n"
	r, body := exchange(t, s, "POST /echo"+fmt.Sprintf(chunks, ""))
	wantProblem(t, reply{r.StatusCode, r.Header, body}, 408, "", -1)
	r, body = exchange(t, s, "POST /sweep?lengths=6"+fmt.Sprintf(chunks, "X-Request-Timeout: 0.1\r\n"))
	if p := wantProblem(t, reply{r.StatusCode, r.Header, body}, 503, "", -1); !strings.HasSuffix(p.Type, "deadline-passed") {
		t.Errorf("%s", body)
	}
}

// A body that keeps its pace is cut by the deadline alone, however close that is
// to what the pace would have allowed.
func TestADeadlineIsNotTakenForASlowBody(t *testing.T) {
	s := start(t, "--transfer-grace", "400ms", "--transfer-rate", "1")
	c := dial(t, s.url)
	if _, err := io.WriteString(c, "POST /sweep?lengths=6 HTTP/1.1\r\nHost: x\r\nX-Request-Timeout: 0.45\r\nContent-Length: 4000000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, err := io.WriteString(c, "12345678"); err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 503 || !strings.Contains(string(body), "problem:deadline-passed") {
		t.Errorf("%d %s, %v", r.StatusCode, body, err)
	}
	_ = c.Close()
}

// onesOfAByte is a series of 900,000 ones in MessagePack, each an integer of a byte.
func onesOfAByte() []byte {
	return append([]byte{0x81, 0xa5, 'c', 'l', 'o', 's', 'e', 0xdd, 0, 0x0d, 0xbb, 0xa0}, bytes.Repeat([]byte{1}, 900_000)...)
}

// A few bytes can stand for much: ranges of lengths, integers of a byte, and what
// is compressed. All of it is in the budget before it is made.
func TestMemoryIsForWhatBodiesStandFor(t *testing.T) {
	s := start(t, "--body-max", "1MiB", "--memory-max", "8MiB")
	zeros := array.NewFloat64Builder(memory.DefaultAllocator)
	zeros.AppendValues(make([]float64, 1_100_000), nil)
	column := zeros.NewArray()
	schema := arrow.NewSchema([]arrow.Field{{Name: "close", Type: arrow.PrimitiveTypes.Float64}}, nil)
	packed := arrowStream(t, array.NewRecord(schema, []arrow.Array{column}, int64(column.Len())), ipc.WithZstd())
	for _, of := range []struct {
		path, mediaType string
		body            []byte
	}{
		{"/sweep?lengths=6:200:100000", "application/octet-stream", octets(1)},
		{"/echo", "application/vnd.msgpack", onesOfAByte()},
		{"/echo", "application/vnd.apache.arrow.stream", packed},
	} {
		r := ask(t, "POST", s.url+of.path, of.body, "Content-Type", of.mediaType)
		if p := wantProblem(t, r, 422, "", -1); !strings.Contains(p.Detail, "memory") {
			t.Errorf("%s %s: %s", of.path, of.mediaType, r.body)
		}
	}
	settle(t, s)
	if n := metric(t, s, "texttax_body_memory_reserved_bytes"); n != 0 {
		t.Errorf("%v bytes are reserved in the end", n)
	}
	stillServes(t, s)
}

// Bodies in flight have a budget: one that does not fit waits for another to be
// done, and nothing is lost of it.
func TestBodiesWaitForMemory(t *testing.T) {
	const size = 3 << 20
	s := start(t, "--body-max", "4MiB", "--memory-max", "32MiB") // one such body, not two
	first := dial(t, s.url)
	header := fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", size)
	if _, err := io.WriteString(first, header+"12345678"); err != nil {
		t.Fatal(err)
	}
	for metric(t, s, "texttax_body_memory_reserved_bytes") == 0 {
		time.Sleep(time.Millisecond)
	}
	answered := make(chan reply)
	go func() {
		answered <- ask(t, "POST", s.url+"/echo", make([]byte, size))
	}()
	for metric(t, s, "texttax_requests_in_flight") < 3 { // with the one that asks
		time.Sleep(time.Millisecond)
	}
	_ = first.Close()
	if r := <-answered; r.status != 200 || len(r.body) != size {
		t.Errorf("%d, %d bytes", r.status, len(r.body))
	}
	settle(t, s)
	if n := metric(t, s, "texttax_body_memory_reserved_bytes"); n != 0 {
		t.Errorf("%v bytes are reserved in the end", n)
	}
}
