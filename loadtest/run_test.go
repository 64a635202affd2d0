package loadtest

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAFrozenServerShowsInTheQuantiles is a run at a fixed rate against a
// server that freezes for half of it. The calls that are due in the freeze
// wait for the rest of it: a quarter of all for longer than half the freeze.
func TestAFrozenServerShowsInTheQuantiles(t *testing.T) {
	length := 3 * time.Second
	if text := os.Getenv("TEXTTAX_FROZEN_SERVER"); text != "" { // such as 10s
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	freeze := length / 2
	const attempts = 5
	for i := 1; ; i++ {
		r := runAgainstAFreeze(t, length, freeze)
		if want := int64(100 * length.Seconds()); r.Answered() != want || r.Dropped != 0 {
			t.Errorf("%d calls were answered and %d dropped of %d", r.Answered(), r.Dropped, want)
		}
		t.Logf("%s frozen of %s: p75 %.3f s, p99 %.3f s; from the true start p75 %.6f s, p99 %.6f s", freeze, length, r.Latency.P75, r.Latency.P99, r.Service.P75, r.Service.P99)
		p75, p99 := freeze.Seconds()/2, 0.98*freeze.Seconds()
		if r.Latency.P75 < 0.9*p75 || r.Latency.P99 < 0.9*p99 {
			t.Fatalf("the freeze hides: p75 should be %.3f s, and p99 %.3f s", p75, p99)
		}
		if late := r.Late; late < int64(40*length.Seconds()) {
			t.Errorf("%d calls count as late", late)
		}
		// On a machine that has other things to do calls take longer, and never
		// shorter: another attempt may find it quieter.
		if r.Latency.P75 < 1.2*p75 && r.Latency.P99 < 1.2*p99 && r.Service.P90 < p75/4 {
			return
		}
		if i == attempts {
			t.Fatalf("in none of %d attempts p75 was near %.3f s and p99 near %.3f s", attempts, p75, p99)
		}
	}
}

// runAgainstAFreeze sends 100 calls a second, on two connections, to a server
// that stops answering after a quarter of the time.
func runAgainstAFreeze(t *testing.T, length, freeze time.Duration) *Result {
	t.Helper()
	var calls atomic.Int64
	var thaw time.Time
	begun := make(chan struct{})
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1: // the call before the run
		case 2: // the run's first
			thaw = time.Now().Add(length/4 + freeze)
			close(begun)
		default:
			<-begun
			if left := time.Until(thaw); left > 0 && left < freeze {
				time.Sleep(left)
			}
		}
		serveCall(w, r)
	})
	p := tiny(t, b)
	p.Connections, p.Pacer, p.Duration = 2, Constant(100), length
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCallersKeepTheirConnections(t *testing.T) {
	requests := int64(20_000)
	if os.Getenv("TEXTTAX_ALL_CONNECTIONS") != "" {
		requests = 200_000
	}
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(serveCall))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	p := tiny(t, boundary(t, server.URL))
	p.Connections, p.Count = 64, requests
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered() != requests || opened.Load() != 64 || r.Dials != 64 || r.Redials != 0 {
		t.Errorf("%d calls were answered over %d connections; the result says %d, %d of them in the place of others", r.Answered(), opened.Load(), r.Dials, r.Redials)
	}
}

func TestAServerThatHangsUpAfterEachAnswerIsToldOf(t *testing.T) {
	p := tiny(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		serveCall(w, r)
	}))
	p.Count = 10
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Answered() != 10 || r.Redials != 10 || !strings.Contains(strings.Join(r.Self.Warnings, "\n"), "connections were not all kept") {
		t.Errorf("%d answered, %d connections in the place of others: %q", r.Answered(), r.Redials, r.Self.Warnings)
	}
}

func TestAServerThatDiesEndsTheRunWithWhatWasFound(t *testing.T) {
	var calls atomic.Int64
	var server *httptest.Server
	died := make(chan struct{})
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 101 {
			_ = server.Listener.Close()
			close(died)
		}
		select {
		case <-died:
			panic(http.ErrAbortHandler)
		default:
			serveCall(w, r)
		}
	}))
	defer server.Close()
	p := tiny(t, boundary(t, server.URL))
	p.Connections, p.Duration = 4, time.Minute
	r, err := Run(t.Context(), p)
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the run ended with: %v", err)
	}
	if r == nil || r.Answered() < 90 || r.Outcomes["broken"] == 0 || r.Outcomes["dial_failed"] == 0 {
		t.Errorf("the result is %+v", r)
	}
}

func TestWrongNumbersEndTheRun(t *testing.T) {
	for name, spoil := range map[string]func([]byte){
		"profit":     func(b []byte) { b[5] ^= 0x80 },
		"trades":     func(b []byte) { b[len(b)-8]++ },
		"two combos": func(b []byte) { copy(b[:8], b[8:16]) },
	} {
		var calls atomic.Int64
		b := serve(t, func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			serveCall(rec, r)
			body := rec.Body.Bytes()
			if calls.Add(1) > 5 {
				spoil(body)
			}
			_, _ = w.Write(body)
		})
		r, err := Run(t.Context(), Plan{Scenario: Scenario{b, format(t, "octet"), Chunky, false}, Work: small(t), Duration: time.Minute})
		if !errors.Is(err, ErrWrongReply) || !strings.Contains(err.Error(), "combo ") {
			t.Errorf("%s: the run ended with: %v", name, err)
		}
		if r == nil || r.Answered() != 4 || r.Outcomes["wrong"] != 1 {
			t.Errorf("%s: the result is %+v", name, r)
		}
	}
}

func TestAProfitThatIsOffByLessThanAMillionthIsRight(t *testing.T) {
	job, err := small(t).Cut(Chunky, format(t, "octet"))
	if err != nil {
		t.Fatal(err)
	}
	c := job.Calls[0]
	got := *c.Want
	for delta, right := range map[float64]bool{0: true, 9e-7: true, -9e-7: true, 2e-6: false, -2e-6: false, math.NaN(): false} {
		got.PnL = append([]float64(nil), c.Want.PnL...)
		got.PnL[1] += delta
		if err := c.Verify(&got, nil); (err == nil) != right {
			t.Errorf("off by %v: %v", delta, err)
		}
	}
	got.PnL = c.Want.PnL
	got.Open = []int8{0, 0, 0}
	if c.Verify(&got, nil) == nil {
		t.Error("wrong open sides are right")
	}
	echo := echoOf([]float64{1, math.Copysign(0, -1)})
	if echo.Verify(nil, []float64{1, 0}) == nil || echo.Verify(nil, []float64{1}) == nil || echo.Verify(nil, echo.Request.Close) != nil {
		t.Error("echoes are not compared bit for bit")
	}
}

func TestInstantRefusalsAmongSlowAnswersStayApart(t *testing.T) {
	var calls atomic.Int64
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := calls.Add(1); n > 1 && n%10 < 7 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		time.Sleep(30 * time.Millisecond)
		serveCall(w, r)
	})
	p := tiny(t, b)
	p.Count = 100
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcomes["throttled"] != 70 || r.Answered() != 30 || r.Latency.Count != 30 || r.Refusals.Count != 70 {
		t.Errorf("outcomes %v, %d latencies, %d refusals", r.Outcomes, r.Latency.Count, r.Refusals.Count)
	}
	if r.Latency.Min < 0.03 || r.Refusals.P50 > 0.02 {
		t.Errorf("the fastest answer took %v s, refusals %v s", r.Latency.Min, r.Refusals.P50)
	}
	var out strings.Builder
	if err := WriteSummary(&out, r); err != nil || !strings.Contains(out.String(), "refused with 429 or 503: 70") {
		t.Errorf("%v: the summary is\n%s", err, &out)
	}
}

func TestACallThatIsNotAnsweredAtAllIsAnErrorBeforeTheRun(t *testing.T) {
	for name, test := range map[string]struct {
		b    Boundary
		want string
	}{
		"another path": {&HTTP{Network: "tcp", Address: serve(t, http.NotFound).Address, Host: "x"}, "answered with 404"},
		"nobody":       {&HTTP{Network: "tcp", Address: closedPort(t), Host: "x"}, "connection refused"},
		"no host":      {&HTTP{Network: "tcp", Address: "texttax.invalid:80", Host: "x"}, "texttax.invalid"},
		"no socket":    {&HTTP{Network: "unix", Address: filepath.Join(t.TempDir(), "s"), Host: "x"}, "no such file"},
		"TLS":          {tlsServer(t), "answered with 400: Client sent an HTTP request to an HTTPS server"},
	} {
		p := tiny(t, test.b)
		p.Count, p.Timeout = 1, 10*time.Second
		if r, err := Run(t.Context(), p); r != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tlsServer is a server that speaks TLS, behind a boundary that does not.
func tlsServer(t *testing.T) *HTTP {
	server := httptest.NewUnstartedServer(http.HandlerFunc(serveCall))
	server.Config.ErrorLog = discard
	server.StartTLS()
	t.Cleanup(server.Close)
	return boundary(t, strings.Replace(server.URL, "https", "http", 1))
}

func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(serveCall))
	server.Config.ErrorLog = discard
	server.StartTLS()
	defer server.Close()
	b := boundary(t, server.URL)
	p := tiny(t, b)
	p.Count = 3
	if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "TLS with "+b.Address) || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a certificate that nobody knows: %v", err)
	}
	b.TLSConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	if r, err := Run(t.Context(), p); err != nil || r.Answered() != 3 || r.Boundary != "https-tcp" {
		t.Errorf("with its certificate: %v", err)
	}
	plain := boundary(t, strings.Replace(serve(t, serveCall).Address, "127", "https://127", 1))
	p.Boundary = plain
	if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "TLS with") {
		t.Errorf("TLS with a server that has none: %v", err)
	}
}

func TestTheWarmUpIsNotPartOfTheResults(t *testing.T) {
	var start time.Time
	var once sync.Once
	var calls atomic.Int64
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 1 {
			once.Do(func() { start = time.Now() })
			if time.Since(start) < 200*time.Millisecond {
				time.Sleep(50 * time.Millisecond)
			}
		}
		serveCall(w, r)
	})
	p := tiny(t, b)
	p.Warmup, p.Count = 300*time.Millisecond, 20
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Warmups < 4 || r.Answered() != 20 || r.Latency.P50 > 0.04 {
		t.Errorf("%d calls warm up, %d count, their median is %v s", r.Warmups, r.Answered(), r.Latency.P50)
	}
}

func TestARunEndsOnceItIsStable(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond) // so that noise is little beside it
		serveCall(w, r)
	})
	p := tiny(t, b)
	p.Stable, p.Window, p.Duration = true, 200*time.Millisecond, time.Minute
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Stable || len(r.Windows) < 3 || r.Elapsed > 50 {
		t.Errorf("stable: %v after %d windows in %v s", r.Stable, len(r.Windows), r.Elapsed)
	}
}

func TestStability(t *testing.T) {
	for _, test := range []struct {
		medians []float64
		want    bool
	}{
		{nil, false}, {[]float64{1, 1}, false}, {[]float64{1, 1, 1}, true}, {[]float64{1, 1.09, 1}, true},
		{[]float64{1, 1.11, 1}, false}, {[]float64{9, 1, 1, 1.05}, true}, {[]float64{0, 0, 0}, false},
	} {
		var windows []Window
		for _, m := range test.medians {
			windows = append(windows, Window{P50: m})
		}
		if got := stable(windows); got != test.want {
			t.Errorf("medians %v: %v", test.medians, got)
		}
	}
}

func TestCallsThatAreDueAndNeverBeginAreDropped(t *testing.T) {
	var calls atomic.Int64
	over := make(chan struct{})
	defer close(over)
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > 1 {
			<-over
			return
		}
		serveCall(w, r)
	})
	p := tiny(t, b)
	p.Pacer, p.Duration, p.Timeout = Constant(100), 500*time.Millisecond, 700*time.Millisecond
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	// The first holds the only connection for 0.7 s, and a second until the end.
	if r.Outcomes["timed_out"] < 1 || r.Outcomes["timed_out"]+r.Dropped != 50 || r.Dropped < 45 || r.Answered() != 0 {
		t.Errorf("outcomes %v, %d dropped", r.Outcomes, r.Dropped)
	}
}

func TestAnInterruptedRunKeepsItsResult(t *testing.T) {
	b := serve(t, serveCall)
	ctx, cancel := context.WithCancel(t.Context())
	p := tiny(t, b)
	p.Duration = time.Minute
	n := 0
	p.Observe = func(*Record) {
		if n++; n == 100 {
			cancel()
		}
	}
	r, err := Run(ctx, p)
	if !errors.Is(err, context.Canceled) || r == nil || r.Answered() < 99 || r.Failed() != 0 {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestPhasesLeaveNoGap(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server-Timing", "transit_in;dur=9999, decode;dur=0.25, queue;dur=0.000001, compute;dur=1.5, encode;dur=0.125, cache;desc=x;dur=7")
		time.Sleep(3 * time.Millisecond)
		serveCall(w, r)
	})
	p := tiny(t, b)
	p.Count = 20
	p.Observe = func(r *Record) {
		sum := time.Duration(0)
		for _, phase := range Phases() {
			spent, _ := r.Phase(phase)
			sum += spent
		}
		if sum != r.Service() {
			t.Errorf("phases of %v in a call of %v", sum, r.Service())
		}
		if !(r.Scheduled <= r.Started && r.Started <= r.Sent && r.Sent < r.FirstByte && r.FirstByte <= r.Done && r.Done <= r.Decoded) {
			t.Errorf("times out of order: %+v", r)
		}
	}
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for phase, want := range map[Phase]float64{Decode: 0.25e-3, Queue: 1e-9, Compute: 1.5e-3, Encode: 0.125e-3} {
		if got := r.Phase(phase); got.Count != 20 || math.Abs(got.Total/20-want) > 1e-12 {
			t.Errorf("%s takes %v s a call, not %v", phase, got.Total/20, want)
		}
	}
	// A wall of at least 3 ms less 1.875 ms.
	if got := r.Phase(Transit); got.Min < 0.0011 {
		t.Errorf("transit takes %v s", got.Min)
	}
	if r.Phase(Unsplit).Count+r.Phase(Decompress).Count != 0 {
		t.Error("there are phases that nobody told of")
	}
}

func TestAServerThatClaimsMoreTimeThanThereWasIsToldOf(t *testing.T) {
	p := tiny(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server-Timing", "compute;dur=60000")
		serveCall(w, r)
	}))
	p.Count = 3
	r, err := Run(t.Context(), p)
	if err != nil || !strings.Contains(strings.Join(r.Self.Warnings, "\n"), "in 3 calls the server claims") {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestARunThatWouldNeverEndIsRefused(t *testing.T) {
	if _, err := Run(t.Context(), tiny(t, InProcess)); err == nil {
		t.Error("it ran")
	}
}
