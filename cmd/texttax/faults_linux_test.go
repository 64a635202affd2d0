package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// faultsTime is the variable that gives the tests of faults their long form. Its
// value, such as 10m, is how long each run under load lasts.
const faultsTime = "TEXTTAX_FAULTS"

// long returns how long a run under load lasts, and whether this is the long
// form.
func long(t testing.TB, short time.Duration) (time.Duration, bool) {
	t.Helper()
	text := os.Getenv(faultsTime)
	if text == "" {
		return short, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s is %q, and not such as 10m", faultsTime, text)
	}
	return d, true
}

// times returns a number for the form of the tests.
func times(t testing.TB, inShort, inLong int) int {
	if _, is := long(t, 0); is {
		return inLong
	}
	return inShort
}

// atATime calls f n times, in some goroutines, each with random numbers of its own.
// An error ends its goroutine, and fails the test.
func atATime(t *testing.T, workers, n int, seed uint64, f func(rng *rand.Rand) error) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for range n / workers {
				if err := f(rng); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// hang is how long no answer may be in coming.
func hang(t testing.TB) time.Duration {
	if _, is := long(t, 0); is {
		return time.Second
	}
	return 20 * time.Second // of a machine that does other things too
}

// target is the program as a process that is to be broken.
type target struct {
	*process
	admin *http.Client // of its operations, over a socket of their own
	start state
}

// state is what a target has at a moment.
type state struct {
	heap, goroutines, descriptors, busy, waiting, reserved, inFlight, panics float64
}

func (s state) String() string {
	return fmt.Sprintf("%.1f MiB of heap, %v goroutines, %v descriptors, %v busy slots, %v waiting, %v bytes reserved, %v in flight, %v panics",
		s.heap/(1<<20), s.goroutines, s.descriptors, s.busy, s.waiting, s.reserved, s.inFlight, s.panics)
}

// startTarget starts the program, which is this test's own binary, and warms it
// up.
func startTarget(t *testing.T, args ...string) *target {
	t.Helper()
	t.Setenv(benchServer, "texttax")
	admin := filepath.Join(t.TempDir(), "admin")
	args = append([]string{"--admin-listen", "unix:" + admin, "--log-level", "warn", "--drain-delay", "0s"}, args...)
	x := &target{process: startProcess(t, os.Args[0], args...), admin: overSocket(t, admin)}
	for range 3 {
		for _, g := range goodRequests(t) {
			if err := g.ask(x.url, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	client.CloseIdleConnections()
	// Goroutines and connections of the warming are on their way out.
	x.start = x.now(t)
	waitFor(t, "the server to be at rest", func() bool {
		before := x.start
		x.start = x.now(t)
		return x.start.inFlight == 1 && x.start.goroutines == before.goroutines && x.start.descriptors == before.descriptors
	})
	return x
}

// metrics reads the series of the process.
func (x *target) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	r, err := x.admin.Get("http://admin/metrics")
	if err != nil {
		t.Fatalf("%v\n%s", err, x.stderr)
	}
	defer r.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				values[name] = v
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return values
}

// now returns the state of the process, once its garbage is collected.
func (x *target) now(t testing.TB) state {
	t.Helper()
	for range 3 { // so that the pools are empty
		r, err := x.admin.Get("http://admin/debug/pprof/heap?gc=1")
		if err != nil {
			t.Fatalf("%v\n%s", err, x.stderr)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	m := x.metrics(t)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", x.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return state{
		heap: m["go_memstats_heap_alloc_bytes"], goroutines: m["go_goroutines"], descriptors: float64(len(open)),
		busy: m["texttax_compute_slots_busy"], waiting: m["texttax_queue_depth"], reserved: m["texttax_body_memory_reserved_bytes"],
		inFlight: m["texttax_requests_in_flight"], panics: m["texttax_panics_total"],
	}
}

// peak returns the most memory that the process has had.
func (x *target) peak(t testing.TB) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// recovers checks that everything is back to where it was at the start, and that
// good requests are answered right.
func (x *target) recovers(t *testing.T) {
	t.Helper()
	for _, g := range goodRequests(t) {
		if err := g.ask(x.url, nil); err != nil {
			t.Error(err)
		}
	}
	client.CloseIdleConnections()
	const slack = 8 << 20 // pools, and what the runtime keeps for itself
	var now state
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		now = x.now(t)
		if now.heap <= x.start.heap+slack && now.goroutines <= x.start.goroutines && now.descriptors <= x.start.descriptors &&
			now.busy == 0 && now.waiting == 0 && now.reserved == 0 && now.inFlight == 1 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("in the end there are %v\nat the start there were %v", now, x.start)
			break
		}
	}
	if now.panics != 0 {
		t.Errorf("%v panics", now.panics)
	}
	x.sane(t)
	t.Logf("at the start %v; in the end %v; at most %d MiB", x.start, now, x.peak(t)>>20)
}

// sane checks that the process has no complaint about itself.
func (x *target) sane(t *testing.T) {
	t.Helper()
	for _, word := range []string{"DATA RACE", "panic", "fatal error"} {
		if at := strings.Index(x.stderr.String(), word); at >= 0 {
			t.Errorf("the server says %.3000s", x.stderr.String()[at:])
		}
	}
}

// goodRequest is a request whose answer is known to the last bit.
type goodRequest struct {
	path, mediaType string
	body, want      []byte
}

// goodRequests returns sweeps and echoes in every format. Their answers are made
// by the reference of the kernel and the codecs, in this process.
var goodRequests = func() func(testing.TB) []goodRequest {
	var once sync.Once
	var all []goodRequest
	return func(t testing.TB) []goodRequest {
		once.Do(func() {
			for i, bars := range []int{1, 100, 3000, 20_000} {
				series := gbm42.Close()[i*1000:][:bars]
				var combos []kernel.Params
				for n := 2; n < 40; n += 3 {
					combos = append(combos, kernel.Expand(int64(n)))
				}
				var res kernel.Results
				if err := kernel.Sweep(t.Context(), series, combos, kernel.DefaultFee, 1, &res); err != nil {
					t.Fatal(err)
				}
				for _, f := range formats {
					req := encoding.Request{Op: encoding.OpSweep, Close: series, Params: combos}
					want, err := f.codec.AppendResults(nil, &res)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, goodRequest{"/sweep", f.mediaType, encode(t, f.codec, &req), want})
					echo := encode(t, f.codec, &encoding.Request{Close: series})
					all = append(all, goodRequest{"/echo", f.mediaType, echo, echo})
				}
			}
		})
		return all
	}
}()

// ask sends the request and checks the answer; a nil client is the one of all
// tests. To be refused with 503 is right.
func (g *goodRequest) ask(url string, by *http.Client) error {
	if by == nil {
		by = client
	}
	answer, err := by.Post(url+g.path, g.mediaType, bytes.NewReader(g.body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s, %s: the answer broke off: %w", g.path, g.mediaType, err)
	case answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "":
		return nil
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s, %s: status %d: %.300s", g.path, g.mediaType, answer.StatusCode, got)
	case !bytes.Equal(got, g.want):
		return fmt.Errorf("%s, %s: of %d bytes that came, some are wrong", g.path, g.mediaType, len(got))
	}
	return nil
}

// raw is the request as it is on the wire.
func (g *goodRequest) raw(headers string) []byte {
	return append(fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%sContent-Length: %d\r\n\r\n", g.path, g.mediaType, headers, len(g.body)), g.body...)
}

// during sends good requests from some clients while f runs.
func (x *target) during(t *testing.T, clients int, f func()) {
	t.Helper()
	var done atomic.Bool
	var sent atomic.Int64
	var all sync.WaitGroup
	good := goodRequests(t)
	for c := range clients {
		all.Go(func() {
			for i := c; !done.Load(); i++ {
				if err := good[i%len(good)].ask(x.url, nil); err != nil {
					t.Error(err)
					return
				}
				sent.Add(1)
			}
		})
	}
	f()
	done.Store(true)
	all.Wait()
	t.Logf("%d good requests beside", sent.Load())
}

// source makes connections from many addresses: one has only some 28,000 ports,
// which closed connections keep for a minute.
func source(rng *rand.Rand) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+rng.IntN(4)), byte(1+rng.IntN(250)))}}
}

// connect opens a connection, from one of many addresses.
func (x *target) connect(t testing.TB, rng *rand.Rand) *net.TCPConn {
	c, err := source(rng).Dial("tcp", strings.TrimPrefix(x.url, "http://"))
	if err != nil {
		t.Error(err)
		return nil
	}
	return c.(*net.TCPConn)
}

func TestFaultsSlowClientsAreCutOffAndHinderNobody(t *testing.T) {
	x := startTarget(t, "--header-timeout", "500ms", "--transfer-grace", "500ms", "--transfer-rate", "1KiB")
	const length = "Content-Length: 100000\r\n"
	begins := map[string]string{
		"a slow header":                      "",
		"a slow body":                        "POST /echo HTTP/1.1\r\nHost: x\r\n" + length + "\r\n",
		"a slow body in chunks":              "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
		"a slow body of a dataset":           "PUT /datasets/it HTTP/1.1\r\nHost: x\r\n" + length + "\r\n",
		"a slow body that is refused":        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n" + length + "\r\n",
		"a slow body that was not invited":   "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: text/plain\r\n" + length + "\r\n",
		"a slow body that was invited":       "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + length + "\r\n",
		"a slow body where none belongs":     "GET /version HTTP/1.1\r\nHost: x\r\n" + length + "\r\n",
		"a slow body of a DELETE":            "DELETE /datasets/it HTTP/1.1\r\nHost: x\r\n" + length + "\r\n",
		"a slow body of nothing that exists": "BREW /tea HTTP/1.1\r\nHost: x\r\n" + length + "\r\n",
	}
	x.during(t, 2, func() {
		var all sync.WaitGroup
		rng := rand.New(rand.NewPCG(1, 1))
		for name, begin := range begins {
			for range 10 {
				c := x.connect(t, rng)
				if c == nil {
					t.FailNow()
				}
				all.Go(func() {
					defer c.Close()
					_, _ = io.WriteString(c, begin)
					ended := make(chan struct{})
					go func() {
						_, _ = io.Copy(io.Discard, c)
						close(ended)
					}()
					for limit := time.After(20 * time.Second); ; {
						select {
						case <-ended:
							return
						case <-time.After(20 * time.Millisecond):
							_, _ = c.Write([]byte("P"))
						case <-limit:
							t.Errorf("%s keeps its connection", name)
							return
						}
					}
				})
			}
		}
		all.Wait()
	})
	x.recovers(t)
}

func TestFaultsAThousandIdleConnectionsCostLittleAndEnd(t *testing.T) {
	x := startTarget(t, "--header-timeout", "2s", "--idle-timeout", "2s")
	const n = 1000
	rng := rand.New(rand.NewPCG(2, 2))
	conns := make([]*net.TCPConn, n)
	for i := range conns {
		if conns[i] = x.connect(t, rng); conns[i] == nil {
			t.FailNow()
		}
		defer conns[i].Close()
		if i%2 == 0 { // it has been used, and waits for its next request
			if _, err := conns[i].Write([]byte("GET /version HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(conns[i]), nil)
			if err != nil || r.StatusCode != 200 {
				t.Fatal(r, err)
			}
		}
	}
	with := x.now(t)
	if each := (with.heap - x.start.heap) / n; each > 32<<10 {
		t.Errorf("an idle connection takes %v bytes", each)
	}
	x.during(t, 2, func() {
		for _, c := range conns {
			_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("an idle connection was not closed: %v", err)
				return
			}
		}
	})
	x.recovers(t)
}

// mutate changes a body in the ways in which programs and networks do.
func mutate(rng *rand.Rand, body, other []byte) []byte {
	b := bytes.Clone(body)
	for range 1 + rng.IntN(3) {
		if len(b) == 0 {
			return append(b, other...)
		}
		at := rng.IntN(len(b))
		n := 1 + rng.IntN(min(16, len(b)-at))
		switch rng.IntN(9) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b[at] = byte(rng.Uint32())
		case 2:
			b = b[:at]
		case 3:
			b = append(b[:at], b[at+n:]...)
		case 4:
			b = append(b[:at], append(bytes.Clone(b[at:at+n]), b[at:]...)...)
		case 5:
			copy(b[at:at+n], other[rng.IntN(len(other)):])
		case 6:
			for i := range n {
				b[at+i] = []byte{0, 0xff, 0x7f, 0x80}[rng.IntN(4)]
			}
		case 7:
			b = append(b, other[:min(len(other), n)]...)
		case 8: // what numbers are made of
			b[at] = "0123456789eE+-.,:[]{}\"\\"[rng.IntN(23)]
		}
	}
	return b
}

// badAnswer says what is wrong with the answer to a mutated request; "" if it
// is one that may be given.
func badAnswer(r reply) string {
	switch {
	case r.status == 200:
	case r.status < 400, r.status >= 500 && r.status != 503:
		return fmt.Sprintf("status %d: %.500s", r.status, r.body)
	case r.header.Get("Content-Type") != "application/problem+json", !bytes.HasPrefix(r.body, []byte(`{"type":"urn:texttax:problem:`)):
		return fmt.Sprintf("status %d is no problem: %.500s", r.status, r.body)
	}
	return ""
}

// patient is client with a limit for each request.
func patient(t testing.TB) *http.Client {
	return &http.Client{Transport: client.Transport, Timeout: hang(t)}
}

// slowest remembers which answer took longest.
type slowest struct {
	mu   sync.Mutex
	took time.Duration
	says string // its Server-Timing
}

func (s *slowest) note(took time.Duration, answer *http.Response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took > s.took {
		s.took, s.says = took, answer.Status+", "+answer.Header.Get("Server-Timing")
	}
}

// sendMutated sends a mutated request and returns its status.
func sendMutated(by *http.Client, url string, rng *rand.Rand, good []goodRequest, most *slowest) (int, error) {
	g := good[rng.IntN(len(good))]
	body := mutate(rng, g.body, good[rng.IntN(len(good))].body)
	path := g.path
	if rng.IntN(8) == 0 {
		path += "?lengths=" + string(mutate(rng, []byte("6:200:80"), []byte("&fee=0.1&dataset=gbm42")))
		path = strings.Map(func(r rune) rune {
			if r <= ' ' || r >= 127 || r == '#' {
				return 'x'
			}
			return r
		}, path)
	}
	r, err := http.NewRequest("POST", url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil // a query that this client can't send
	}
	r.Header.Set("Content-Type", g.mediaType)
	if rng.IntN(16) == 0 {
		r.Header.Set("Content-Encoding", []string{"gzip", "zstd", "br"}[rng.IntN(3)])
	}
	began := time.Now()
	answer, err := by.Do(r)
	if err != nil {
		return 0, fmt.Errorf("no answer to %s %s %x: %w", path, g.mediaType, body[:min(len(body), 2000)], err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, fmt.Errorf("the answer to %s %s broke off: %w", path, g.mediaType, err)
	}
	most.note(time.Since(began), answer)
	if bad := badAnswer(reply{answer.StatusCode, answer.Header, got}); bad != "" {
		return 0, fmt.Errorf("%s, to %s %s %x", bad, path, g.mediaType, body[:min(len(body), 2000)])
	}
	return answer.StatusCode, nil
}

// smallGood are the good requests that mutations are made of.
func smallGood(t testing.TB, mediaType string) []goodRequest {
	var small []goodRequest
	for _, g := range goodRequests(t) {
		if (mediaType == "" || g.mediaType == mediaType) && len(g.body) < 10_000 {
			small = append(small, g)
		}
	}
	return small
}

// sendMutatedFrame sends a mutated frame on a connection of its own, which the
// server answers, or closes without a word.
func sendMutatedFrame(at string, rng *rand.Rand, patience time.Duration) error {
	c, err := net.Dial("unix", at)
	if err != nil {
		return err
	}
	defer c.Close()
	series := gbm42.Close()[:1+rng.IntN(300)]
	good, err := encoding.AppendFrame(nil, &encoding.Request{Op: encoding.Op(1 + rng.IntN(2)), Close: series, Params: []kernel.Params{kernel.Expand(6), kernel.Expand(9)}})
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	bad := mutate(rng, good, good)
	_, _ = c.Write(bad)
	_ = c.(*net.UnixConn).CloseWrite()
	_, err = io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("no end of a connection with the frame %x", bad)
	}
	return nil
}

func TestFaultsMutatedBodiesAreAnsweredOrRefused(t *testing.T) {
	frames := filepath.Join(t.TempDir(), "frames")
	x := startTarget(t, "--work-max", "20000000", "--frame-listen", "unix:"+frames, "--log-level", "error")
	each := times(t, 2000, 100_000)
	const workers = 4
	for _, f := range formats {
		good := smallGood(t, f.mediaType)
		var statuses [600]atomic.Int64
		var most slowest
		var all sync.WaitGroup
		by := patient(t)
		began := time.Now()
		for w := range workers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(w)))
				for range each / workers {
					status, err := sendMutated(by, x.url, rng, good, &most)
					if err != nil {
						t.Error(err)
						return
					}
					statuses[status].Add(1)
				}
			})
		}
		all.Wait()
		counts := map[int]int64{}
		for status := range statuses {
			if n := statuses[status].Load(); n > 0 {
				counts[status] = n
			}
		}
		t.Logf("%s: %d mutated bodies in %v, by status %v, the slowest answer after %v", f.name, each, time.Since(began).Round(time.Millisecond), counts, most.took)
		if counts[200] == 0 || counts[400] == 0 || counts[422] == 0 {
			t.Errorf("%s: the mutations are too small or too large to find anything", f.name)
		}
	}
	atATime(t, workers, each, 4, func(rng *rand.Rand) error { return sendMutatedFrame(frames, rng, hang(t)) })
	m := x.metrics(t)
	answered := m[`texttax_requests_total{code="200",endpoint="frame"}`]
	t.Logf("frames: %d mutated ones, of which %v were answered and %v refused", each, answered, m[`texttax_requests_total{code="400",endpoint="frame"}`])
	if answered == 0 || m[`texttax_requests_total{code="500",endpoint="frame"}`] != 0 {
		t.Errorf("%v frames were answered, %v failed", answered, m[`texttax_requests_total{code="500",endpoint="frame"}`])
	}
	x.recovers(t)
}

// leave begins a request and goes away, at any point of it.
func (x *target) leave(t testing.TB, rng *rand.Rand, requests [][]byte) {
	c := x.connect(t, rng)
	if c == nil {
		return
	}
	defer c.Close()
	if rng.IntN(2) == 0 {
		_ = c.SetLinger(0) // a reset, and not an orderly end
	}
	request := requests[rng.IntN(len(requests))]
	header := bytes.Index(request, []byte("\r\n\r\n"))
	switch rng.IntN(4) {
	case 0:
		_, _ = c.Write(request[:rng.IntN(header)])
	case 1:
		_, _ = c.Write(request[:header+4+rng.IntN(len(request)-header-3)])
	case 2:
		_, _ = c.Write(request)
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
	case 3:
		_, _ = c.Write(request)
		_ = c.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(30)) * time.Millisecond)) // or it would wait for a next answer
		_, _ = io.CopyN(io.Discard, c, int64(rng.IntN(100_000)))
	}
}

// leavers are requests to go away from: with long bodies, long sweeps, and long
// answers.
func leavers(t testing.TB) [][]byte {
	var all [][]byte
	for _, g := range goodRequests(t) {
		all = append(all, g.raw(""))
	}
	sweep := goodRequest{path: "/sweep?dataset=gbm42&lengths=6:200:80", mediaType: "application/json"}
	echo := goodRequest{path: "/echo", mediaType: "application/octet-stream", body: octets(gbm42.Close()...)}
	return append(all, sweep.raw(""), sweep.raw(""), sweep.raw(""), echo.raw(""))
}

func TestFaultsClientsThatLeaveAnywhereLeaveNothing(t *testing.T) {
	x := startTarget(t, "--log-level", "error")
	requests := leavers(t)
	n := times(t, 2000, 100_000)
	const workers = 8
	x.during(t, 2, func() {
		atATime(t, workers, n, 5, func(rng *rand.Rand) error {
			x.leave(t, rng, requests)
			return nil
		})
	})
	x.recovers(t)
	t.Logf("%d requests that were given up: %v", n, x.metrics(t)[`texttax_rejected_total{reason="client-gone"}`])
}

// TestFaultsMixedLoad is all at once: good requests, mutated ones, clients that
// leave, and small ones beside long ones.
func TestFaultsMixedLoad(t *testing.T) {
	duration, _ := long(t, 2*time.Second)
	x := startTarget(t, "--log-level", "error", "--work-max", "100000000", "--memory-max", "64MiB", "--body-max", "8MiB")
	requests, small := leavers(t), smallGood(t, "")
	// All clients together keep the machine busy, so that an answer can take its
	// time; what does not come at all would show here.
	by := &http.Client{Transport: client.Transport, Timeout: 20 * time.Second}
	var most slowest
	var mutated, left, long atomic.Int64
	end := time.Now().Add(duration)
	x.during(t, 4, func() {
		var all sync.WaitGroup
		for w := range 12 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(6, uint64(w)))
				for time.Now().Before(end) && !t.Failed() {
					switch {
					case w < 6:
						mutated.Add(1)
						if _, err := sendMutated(by, x.url, rng, small, &most); err != nil {
							t.Error(err)
						}
					case w < 10:
						left.Add(1)
						x.leave(t, rng, requests)
					default:
						long.Add(1)
						if r, err := post(x.url+"/sweep?dataset=gbm42&lengths=6:200:500", nil); err != nil || r.status != 200 && r.status != 503 {
							t.Errorf("a long sweep: %d %v", r.status, err)
						}
					}
				}
			})
		}
		all.Wait()
	})
	x.recovers(t)
	t.Logf("%d mutated, %d left, %d long ones in %v; the slowest answer to a mutated one took %v: %s", mutated.Load(), left.Load(), long.Load(), duration, most.took, most.says)
}

// readAnswers reads answers until the connection ends or nothing comes.
func readAnswers(c net.Conn) (statuses []int) {
	in := bufio.NewReader(c)
	for {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		statuses = append(statuses, r.StatusCode)
	}
}

// TestFaultsSmuggledRequestsAreNeverServed sends what a proxy in front could
// take for one request and a server for two. The second is inside, and must not
// be served.
func TestFaultsSmuggledRequestsAreNeverServed(t *testing.T) {
	x := startTarget(t, "--log-level", "info", "--header-timeout", "300ms", "--idle-timeout", "300ms", "--transfer-grace", "300ms")
	const inner = "GET /version HTTP/1.1\r\nHost: x\r\nX-Request-Id: smuggled\r\n\r\n"
	const post = "POST /echo HTTP/1.1\r\nHost: x\r\n"
	const chunked = "Transfer-Encoding: chunked\r\n"
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	const eight = "8\r\n12345678\r\n0\r\n\r\n"
	for name, raw := range map[string]string{
		"both lengths, of which the chunks end first":  post + length(5+len(inner)) + chunked + "\r\n" + "0\r\n\r\n" + inner,
		"both lengths, the other way round":            post + chunked + length(len(eight)+len(inner)) + "\r\n" + eight + inner,
		"both lengths, of which the bytes end first":   post + length(4) + chunked + "\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		"two different lengths":                        post + length(8) + length(8+len(inner)) + "\r\n12345678" + inner,
		"the same length twice, and it is all":         post + length(8+len(inner)) + length(8+len(inner)) + "\r\n12345678" + inner,
		"a list of lengths":                            post + "Content-Length: 8, 8\r\n\r\n12345678" + inner,
		"a length with a sign":                         post + "Content-Length: +8\r\n\r\n12345678" + inner,
		"a length below zero":                          post + "Content-Length: -8\r\n\r\n12345678" + inner,
		"a length in hex":                              post + "Content-Length: 0x8\r\n\r\n12345678" + inner,
		"a length with a space within":                 post + "Content-Length: 8 0\r\n\r\n12345678" + inner,
		"a length beyond 64 bits":                      post + "Content-Length: 18446744073709551624\r\n\r\n12345678" + inner,
		"a space before the colon of a length":         post + "Content-Length : 8\r\n\r\n12345678" + inner,
		"a space before the colon of the chunks":       post + "Transfer-Encoding : chunked\r\n" + length(5) + "\r\n0\r\n\r\n" + inner,
		"a tab before the colon":                       post + "Transfer-Encoding\t: chunked\r\n" + length(5) + "\r\n0\r\n\r\n" + inner,
		"a space before a name":                        post + " " + chunked + length(5) + "\r\n0\r\n\r\n" + inner,
		"a folded length":                              post + "Content-Length:\r\n 8\r\n\r\n12345678",
		"a folded encoding beside a length":            post + "Transfer-Encoding:\r\n chunked\r\n" + length(5+len(inner)) + "\r\n0\r\n\r\n" + inner,
		"an encoding with a vertical tab":              post + "Transfer-Encoding: \vchunked\r\n" + length(5+len(inner)) + "\r\n0\r\n\r\n" + inner,
		"an encoding in quotes":                        post + "Transfer-Encoding: \"chunked\"\r\n" + length(5+len(inner)) + "\r\n0\r\n\r\n" + inner,
		"an encoding that is none":                     post + "Transfer-Encoding: xchunked\r\n" + length(5+len(inner)) + "\r\n0\r\n\r\n" + inner,
		"identity beside a length":                     post + "Transfer-Encoding: identity\r\n" + length(5+len(inner)) + "\r\n0\r\n\r\n" + inner,
		"chunked after identity":                       post + "Transfer-Encoding: identity, chunked\r\n" + length(5+len(inner)) + "\r\n0\r\n\r\n" + inner,
		"chunked twice":                                post + chunked + chunked + "\r\n0\r\n\r\n" + inner,
		"chunked of HTTP/1.0":                          "POST /echo HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n" + chunked + "\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
		"a chunk's length that is none":                post + chunked + "\r\nzz\r\n" + inner,
		"a chunk's length with a prefix":               post + chunked + "\r\n0x8\r\n12345678\r\n0\r\n\r\n" + inner,
		"a chunk's length with a sign":                 post + chunked + "\r\n+8\r\n12345678\r\n0\r\n\r\n" + inner,
		"a chunk's length beyond 64 bits":              post + chunked + "\r\n10000000000000008\r\n12345678\r\n0\r\n\r\n" + inner,
		"a chunk that is longer than it says":          post + chunked + "\r\n8\r\n123456789\r\n0\r\n\r\n" + inner,
		"a chunk without its end":                      post + chunked + "\r\n8\r\n123456780\r\n\r\n" + inner,
		"a chunk's line that ends in LF":               post + chunked + "\r\n8\n12345678\r\n0\r\n\r\n" + inner,
		"a chunk's extension":                          post + chunked + "\r\n8;a=b\r\n12345678\r\n0\r\n\r\n" + inner,
		"a chunk's extension with LF":                  post + chunked + "\r\n8;a\n12345678\r\n0\r\n\r\n" + inner,
		"a chunk's extension that holds a request":     post + chunked + "\r\n8;\r" + inner + "12345678\r\n0\r\n\r\n",
		"a chunk's extension without end":              post + chunked + "\r\n8;" + strings.Repeat("x", 100_000) + "\r\n12345678\r\n0\r\n\r\n" + inner,
		"a trailer that is a length":                   post + chunked + "\r\n0\r\nContent-Length: 100\r\n\r\n" + inner,
		"lines that end in LF":                         "POST /echo HTTP/1.1\nHost: x\nContent-Length: 8\n\n12345678",
		"a CR alone in a value":                        post + "X: a\r" + length(8) + "\r\n" + inner,
		"a NUL in a value":                             post + "X: a\x00\r\n" + length(8) + "\r\n12345678" + inner,
		"no name":                                      post + ": x\r\n" + length(8) + "\r\n12345678" + inner,
		"no colon":                                     post + "nonsense\r\n" + length(8) + "\r\n12345678" + inner,
		"two hosts":                                    post + "Host: y\r\n" + length(8) + "\r\n12345678" + inner,
		"no host":                                      "POST /echo HTTP/1.1\r\n" + length(8) + "\r\n12345678" + inner,
		"HTTP/1.1 twice":                               "GET / HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n" + inner,
		"HTTP/9.9":                                     "GET / HTTP/9.9\r\nHost: x\r\n\r\n" + inner,
		"the preface of HTTP/2":                        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + inner,
		"a GET with a body that is a request":          "GET /version HTTP/1.1\r\nHost: x\r\n" + length(len(inner)) + "\r\n" + inner,
		"a refused body that is a request":             "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n" + length(len(inner)) + "\r\n" + inner,
		"an upgrade that is not granted, with a body":  "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + length(len(inner)) + "\r\n" + inner,
		"CONNECT with what is to go through it":        "CONNECT /version HTTP/1.1\r\nHost: x\r\n" + length(len(inner)) + "\r\n" + inner,
		"a body that is not invited, and comes anyway": post + "Expect: 100-continue\r\nContent-Type: text/plain\r\n" + length(len(inner)) + "\r\n" + inner,
		"an expectation that nobody knows":             post + "Expect: wonders\r\n" + length(len(inner)) + "\r\n" + inner,
	} {
		t.Run(name, func(t *testing.T) {
			// The connection stays open on this side, as a proxy's does, and the
			// server's timeouts end it.
			id := fmt.Sprintf("outer-%d", rand.Uint64())
			line := strings.IndexByte(raw, '\n') + 1
			c := dial(t, x.url)
			defer c.Close()
			if _, err := io.WriteString(c, raw[:line]+"X-Request-Id: "+id+raw[line-2 : line][:1][:0]+"\r\n"+raw[line:]); err != nil {
				t.Fatal(err)
			}
			statuses := readAnswers(c)
			good := 0
			for i, status := range statuses {
				switch {
				case status == 400 || status == 501 || status == 505 || status == 431 || status == 417:
					if i != len(statuses)-1 {
						t.Errorf("the connection was used after %v", statuses[:i+1])
					}
				default:
					good++
				}
			}
			if good > 1 {
				t.Errorf("there are the answers %v", statuses)
			}
			if strings.Contains(x.stderr.String(), "smuggled") {
				t.Errorf("the request inside was served: %v", statuses)
			}
			if served := strings.Count(x.stderr.String(), id); served > 1 {
				t.Errorf("it was served %d times", served)
			}
			t.Logf("%v", statuses)
		})
		if t.Failed() {
			break
		}
	}
	x.recovers(t)
}
