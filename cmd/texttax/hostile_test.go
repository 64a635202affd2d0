package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"texttax/encoding"
)

const arrowType = "application/vnd.apache.arrow.stream"

// allocated returns how many bytes all goroutines of the process allocate
// while f runs: the server's and the client's, whether they keep them or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// liveHeap returns the bytes that are in use, once all garbage is gone. What
// lies in a sync.Pool is dropped by the second collection.
func liveHeap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// staysFlat checks that the live heap is after f what it was before, give or
// take what connections and pools may hold.
func staysFlat(t *testing.T, f func()) {
	t.Helper()
	const slack = 8 << 20
	before := liveHeap()
	f()
	if after := liveHeap(); after > before+slack {
		t.Errorf("the live heap grew from %d bytes to %d", before, after)
	}
}

// post is ask for goroutines that can't end the test.
func post(url string, body []byte, headers ...string) (reply, error) {
	r, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, got}, err
}

// atOnce sends a body so many times in parallel.
func atOnce(t *testing.T, times int, url string, body []byte, headers ...string) []reply {
	t.Helper()
	replies := make([]reply, times)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() {
			var err error
			if replies[i], err = post(url, body, headers...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return replies
}

func arrowFiles(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../encoding/testdata", folder, "*.arrows"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams in %s: %v", folder, err)
	}
	streams := map[string][]byte{}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		streams[strings.TrimSuffix(filepath.Base(file), ".arrows")] = body
	}
	return streams
}

func TestForgedArrowStreamsAreRefusedAndCostNoMemory(t *testing.T) {
	s := start(t)
	special := map[string]struct {
		status int
		field  string
		index  int
		says   string
	}{
		"honest": {status: 200}, "honest-ended": {status: 200}, "bitmap-full": {status: 200}, "bitmap-packed-empty": {status: 200},
		"lz4-honest": {status: 200}, "zstd-honest": {status: 200},
		"bitmap-null":         {422, "close", 1, "null"},
		"bitmap-packed-null":  {422, "close", 1, "null"},
		"close-twice":         {400, "close", -1, "2 columns of this name"},
		"close-seven":         {400, "close", -1, "7 columns of this name"},
		"bitmap-missing":      {400, "", -1, "no validity bitmap"},
		"trailing-no-table":   {422, "", -1, "neither the column close"},
		"zstd-window-512-MiB": {400, "", -1, "window"},
	}
	staysFlat(t, func() {
		for name, body := range arrowFiles(t, "hostile") {
			want, ok := special[name]
			if !ok {
				want.status, want.index = 400, -1
			}
			t.Run(name, func(t *testing.T) {
				const times = 20
				for _, path := range []string{"/echo", "/sweep?lengths=2"} {
					if want.status == 200 {
						if r := ask(t, "POST", s.url+path, body, "Content-Type", arrowType); r.status != 200 {
							t.Errorf("%d %s", r.status, r.body)
						}
						continue
					}
					var replies []reply
					cost := allocated(func() { replies = atOnce(t, times, s.url+path, body, "Content-Type", arrowType) })
					for _, r := range replies {
						if p := wantProblem(t, r, want.status, want.field, want.index); !strings.Contains(p.Detail, want.says) {
							t.Errorf("%q does not say %q", p.Detail, want.says)
						}
					}
					// A connection, its buffers, and both sides of the request.
					if each := cost / times; each > 128<<10 {
						t.Errorf("a request of %d bytes allocates %d", len(body), each)
					}
				}
				stillServes(t, s)
			})
		}
	})
}

// wideFrame is a zstd frame with one raw block, whose header asks for a window
// of 2^(10+exponent) bytes.
func wideFrame(exponent byte, block []byte) []byte {
	size := uint32(len(block))<<3 | 1
	return append([]byte{0x28, 0xB5, 0x2F, 0xFD, 0, exponent << 3, byte(size), byte(size >> 8), byte(size >> 16)}, block...)
}

func TestFiftyWindowsOf512MiBAtOnceCostNoMemory(t *testing.T) {
	s := start(t)
	inArrow := arrowFiles(t, "hostile")["zstd-window-512-MiB"]
	const times = 50
	staysFlat(t, func() {
		for name, test := range map[string]struct {
			body    []byte
			headers []string
			status  int
		}{
			"as content encoding":            {wideFrame(19, octets(1.5)), []string{"Content-Encoding", "zstd"}, 415},
			"of 2 TiB":                       {wideFrame(31, octets(1.5)), []string{"Content-Encoding", "zstd"}, 415},
			"in Arrow":                       {inArrow, []string{"Content-Type", arrowType}, 400},
			"in Arrow, beside a small one":   {zstded(t, inArrow), []string{"Content-Type", arrowType, "Content-Encoding", "zstd"}, 400},
			"just over what is supported":    {wideFrame(14, octets(1.5)), []string{"Content-Encoding", "zstd"}, 415},
			"with megabytes behind":          {wideFrame(19, make([]byte, 100<<10)), []string{"Content-Encoding", "zstd"}, 415},
			"in the second frame of a body":  {append(zstded(t, octets(1)), wideFrame(19, octets(1.5))...), []string{"Content-Encoding", "zstd"}, 415},
			"behind a frame that is skipped": {append([]byte{0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0}, wideFrame(19, octets(1.5))...), []string{"Content-Encoding", "zstd"}, 415},
		} {
			t.Run(name, func(t *testing.T) {
				var replies []reply
				cost := allocated(func() { replies = atOnce(t, times, s.url+"/echo", test.body, test.headers...) })
				for _, r := range replies {
					wantProblem(t, r, test.status, "", -1)
				}
				// Fifty of them together stay below a small part of one window.
				if cost > 20<<20 {
					t.Errorf("%d requests allocate %d bytes", times, cost)
				}
				stillServes(t, s)
			})
		}
	})
	var fits []reply
	cost := allocated(func() { fits = atOnce(t, times, s.url+"/echo", wideFrame(13, octets(1.5)), "Content-Encoding", "zstd") })
	// The largest window that is supported is allocated as it fills.
	if cost > times*4<<20 {
		t.Errorf("%d requests with windows of 8 MiB allocate %d bytes", times, cost)
	}
	for _, r := range fits {
		if r.status != 200 || !bytes.Equal(r.body, octets(1.5)) {
			t.Errorf("a window of 8 MiB: %d %s", r.status, r.body)
		}
	}
}

func TestMessagePackThatLiesIsRefusedAndCostsNoMemory(t *testing.T) {
	s := start(t)
	staysFlat(t, func() {
		for name, body := range map[string]string{
			"an array of 2^32-1":           "\xdd\xff\xff\xff\xff\xcb",
			"a close of 2^32-1":            "\x81\xa5close\xdd\xff\xff\xff\xff\xcb",
			"a bin of 2^32-1":              "\x81\xa5close\xc6\xff\xff\xff\xff",
			"params of 2^32-1":             "\x81\xa6params\xdd\xff\xff\xff\xff",
			"params of 2^32-1 bytes":       "\x81\xa6params\xc6\xff\xff\xff\xff",
			"a string of 2^32-1":           "\x81\xa7dataset\xdb\xff\xff\xff\xff",
			"a key of 2^32-1":              "\x81\xdb\xff\xff\xff\xff",
			"a map of 2^32-1":              "\xdf\xff\xff\xff\xff",
			"an extension of 2^32-1":       "\x81\xa5close\xc9\xff\xff\xff\xff\x01",
			"3 MB of nested arrays":        strings.Repeat("\x91", 3<<20),
			"3 MB of nested arrays inside": "\x81\xa5close" + strings.Repeat("\x91", 3<<20),
			"nested maps":                  strings.Repeat("\x81\xa1a", 1<<20),
		} {
			t.Run(name, func(t *testing.T) {
				cost := allocated(func() {
					for _, path := range []string{"/echo", "/sweep?lengths=2"} {
						wantProblem(t, ask(t, "POST", s.url+path, []byte(body), "Content-Type", "application/msgpack"), 400, "", -1)
					}
				})
				// Two requests, with the buffers of their bodies.
				if cost > 2*10<<20 {
					t.Errorf("%d bytes of body make %d of memory", 2*len(body), cost)
				}
				stillServes(t, s)
			})
		}
	})
}

func TestAnArrowFileIsRefusedBeforeItsMagicIsTakenForALength(t *testing.T) {
	s := start(t)
	body := arrowFiles(t, "arrow")["file"]
	cost := allocated(func() {
		p := wantProblem(t, ask(t, "POST", s.url+"/echo", body, "Content-Type", arrowType), 415, "", -1)
		if !strings.Contains(p.Detail, "stream") {
			t.Errorf("%s", p.Detail)
		}
	})
	if cost > 10<<20 { // the magic reads as 1.3 GB
		t.Errorf("it allocates %d bytes", cost)
	}
	stillServes(t, s)
}

func TestTenThousandDamagedArrowStreamsAreAnsweredOrRefused(t *testing.T) {
	s := start(t)
	names := []string{"plain", "series_combos", "batches", "lz4_random", "zstd_random", "zstd_nulls", "lz4_constant", "zstd_constant", "nulls", "others_zstd"}
	streams := arrowFiles(t, "arrow")
	const rounds, workers = 1000, 4
	counts := make([]map[int]int, workers)
	staysFlat(t, func() {
		var all sync.WaitGroup
		for w := range workers {
			counts[w] = map[int]int{}
			all.Go(func() {
				random := rand.New(rand.NewPCG(4, uint64(w)))
				for range rounds / workers {
					for _, name := range names {
						body := bytes.Clone(streams[name])
						for range 1 + random.IntN(4) {
							body[random.IntN(len(body))] ^= byte(1 + random.IntN(255))
						}
						path := []string{"/echo", "/sweep?lengths=2"}[random.IntN(2)]
						r, err := post(s.url+path, body, "Content-Type", arrowType)
						switch {
						case err != nil:
							t.Errorf("%s: %v", name, err)
							return
						case r.status == 200:
						case r.status >= 500 || r.header.Get("Content-Type") != "application/problem+json":
							t.Errorf("%s: %d %s from %x", name, r.status, r.body, body)
						}
						counts[w][r.status]++
					}
				}
			})
		}
		all.Wait()
	})
	sum := map[int]int{}
	for _, c := range counts {
		for status, n := range c {
			sum[status] += n
		}
	}
	t.Logf("answers by status: %v", sum)
	if sum[200] == 0 || sum[400] == 0 || sum[422] == 0 {
		t.Errorf("the damage is too small or too large to find anything: %v", sum)
	}
	if panics := metric(t, s, "texttax_panics_total"); panics != 0 {
		t.Errorf("%v panics", panics)
	}
	stillServes(t, s)
}

func TestIntegersOfMessagePackAreExactOrRefused(t *testing.T) {
	s := start(t)
	mp := "application/msgpack"
	whole := "\x81\xa5close\x95\x64\xcb\x40\x59\x20\x00\x00\x00\x00\x00\xcc\xff\xce\x00\x01\x11\x70\xcf\x00\x00\x01\x00\x00\x00\x00\x00"
	for _, accept := range []string{"application/octet-stream", "application/json", arrowType} {
		packed := ask(t, "POST", s.url+"/sweep?lengths=2", []byte(whole), "Content-Type", mp, "Accept", accept)
		text := ask(t, "POST", s.url+"/sweep?lengths=2", []byte(`{"close":[100,100.5,255,70000,1099511627776]}`), "Content-Type", "application/json", "Accept", accept)
		if packed.status != 200 || !bytes.Equal(packed.body, text.body) {
			t.Errorf("%d %q, of JSON %q", packed.status, packed.body, text.body)
		}
	}
	r := ask(t, "POST", s.url+"/echo", []byte(whole), "Content-Type", mp, "Accept", "application/octet-stream")
	if !bytes.Equal(r.body, octets(100, 100.5, 255, 70000, 1<<40)) {
		t.Errorf("%x", r.body)
	}
	for name, element := range map[string]string{
		"2^63+1": "\xcf\x80\x00\x00\x00\x00\x00\x00\x01", "2^64-1": "\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
		"2^53+1": "\xcf\x00\x20\x00\x00\x00\x00\x00\x01", "nil": "\xc0", "true": "\xc3", "text": "\xa3100",
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/echo", "/sweep?lengths=2"} {
				wantProblem(t, ask(t, "POST", s.url+path, []byte("\x81\xa5close\x92\x64"+element), "Content-Type", mp), 422, "close", 1)
			}
		})
	}
	r = ask(t, "POST", s.url+"/echo", []byte("\x81\xa5close\x91\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), "Content-Type", mp, "Accept", "application/octet-stream")
	if !bytes.Equal(r.body, octets(1<<63)) {
		t.Errorf("2^63 came back as %x", r.body)
	}
}

func TestWindowsAreWholeAlikeInEveryFormat(t *testing.T) {
	s := start(t)
	want := ask(t, "POST", s.url+"/sweep?dataset=gbm42", encode(t, encoding.JSON, &encoding.Request{Lengths: []int64{10}}), "Content-Type", "application/json")
	if want.status != 200 {
		t.Fatalf("%d %s", want.status, want.body)
	}
	send := func(mediaType, body string) reply {
		return ask(t, "POST", s.url+"/sweep?dataset=gbm42", []byte(body), "Content-Type", mediaType, "Accept", "application/json")
	}
	for _, mediaType := range []string{"application/json", "application/json; codec=std"} {
		for _, text := range []string{"10", "10.0", "1e1", "1.0E+1"} {
			if r := send(mediaType, fmt.Sprintf(`{"params":[[5,%s,3,2,3,5]]}`, text)); !bytes.Equal(r.body, want.body) {
				t.Errorf("%s: %d %s", text, r.status, r.body)
			}
		}
		for _, text := range []string{"10.5", `"10"`, "null", "true", "0", "-1"} {
			t.Run(text, func(t *testing.T) {
				wantProblem(t, send(mediaType, fmt.Sprintf(`{"params":[[5,%s,3,2,3,5]]}`, text)), 422, "params.hma_full", 0)
			})
		}
	}
	for name, element := range map[string]string{"10": "\x0a", "10.0": "\xcb\x40\x24\x00\x00\x00\x00\x00\x00", "float32": "\xca\x41\x20\x00\x00"} {
		if r := send("application/msgpack", "\x81\xa6params\x91\x96\x05"+element+"\x03\x02\x03\x05"); !bytes.Equal(r.body, want.body) {
			t.Errorf("msgpack %s: %d %s", name, r.status, r.body)
		}
	}
	for name, element := range map[string]string{"10.5": "\xcb\x40\x25\x00\x00\x00\x00\x00\x00", "text": "\xa210", "nil": "\xc0", "-1": "\xff", "0": "\x00"} {
		t.Run("msgpack "+name, func(t *testing.T) {
			wantProblem(t, send("application/msgpack", "\x81\xa6params\x91\x96\x05"+element+"\x03\x02\x03\x05"), 422, "params.hma_full", 0)
		})
	}
	streams := arrowFiles(t, "arrow")
	for name, index := range map[string]int{"windows_float_10_5": 1, "windows_float_nan": 1, "windows_float_inf": 1} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, send(arrowType, string(streams[name])), 422, "params.hma_full", index)
		})
	}
	whole, floating := send(arrowType, string(streams["windows_int64"])), send(arrowType, string(streams["windows_float64"]))
	if whole.status != 200 || !bytes.Equal(whole.body, floating.body) {
		t.Errorf("Arrow: whole windows as floats give %d %s, as integers %d %s", floating.status, floating.body, whole.status, whole.body)
	}
}

func TestHowATableIsCutChangesNothing(t *testing.T) {
	s := start(t)
	streams := arrowFiles(t, "arrow")
	echo := func(name string) []byte {
		t.Helper()
		r := ask(t, "POST", s.url+"/echo", streams[name], "Content-Type", arrowType, "Accept", "application/octet-stream")
		if r.status != 200 {
			t.Fatalf("%s: %d %s", name, r.status, r.body)
		}
		return r.body
	}
	want := echo("plain")
	for name, part := range map[string][]byte{
		"batches": want, "batches_with_empty": want, "batches_first_empty": want, "chunked": want,
		"pandas_index_first": echo("pandas"), "sliced": want[3*8:], "no_end": want,
	} {
		if got := echo(name); !bytes.Equal(got, part) {
			t.Errorf("%s: %x, not %x", name, got, part)
		}
	}
}
