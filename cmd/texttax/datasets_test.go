package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// prices makes a series of n bars that differs from that of any other seed.
func prices(seed, n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = 100 + float64(seed) + math.Sin(float64(i*(seed%7+1)))
	}
	return s
}

// tagOf is the ETag that a series must have.
func tagOf(series []float64) string {
	sum := sha256.Sum256(octets(series...))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// wantBare checks an answer that has no body.
func wantBare(t testing.TB, r reply, status int, tag string) {
	t.Helper()
	if r.status != status || len(r.body) > 0 || r.header.Get("Etag") != tag || r.header.Get("Content-Type") != "" {
		t.Errorf("status %d, not %d: %q %v", r.status, status, r.body, r.header)
	}
	if r.header.Get("Server-Timing") == "" || r.header.Get("X-Request-Id") == "" {
		t.Errorf("%v", r.header)
	}
}

// holds checks that a dataset is just the series, in octets.
func holds(t testing.TB, url, id string, series []float64) {
	t.Helper()
	r := ask(t, "GET", url+"/datasets/"+id, nil, "Accept", "application/octet-stream")
	if r.status != 200 || !bytes.Equal(r.body, octets(series...)) || r.header.Get("Etag") != tagOf(series) {
		t.Errorf("%s: status %d, %d bytes, ETag %s", id, r.status, len(r.body), r.header.Get("Etag"))
	}
}

func TestADatasetIsStoredAndReadInEveryFormat(t *testing.T) {
	s := start(t)
	series := prices(1, 1000)
	tag := tagOf(series)
	want := ask(t, "POST", s.url+"/sweep?lengths=2,6", octets(series...), "Accept", "application/octet-stream").body
	send := func(id string, body []byte, headers ...string) {
		t.Helper()
		url := s.url + "/datasets/" + id
		created := ask(t, "PUT", url, body, headers...)
		if wantBare(t, created, 201, tag); created.header.Get("Location") != "/datasets/"+id || created.header.Get("Content-Length") != "0" {
			t.Errorf("%v", created.header)
		}
		again := ask(t, "PUT", url, body, headers...)
		if wantBare(t, again, 204, tag); again.header.Get("Location") != "" {
			t.Errorf("%v", again.header)
		}
		for _, f := range formats {
			r := ask(t, "GET", url, nil, "Accept", f.mediaType)
			var got encoding.Request
			if err := f.codec.Decode(r.body, &got); r.status != 200 || err != nil || !slices.Equal(got.Close, series) || r.header.Get("Etag") != tag {
				t.Errorf("%s as %s: status %d, %v, %d bars, %v", id, f.name, r.status, err, len(got.Close), r.header)
			}
			head := ask(t, "HEAD", url, nil, "Accept", f.mediaType)
			for _, name := range []string{"Content-Type", "Content-Length", "Etag", "Vary"} {
				if head.status != 200 || head.header.Get(name) != r.header.Get(name) || len(head.body) > 0 {
					t.Errorf("HEAD of %s as %s: status %d, %s is %q and not %q", id, f.name, head.status, name, head.header.Get(name), r.header.Get(name))
				}
			}
		}
		swept := ask(t, "POST", s.url+"/sweep?lengths=2,6&dataset="+id, nil, "Accept", "application/octet-stream")
		if swept.status != 200 || !bytes.Equal(swept.body, want) {
			t.Errorf("the sweep of %s: status %d, %x", id, swept.status, swept.body)
		}
		wantBare(t, ask(t, "DELETE", url, nil), 204, "")
		wantProblem(t, ask(t, "DELETE", url, nil), 404, "dataset", -1)
		wantProblem(t, ask(t, "GET", url, nil), 404, "dataset", -1)
		wantProblem(t, ask(t, "POST", s.url+"/sweep?lengths=2,6&dataset="+id, nil), 404, "dataset", -1)
	}
	for _, f := range formats {
		body := encode(t, f.codec, &encoding.Request{Close: series})
		send("plain."+f.name, body, "Content-Type", f.mediaType)
		send("gzip."+f.name, gzipped(t, body), "Content-Type", f.mediaType, "Content-Encoding", "gzip")
		send("zstd."+f.name, zstded(t, body), "Content-Type", f.mediaType, "Content-Encoding", "zstd")
		whole := encode(t, f.codec, &encoding.Request{Close: series, Params: []kernel.Params{{1, 2, 3, 4, 5, 6}}, Op: encoding.OpEcho})
		send("with-params."+f.name, whole, "Content-Type", f.mediaType)
	}
	send("no-type", octets(series...))
	send("accept-is-for-answers", octets(series...), "Accept", "text/html")
	send(strings.Repeat("Z", 64), octets(series...))
	send("...", octets(series...))
}

func TestTheListHasAllDatasets(t *testing.T) {
	s := start(t)
	for i, id := range []string{"z", "A", "a"} {
		wantBare(t, ask(t, "PUT", s.url+"/datasets/"+id, octets(prices(i, 10+i)...)), 201, tagOf(prices(i, 10+i)))
	}
	var list []struct {
		ID, ETag    string
		Bars, Bytes int
		Created     *time.Time
	}
	r := ask(t, "GET", s.url+"/datasets", nil)
	if err := json.Unmarshal(r.body, &list); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range list {
		ids = append(ids, d.ID)
		if d.Bytes != 8*d.Bars || (d.ID == "gbm42") != (d.Created == nil) {
			t.Errorf("%+v", d)
		}
		if d.Created != nil && (time.Since(*d.Created) > time.Minute || time.Until(*d.Created) > time.Second) {
			t.Errorf("%s was made at %v", d.ID, d.Created)
		}
		if got := ask(t, "HEAD", s.url+"/datasets/"+d.ID, nil).header.Get("Etag"); got != d.ETag {
			t.Errorf("%s has the ETag %s, listed is %s", d.ID, got, d.ETag)
		}
	}
	if !slices.Equal(ids, []string{"A", "a", "gbm42", "z"}) {
		t.Errorf("%q", ids)
	}
	for series, want := range map[string]float64{
		"texttax_datasets":      4,
		"texttax_dataset_bytes": 1_200_000 + 8*33,
		`texttax_request_body_bytes_total{endpoint="datasets",format="octet"}`: 8 * 33,
		`texttax_requests_total{code="201",endpoint="datasets"}`:               3,
	} {
		if got := metric(t, s, series); got != want {
			t.Errorf("%s is %v, not %v", series, got, want)
		}
	}
}

func TestPreconditionsOfDatasets(t *testing.T) {
	s := start(t)
	old, next := prices(1, 10), prices(2, 20)
	is, other := tagOf(old), tagOf(next)
	const match, noneMatch = "If-Match", "If-None-Match"
	for _, test := range []struct {
		name         string
		method       string
		there        bool // whether there is a dataset, the old one
		header, tags string
		status       int
	}{
		{"create what is not there", "PUT", false, noneMatch, "*", 201},
		{"create what is there", "PUT", true, noneMatch, "*", 412},
		{"create unless it is this, and nothing is", "PUT", false, noneMatch, is, 201},
		{"replace unless it is this, and it is", "PUT", true, noneMatch, is, 412},
		{"replace unless it is this, weakly", "PUT", true, noneMatch, "W/" + is, 412},
		{"replace unless it is that", "PUT", true, noneMatch, other, 204},
		{"replace this", "PUT", true, match, is, 204},
		{"replace this or that", "PUT", true, match, other + " , ,\t" + is, 204},
		{"replace that", "PUT", true, match, other, 412},
		{"replace this by a weak tag", "PUT", true, match, "W/" + is, 412},
		{"replace this where nothing is", "PUT", false, match, is, 412},
		{"replace anything", "PUT", true, match, "*", 204},
		{"replace anything where nothing is", "PUT", false, match, "*", 412},
		{"an empty list", "PUT", true, match, "", 412},
		{"a tag without quotes", "PUT", true, match, strings.Trim(is, `"`), 400},
		{"a tag without quotes, none of which", "PUT", true, noneMatch, strings.Trim(is, `"`), 400},
		{"half a tag", "PUT", true, match, is[:20], 400},
		{"a star among tags", "PUT", true, match, is + ", *", 400},
		{"two tags without a comma", "PUT", true, match, is + is, 400},
		{"delete this", "DELETE", true, match, is, 204},
		{"delete that", "DELETE", true, match, other, 412},
		{"delete anything", "DELETE", true, match, "*", 204},
		{"delete unless it is this", "DELETE", true, noneMatch, is, 412},
		{"delete what is not there", "DELETE", false, match, "*", 404},
		{"delete by a bad tag", "DELETE", true, match, "x", 400},
		{"get what is known", "GET", true, noneMatch, is, 304},
		{"get what is known weakly", "GET", true, noneMatch, other + ", W/" + is, 304},
		{"get anything unknown", "GET", true, noneMatch, "*", 304},
		{"get what is not known", "GET", true, noneMatch, other, 200},
		{"get what is not there", "GET", false, noneMatch, is, 404},
		{"get this", "GET", true, match, is, 200},
		{"get that", "GET", true, match, other, 412},
		{"head of what is known", "HEAD", true, noneMatch, is, 304},
		{"head of what is not known", "HEAD", true, noneMatch, other, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := s.url + "/datasets/it"
			ask(t, "DELETE", url, nil)
			if test.there {
				ask(t, "PUT", url, octets(old...))
			}
			var body []byte
			if test.method == "PUT" {
				body = octets(next...)
			}
			r := ask(t, test.method, url, body, test.header, test.tags)
			switch test.status {
			case 412, 400:
				wantProblem(t, r, test.status, test.header, -1)
			case 404:
				wantProblem(t, r, 404, "dataset", -1)
			case 304:
				if wantBare(t, r, 304, is); r.header.Get("Vary") != "Accept" {
					t.Errorf("%v", r.header)
				}
			default:
				if r.status != test.status {
					t.Errorf("status %d, not %d: %s", r.status, test.status, r.body)
				}
			}
			switch {
			case test.method == "PUT" && r.status < 300:
				holds(t, s.url, "it", next)
			case test.there && (test.method != "DELETE" || r.status >= 300):
				holds(t, s.url, "it", old)
			default:
				wantProblem(t, ask(t, "GET", url, nil), 404, "dataset", -1)
			}
		})
	}
}

func TestAPreconditionThatFailsNeedsNoBody(t *testing.T) {
	s := start(t)
	for header, status := range map[string]int{"PUT /datasets/a HTTP/1.1\r\nIf-Match: *": 412, "PUT /datasets/gbm42 HTTP/1.1": 409, "PUT /datasets/.. HTTP/1.1": 422} {
		r, body := exchange(t, s, header+"\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 80\r\n\r\n")
		if r.StatusCode != status {
			t.Errorf("%s: %d %s", header, r.StatusCode, body)
		}
	}
}

func TestARefusedPUTChangesNothing(t *testing.T) {
	s := start(t, "--body-max", "10KiB", "--bars-max", "1000", "--datasets-max", "1600")
	const (
		jsonType = "application/json"
		octet    = "application/octet-stream"
	)
	kept := prices(1, 100)
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(kept...)), 201, tagOf(kept))
	frame := func(op encoding.Op, series ...float64) string {
		return string(encode(t, encoding.Octet, &encoding.Request{Close: series, Op: op}))
	}
	for _, test := range []struct {
		name, path, contentType, body string
		status                        int
		field                         string
		index                         int
	}{
		{"no body", "it", "", "", 422, "close", -1},
		{"an empty series", "it", octet, "", 422, "close", -1},
		{"an empty series in JSON", "it", jsonType, `{"close":[]}`, 422, "close", -1},
		{"an empty frame", "it", octet, frame(encoding.OpEcho), 422, "close", -1},
		{"no series", "it", jsonType, `{"lengths":[6]}`, 422, "close", -1},
		{"a dataset", "it", jsonType, `{"dataset":"gbm42"}`, 422, "dataset", -1},
		{"a frame of a sweep", "it", octet, frame(encoding.OpSweep, 1, 2), 422, "opcode", -1},
		{"a null", "it", jsonType, `{"close":[100,null]}`, 422, "close", 1},
		{"a zero before a null", "it", jsonType, `{"close":[100,0,null]}`, 422, "close", 1},
		{"NaN", "it", octet, string(octets(1, 2, math.NaN())), 422, "close", 2},
		{"an infinity", "it", octet, string(octets(math.Inf(1))), 422, "close", 0},
		{"a negative price", "it", octet, frame(encoding.OpEcho, 1, -1), 422, "close", 1},
		{"half a float", "it", octet, "1234", 400, "", -1},
		{"JSON that is cut", "it", jsonType, `{"close":[1,`, 400, "", -1},
		{"an unknown type", "it", "text/csv", "1,2", 415, "", -1},
		{"an Arrow file", "it", "application/vnd.apache.arrow.stream", "ARROW1\x00\x00" + strings.Repeat("x", 100), 415, "", -1},
		{"a query", "it?fee=1", octet, string(octets(1)), 400, "", -1},
		{"a body over the limit", "it", octet, string(make([]byte, 10<<10+8)), 413, "", -1},
		{"too many bars", "it", octet, string(octets(make([]float64, 1001)...)), 422, "close", -1},
		{"more than there is room for", "it", octet, string(octets(prices(2, 201)...)), 507, "", -1},
		{"one more than there is room for", "another", octet, string(octets(prices(2, 101)...)), 507, "", -1},
		{"the built-in dataset", "gbm42", octet, string(octets(1)), 409, "dataset", -1},
		{"an escaped slash", "a%2Fb", octet, string(octets(1)), 422, "dataset", -1},
		{"an escaped backslash", "a%5Cb", octet, string(octets(1)), 422, "dataset", -1},
		{"a way up", "..%2Fx", octet, string(octets(1)), 422, "dataset", -1},
		{"dots", "..", octet, string(octets(1)), 422, "dataset", -1},
		{"escaped dots", "%2e%2E", octet, string(octets(1)), 422, "dataset", -1},
		{"a NUL", "a%00", octet, string(octets(1)), 422, "dataset", -1},
		{"a space", "a%20b", octet, string(octets(1)), 422, "dataset", -1},
		{"a letter that is none of ASCII", "%C3%A4", octet, string(octets(1)), 422, "dataset", -1},
		{"an id that is escaped twice", "%2541", octet, string(octets(1)), 422, "dataset", -1},
		{"65 characters", strings.Repeat("a", 65), octet, string(octets(1)), 422, "dataset", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var headers []string
			if test.contentType != "" {
				headers = []string{"Content-Type", test.contentType}
			}
			r := ask(t, "PUT", s.url+"/datasets/"+test.path, []byte(test.body), headers...)
			wantProblem(t, r, test.status, test.field, test.index)
			if test.status == 415 && !strings.Contains(r.header.Get("Accept"), jsonType) {
				t.Errorf("the supported types are not listed: %v", r.header)
			}
			holds(t, s.url, "it", kept)
			if n := metric(t, s, "texttax_datasets"); n != 2 {
				t.Errorf("%v datasets", n)
			}
		})
	}
	wantProblem(t, ask(t, "PUT", s.url+"/datasets/it", octets(1), "Content-Range", "bytes 8-15/16"), 400, "Content-Range", -1)
	holds(t, s.url, "it", kept)
	// What no client sends of itself.
	for _, path := range []string{"/datasets/", "/datasets//", "/datasets/../x", "/datasets/a/b", "/datasets/../../etc/passwd", "/datasets/%"} {
		for _, method := range []string{"PUT", "GET", "DELETE"} {
			r, body := exchange(t, s, method+" "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 8\r\n\r\n12345678")
			if r.StatusCode != 404 && !(path == "/datasets/%" && r.StatusCode == 400) {
				t.Errorf("%s %s: %d %s", method, path, r.StatusCode, body)
			}
		}
	}
	wantProblem(t, ask(t, "DELETE", s.url+"/datasets/gbm42", nil), 409, "dataset", -1)
	wantProblem(t, ask(t, "DELETE", s.url+"/datasets/..%2Fit", nil), 404, "dataset", -1)
	wantProblem(t, ask(t, "DELETE", s.url+"/datasets/it?x=1", nil), 400, "", -1)
	if r := ask(t, "POST", s.url+"/datasets/it", octets(1)); r.status != 405 || r.header.Get("Allow") != "DELETE, GET, HEAD, PUT" {
		t.Errorf("POST: %d, Allow %q", r.status, r.header.Get("Allow"))
	}
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(prices(3, 200)...)), 204, tagOf(prices(3, 200)))
	wantProblem(t, ask(t, "PUT", s.url+"/datasets/b", octets(1)), 507, "", -1)
	wantBare(t, ask(t, "DELETE", s.url+"/datasets/it", nil), 204, "")
	wantBare(t, ask(t, "PUT", s.url+"/datasets/b", octets(1)), 201, tagOf([]float64{1}))
}

// leaveMidBody begins a PUT and goes away before its end.
func leaveMidBody(url, id string, body []byte) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = fmt.Fprintf(c, "PUT /datasets/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body[:len(body)/2])
	return err
}

func TestManyClientsStoreTheirOwnDatasetsWhileOthersLeave(t *testing.T) {
	for _, kind := range []string{"in memory", "on disk"} {
		t.Run(kind, func(t *testing.T) {
			args := []string{"--log-level", "error"}
			if kind == "on disk" {
				args = append(args, "--data-dir", t.TempDir())
			}
			s := start(t, args...)
			const clients, rounds = 64, 4
			last := func(c int) []float64 { return prices(c*100+rounds-1, 1+(c*37+rounds*101)%3000) }
			var wait sync.WaitGroup
			for c := range clients {
				wait.Go(func() {
					id := fmt.Sprint("client", c)
					for round := range rounds {
						f := formats[(c+round)%len(formats)]
						series := prices(c*100+round, 1+(c*37+(round+1)*101)%3000)
						body, err := f.codec.Append(nil, &encoding.Request{Close: series})
						if err != nil {
							t.Error(err)
							return
						}
						r, err := http.NewRequest("PUT", s.url+"/datasets/"+id, bytes.NewReader(body))
						if err != nil {
							t.Error(err)
							return
						}
						r.Header.Set("Content-Type", f.mediaType)
						answer, err := client.Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						_ = answer.Body.Close()
						want := 204
						if round == 0 {
							want = 201
						}
						if answer.StatusCode != want || answer.Header.Get("Etag") != tagOf(series) {
							t.Errorf("%s, round %d: status %d, not %d", id, round, answer.StatusCode, want)
						}
						if c%4 == 0 {
							if err := leaveMidBody(s.url, id, octets(prices(9999, 500)...)); err != nil {
								t.Error(err)
							}
							if err := leaveMidBody(s.url, id+".left", octets(prices(9999, 500)...)); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wait.Wait()
			for c := range clients {
				holds(t, s.url, fmt.Sprint("client", c), last(c))
			}
			if n := metric(t, s, "texttax_datasets"); n != clients+1 {
				t.Errorf("%v datasets", n)
			}
		})
	}
}

func TestReadersSeeOneWholeVersionWhileItIsReplacedAndDeleted(t *testing.T) {
	s := start(t, "--log-level", "error", "--data-dir", t.TempDir())
	const versions = 6
	swept, tags := map[string]string{}, map[string]string{}
	var bodies [versions][]byte
	for v := range versions {
		bodies[v] = octets(prices(v, 2000+500*v)...)
		tags[tagOf(prices(v, 2000+500*v))] = string(bodies[v])
		r := ask(t, "POST", s.url+"/sweep?lengths=2,6,20", bodies[v])
		swept[string(r.body)] = fmt.Sprint("version ", v)
	}
	if len(swept) != versions {
		t.Fatal("two versions have one result")
	}
	var wait sync.WaitGroup
	var stop atomic.Bool
	var reads, sweeps atomic.Int32
	get := func(method, path string) (reply, bool) {
		r, err := http.NewRequest(method, s.url+path, nil)
		if err != nil {
			t.Error(err)
			return reply{}, false
		}
		r.Header.Set("Accept", "application/octet-stream")
		answer, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return reply{}, false
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
			return reply{}, false
		}
		return reply{answer.StatusCode, answer.Header, body}, true
	}
	for range 4 {
		wait.Go(func() {
			for !stop.Load() {
				r, ok := get("GET", "/datasets/it")
				if ok && r.status == 200 {
					reads.Add(1)
					if body, known := tags[r.header.Get("Etag")]; !known || body != string(r.body) {
						t.Errorf("%d bytes under the ETag %s", len(r.body), r.header.Get("Etag"))
					}
				}
			}
		})
		wait.Go(func() {
			for !stop.Load() {
				r, ok := get("POST", "/sweep?lengths=2,6,20&dataset=it")
				if ok && r.status == 200 {
					sweeps.Add(1)
					if _, known := swept[string(r.body)]; !known {
						t.Errorf("a sweep of no version: %x", r.body)
					}
				} else if ok && r.status != 404 {
					t.Errorf("status %d: %s", r.status, r.body)
				}
			}
		})
	}
	deadline := time.Now().Add(30 * time.Second)
	for round := 0; round < 40 || (reads.Load() < 20 || sweeps.Load() < 20) && time.Now().Before(deadline); round++ {
		if r := ask(t, "PUT", s.url+"/datasets/it", bodies[round%versions]); r.status != 201 && r.status != 204 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
		if round%10 == 9 {
			wantBare(t, ask(t, "DELETE", s.url+"/datasets/it", nil), 204, "")
		}
	}
	stop.Store(true)
	wait.Wait()
	if reads.Load() == 0 || sweeps.Load() == 0 {
		t.Errorf("%d reads and %d sweeps show nothing", reads.Load(), sweeps.Load())
	}
}

// The dataset is gone long before the sweep is over.
func TestASweepGoesOnWithADatasetThatIsDeleted(t *testing.T) {
	s := start(t, "--slots", "1")
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(gbm42.Close()...)), 201, tagOf(gbm42.Close()))
	answer := make(chan string, 1)
	go func() {
		r, err := client.Post(s.url+"/sweep?dataset=it&lengths=6,3000", "", nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		answer <- string(body)
	}()
	for metric(t, s, "texttax_compute_slots_busy") == 0 {
		if len(answer) > 0 {
			t.Fatal("the sweep was over before it was seen to begin")
		}
	}
	wantBare(t, ask(t, "DELETE", s.url+"/datasets/it", nil), 204, "")
	if got := <-answer; !strings.HasPrefix(got, `{"pnl":[-5165.584357716994,`) {
		t.Errorf("%.200s", got)
	}
}

func TestDatasetsAreThereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("TEXTTAX_DATA_DIR", dir)
	s := start(t)
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(prices(1, 100)...)), 201, tagOf(prices(1, 100)))
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(prices(2, 50)...)), 204, tagOf(prices(2, 50)))
	before := ask(t, "GET", s.url+"/datasets", nil).body
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t)
	holds(t, s.url, "it", prices(2, 50))
	if after := ask(t, "GET", s.url+"/datasets", nil).body; !bytes.Equal(after, before) {
		t.Errorf("the list was %s and is %s", before, after)
	}
	// A second one on the directory ends, and does no harm to the first.
	err := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0"}, io.Discard, io.Discard)
	if exitStatus(err) != 1 || !strings.Contains(err.Error(), "another process is using it") {
		t.Errorf("the second server ended with: %v", err)
	}
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(prices(3, 70)...)), 204, tagOf(prices(3, 70)))
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}

	// What is damaged is neither served nor lost.
	file := filepath.Join(dir, "set-it.dataset")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t)
	wantProblem(t, ask(t, "GET", s.url+"/datasets/it", nil), 404, "dataset", -1)
	if got, err := os.ReadFile(filepath.Join(dir, "damaged", "set-it.dataset")); err != nil || !bytes.Equal(got, raw) {
		t.Errorf("%v", err)
	}
	if !strings.Contains(s.log.String(), "a dataset is damaged") {
		t.Errorf("the log does not tell of it:\n%s", s.log)
	}
}

func TestADatasetLimitThatIsNone(t *testing.T) {
	if err := run(t.Context(), []string{"serve", "--datasets-max", "-1"}, io.Discard, io.Discard); exitStatus(err) != 2 {
		t.Errorf("%v", err)
	}
	s := start(t, "--datasets-max", "0")
	wantProblem(t, ask(t, "PUT", s.url+"/datasets/it", octets(1)), 507, "", -1)
	if r := ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
}

// It must not come to mean the directory that the server was started in.
func TestAnEmptyDataDirectoryIsNone(t *testing.T) {
	t.Setenv("TEXTTAX_DATA_DIR", "")
	t.Chdir(t.TempDir())
	s := start(t)
	wantBare(t, ask(t, "PUT", s.url+"/datasets/it", octets(1)), 201, tagOf([]float64{1}))
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("there are %v, %v", left, err)
	}
}
