package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// vanish ends a connection on this side without a word to the other, as a
// machine does that loses its power. It reports whether the system lets it.
func vanish(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) }); err != nil || failed != nil {
		return false
	}
	return c.Close() == nil
}

func TestFaultsHalfOpenConnectionsEnd(t *testing.T) {
	x := startTarget(t, "--header-timeout", "700ms", "--idle-timeout", "700ms", "--transfer-grace", "700ms", "--transfer-rate", "1GiB", "--request-timeout", "1s")
	long := goodRequest{path: longestSweep, mediaType: "application/json"}
	echo := goodRequest{path: "/echo", mediaType: "application/octet-stream", body: make([]byte, 8<<20)}
	begins := map[string][]byte{
		"before a byte":              nil,
		"in the header":              long.raw("")[:30],
		"in the body":                echo.raw("")[:5000],
		"while it is computed":       long.raw(""),
		"while the answer comes":     echo.raw(""),
		"between two requests":       (&goodRequest{path: "/version"}).raw(""),
		"after one and a half of it": append((&goodRequest{path: "/echo"}).raw(""), echo.raw("")[:5000]...),
	}
	rng := rand.New(rand.NewPCG(7, 7))
	x.during(t, 1, func() {
		for where, begin := range begins {
			for i := range 6 {
				c := x.connect(t, rng)
				if c == nil {
					t.FailNow()
				}
				if _, err := c.Write(begin); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Millisecond)
				switch {
				case i%2 == 0: // this side's half is closed, and the other is not read
					_ = c.CloseWrite()
					defer c.Close()
				case !vanish(c):
					t.Logf("%s: this system does not let connections vanish", where)
					_ = c.Close()
				}
			}
		}
	})
	x.recovers(t)
}

// TestFaultsSIGTERMUnderLoad stops a server at a random moment of its work. Each
// request has an id: what the log says was answered 200 its client has got, once
// and whole, and no client has got what the log does not know.
func TestFaultsSIGTERMUnderLoad(t *testing.T) {
	for round := range times(t, 2, 20) {
		x := startTarget(t, "--log-level", "info", "--log-format", "json", "--drain-delay", "100ms")
		good := goodRequests(t)
		var mu sync.Mutex
		answered := map[string]int{}
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				by := &http.Client{Transport: &http.Transport{}}
				defer by.CloseIdleConnections()
				for i := 0; ; i++ {
					id := fmt.Sprintf("load-%d-%d", w, i)
					g := &good[(i*7+w)%len(good)]
					if i%5 == 0 { // some that take long
						g = &goodRequest{path: "/sweep?dataset=gbm42&lengths=6:200:60", mediaType: "application/json"}
					}
					r, err := http.NewRequest("POST", x.url+g.path, bytes.NewReader(g.body))
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Content-Type", g.mediaType)
					r.Header.Set("X-Request-Id", id)
					answer, err := by.Do(r)
					if err != nil {
						return // the server is gone, or about to
					}
					got, err := io.ReadAll(answer.Body)
					_ = answer.Body.Close()
					if err != nil || answer.StatusCode != 200 || g.want != nil && !bytes.Equal(got, g.want) {
						t.Errorf("%s: status %d, %d bytes, %v", id, answer.StatusCode, len(got), err)
					}
					mu.Lock()
					answered[id]++
					mu.Unlock()
				}
			})
		}
		enough := 20 + rand.IntN(400)
		waitFor(t, "some answers", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) >= enough
		})
		x.signal(t, syscall.SIGTERM)
		if err := <-x.ended; err != nil {
			t.Errorf("the process ended with %v", err)
		}
		all.Wait()
		served := map[string]int{}
		for line := range strings.Lines(x.stderr.String()) {
			_, rest, ok := strings.Cut(line, `"id":"load-`)
			if !ok {
				continue
			}
			id, _, _ := strings.Cut(rest, `"`)
			served["load-"+id]++
			if !strings.Contains(line, `"status":200,`) {
				t.Errorf("an accepted request did not finish: %s", line)
			}
		}
		for id, n := range served {
			if n != 1 || answered[id] != 1 {
				t.Errorf("%s was served %d times, and answered %d times", id, n, answered[id])
			}
		}
		for id := range answered {
			if served[id] == 0 {
				t.Errorf("%s was answered, and the log does not know it", id)
			}
		}
		x.sane(t)
		t.Logf("round %d: %d requests, each answered once", round, len(served))
	}
}

func TestFaultsKillAndRestartUnderLoad(t *testing.T) {
	folder := t.TempDir()
	args := []string{"--data-dir", filepath.Join(folder, "data"), "--listen", "unix:" + filepath.Join(folder, "socket")}
	kept := prices(3, 5000)
	for round := range times(t, 3, 30) {
		x := startTarget(t, args...)
		if round == 0 {
			wantBare(t, ask(t, "PUT", x.url+"/datasets/kept", octets(kept...)), 201, tagOf(kept))
		}
		holds(t, x.url, "kept", kept)
		servesOver(t, filepath.Join(folder, "socket"))
		good := goodRequests(t)
		var all sync.WaitGroup
		var killed atomic.Bool
		for w := range 6 {
			all.Go(func() {
				by := &http.Client{Transport: &http.Transport{}}
				defer by.CloseIdleConnections()
				for i := w; ; i++ {
					if err := good[i%len(good)].ask(x.url, by); err != nil {
						if !killed.Load() {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		killed.Store(true)
		x.signal(t, syscall.SIGKILL)
		<-x.ended
		all.Wait()
		client.CloseIdleConnections()
	}
	x := startTarget(t, args...)
	holds(t, x.url, "kept", kept)
	x.recovers(t)
}

// limit sets a limit of the process's resources, and returns what lifts it.
func (x *target) limit(t *testing.T, resource int, most uint64) (lift func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(x.Process.Pid, resource, nil, &old); err != nil {
		t.Fatalf("limits of another process can't be set here: %v", err)
	}
	if err := unix.Prlimit(x.Process.Pid, resource, &unix.Rlimit{Cur: most, Max: old.Max}, nil); err != nil {
		t.Fatalf("limits of another process can't be set here: %v", err)
	}
	return func() {
		if err := unix.Prlimit(x.Process.Pid, resource, &old, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestFaultsAFullDiskIsRefusedAndSweepsGoOn(t *testing.T) {
	x := startTarget(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--log-level", "error")
	small, large := prices(1, 100), prices(2, 50_000)
	wantBare(t, ask(t, "PUT", x.url+"/datasets/small", octets(small...)), 201, tagOf(small))
	lift := x.limit(t, unix.RLIMIT_FSIZE, 64<<10)
	x.during(t, 2, func() {
		for i := range times(t, 50, 5000) {
			r := ask(t, "PUT", x.url+"/datasets/"+[]string{"small", "large"}[i%2], octets(large...))
			wantProblem(t, r, http.StatusInsufficientStorage, "", -1)
			holds(t, x.url, "small", small)
		}
	})
	lift()
	wantBare(t, ask(t, "PUT", x.url+"/datasets/large", octets(large...)), 201, tagOf(large))
	holds(t, x.url, "large", large)
	for _, id := range []string{"small", "large"} {
		ask(t, "DELETE", x.url+"/datasets/"+id, nil)
	}
	x.recovers(t)
}

// spent returns the processor time of the process.
func (x *target) spent(t *testing.T) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", x.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+2:]))
	sum := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * (time.Second / 100)
}

func TestFaultsWithoutDescriptorsItWaitsAndRecovers(t *testing.T) {
	frames := filepath.Join(t.TempDir(), "frames")
	x := startTarget(t, "--frame-listen", "unix:"+frames)
	old := dial(t, x.url)
	in := bufio.NewReader(old)
	version := func() {
		t.Helper()
		if _, err := old.Write([]byte("GET /version HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(in, nil)
		if err != nil || r.StatusCode != 200 {
			t.Fatal(r, err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}
	version()
	lift := x.limit(t, unix.RLIMIT_NOFILE, uint64(x.now(t).descriptors)+10)
	var conns []net.Conn
	for i := range 100 {
		network, at := "tcp", strings.TrimPrefix(x.url, "http://")
		if i%4 == 0 {
			network, at = "unix", frames
		}
		c, err := net.DialTimeout(network, at, time.Second)
		if err != nil {
			continue // the backlog is full
		}
		conns = append(conns, c)
	}
	if len(conns) < 50 {
		t.Errorf("only %d connections were made, which shows little", len(conns))
	}
	waitFor(t, "the descriptors to be used up", func() bool { return strings.Contains(x.stderr.String(), "too many open files") })
	before := x.spent(t)
	const watch = time.Second
	for range 10 {
		version() // who is in is served
		time.Sleep(watch / 10)
	}
	if spent := x.spent(t) - before; spent > watch/2 {
		t.Errorf("in %v of waiting for descriptors it has computed for %v", watch, spent)
	}
	if lines := strings.Count(x.stderr.String(), "too many open files"); lines > 100 {
		t.Errorf("the log has %d lines of it", lines)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	_ = old.Close()
	if err := goodRequests(t)[0].ask(x.url, nil); err != nil {
		t.Errorf("with the connections gone: %v", err)
	}
	lift()
	c := dialFrames(t, "unix:"+frames)
	if got := c.ask(t, frame(t, encoding.OpEcho, []float64{1})); len(got) != 8 {
		t.Errorf("a frame got %d bytes", len(got))
	}
	_ = c.Close()
	x.recovers(t)
}

func TestFaultsLittleMemoryIsEnough(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "48MiB")
	x := startTarget(t, "--body-max", "4MiB", "--memory-max", "32MiB", "--log-level", "error")
	series := slices.Repeat(gbm42.Close(), 3)
	var large []goodRequest
	for _, f := range formats {
		if body := encode(t, f.codec, &encoding.Request{Close: series[:170_000]}); len(body) < 4<<20 {
			large = append(large, goodRequest{"/echo", f.mediaType, body, body})
		}
	}
	var all sync.WaitGroup
	var sent atomic.Int64
	duration, _ := long(t, 2*time.Second)
	end := time.Now().Add(min(duration, time.Minute))
	for w := range 12 {
		all.Go(func() {
			for i := w; time.Now().Before(end); i++ {
				if err := large[i%len(large)].ask(x.url, nil); err != nil {
					t.Error(err)
					return
				}
				sent.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d bodies of megabytes", sent.Load())
	x.recovers(t)
}

// TestFaultsShortBodiesThatStandForMuch sends many of them at a time.
func TestFaultsShortBodiesThatStandForMuch(t *testing.T) {
	const memory = 64 << 20
	_, whole := long(t, 0)
	x := startTarget(t, "--body-max", "8MiB", "--memory-max", strconv.Itoa(memory), "--queue-time", "2s", "--log-level", "error")
	requests := []goodRequest{
		{path: "/sweep?lengths=6:200:100000", mediaType: "application/octet-stream", body: octets(1), want: make([]byte, 16*100_000)}, // of one bar nothing comes
		{path: "/echo", mediaType: "application/vnd.msgpack", body: onesOfAByte()},
	}
	requests[1].want = encode(t, encoding.MessagePack, &encoding.Request{Close: slices.Repeat([]float64{1}, 900_000)})
	var all sync.WaitGroup
	for w := range times(t, 30, 300) {
		all.Go(func() {
			by := &http.Client{Transport: &http.Transport{}}
			defer by.CloseIdleConnections()
			for i := range times(t, 2, 20) {
				if err := requests[(w+i)%2].ask(x.url, by); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	const garbage = 32 << 20 // of series and answers, which come faster than they are collected
	if peak := x.peak(t); whole && peak > memory+64<<20+garbage {
		t.Errorf("the process took %d MiB", peak>>20)
	}
	x.recovers(t)
}

// TestFaultsOverload offers three times as many sweeps as can be computed, at
// fixed times, whether the earlier ones are answered or not.
func TestFaultsOverload(t *testing.T) {
	duration, whole := long(t, 3*time.Second)
	const memory = 64 << 20
	bound := 2 * time.Second
	if !whole {
		bound = 500 * time.Millisecond
	}
	x := startTarget(t, "--log-level", "error", "--body-max", "4MiB", "--memory-max", strconv.Itoa(memory), "--queue-time", bound.String())
	// Sweeps of four kinds, of which one brings its series. How much each is to
	// compute is up to the machine.
	combos := func(n int) string { return fmt.Sprintf("6:200:%d", n) }
	series := gbm42.Close()
	make := func(n int) goodRequest {
		lengths, err := encoding.ParseLengths(combos(n), encoding.Limits{Combos: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		var windows []kernel.Params
		for _, l := range lengths {
			windows = append(windows, kernel.Expand(l))
		}
		var res kernel.Results
		if err := kernel.Sweep(t.Context(), series, windows, kernel.DefaultFee, 0, &res); err != nil {
			t.Fatal(err)
		}
		want, err := encoding.Octet.AppendResults(nil, &res)
		if err != nil {
			t.Fatal(err)
		}
		return goodRequest{path: "/sweep?lengths=" + combos(n), mediaType: "application/octet-stream", body: octets(series...), want: want}
	}
	n := 8
	for ; n < 800; n *= 2 {
		g, best := make(n), time.Hour
		for range 5 {
			began := time.Now()
			if err := g.ask(x.url, nil); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
		}
		if best > 20*time.Millisecond { // so that HTTP, and this client, are not what is overloaded
			break
		}
	}
	kinds := []goodRequest{make(n), make(max(2, n/4)), make(2 * n), make(n)}
	for i := range kinds[:3] { // the last one sends the series
		kinds[i].path += "&dataset=gbm42"
		kinds[i].body = nil
	}
	by := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	var wrong, good, refused atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	send := func(g *goodRequest) {
		began := time.Now()
		r, err := http.NewRequest("POST", x.url+g.path, bytes.NewReader(g.body))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", g.mediaType)
		r.Header.Set("Accept", "application/octet-stream")
		answer, err := by.Do(r)
		if err != nil {
			if wrong.Add(1) < 10 {
				t.Error(err)
			}
			return
		}
		got, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case err == nil && answer.StatusCode == 200 && bytes.Equal(got, g.want):
			good.Add(1)
			mu.Lock()
			took = append(took, time.Since(began))
			mu.Unlock()
		case err == nil && answer.StatusCode == 503 && answer.Header.Get("Retry-After") != "":
			refused.Add(1)
		default:
			if wrong.Add(1) < 10 {
				t.Errorf("%s: status %d, %d bytes, %v", g.path, answer.StatusCode, len(got), err)
			}
		}
	}
	// The peak: as many clients as keep all cores busy, each waiting for its
	// answer.
	var all sync.WaitGroup
	calm := duration / 5
	began := time.Now()
	for w := range 6 {
		all.Go(func() {
			for i := w; time.Since(began) < calm; i++ {
				send(&kinds[i%len(kinds)])
			}
		})
	}
	all.Wait()
	peak := float64(good.Load()) / time.Since(began).Seconds()
	took = took[:0]
	good.Store(0)

	every := time.Duration(float64(time.Second) / peak / 3)
	began = time.Now()
	sent := 0
	for next := began; time.Since(began) < duration; sent++ {
		time.Sleep(time.Until(next))
		next = next.Add(every)
		kind := &kinds[sent%len(kinds)]
		all.Go(func() { send(kind) })
	}
	offered := time.Since(began)
	all.Wait()
	goodput := float64(good.Load()) / time.Since(began).Seconds()
	slices.Sort(took)
	p99 := time.Duration(math.MaxInt64)
	if len(took) > 0 {
		p99 = took[len(took)*99/100]
	}
	t.Logf("at most %.1f a second; offered for %v: %.1f a second; answered %.1f a second (%.0f%%), %d refused; p50 %v, p99 %v of a bound of %v; %d wrong; at most %d MiB of memory",
		peak, offered.Round(time.Second), float64(sent)/offered.Seconds(), goodput, 100*goodput/peak, refused.Load(), took[len(took)/2], p99, bound, wrong.Load(), x.peak(t)>>20)
	if wrong.Load() > 0 {
		t.Errorf("%d answers are wrong", wrong.Load())
	}
	if refused.Load() == 0 {
		t.Error("nothing was refused: this was no overload")
	}
	if whole {
		if goodput < 0.9*peak {
			t.Errorf("%.1f of %.1f a second were answered", goodput, peak)
		}
		if p99 > 2*bound {
			t.Errorf("one in a hundred took %v, with a bound of %v", p99, bound)
		}
		if x.peak(t) > memory+64<<20 {
			t.Errorf("the process took %d bytes", x.peak(t))
		}
	}
	by.CloseIdleConnections()
	x.recovers(t)
}
