package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"texttax/kernel/gbm42"
)

// server is the program, started as a user would, on a free port.
type server struct {
	url    string
	admin  string   // of --admin-listen
	frames []string // of each --frame-listen
	log    *lockedBuffer
	stop   func() error // drains and returns what run returned; may be called twice
}

// lockedBuffer can be read while the server writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs texttax serve with more arguments, and stops it with the test.
func start(t testing.TB, args ...string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stdout, out := io.Pipe()
	s := &server{log: new(lockedBuffer)}
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--drain-delay", "0s"}, args...), out, s.log)
		_ = out.CloseWithError(io.EOF)
		ended <- err
	}()
	s.stop = sync.OnceValue(func() error {
		// Connections that the client has opened and never used would be waited
		// for: a first request could be on its way.
		client.CloseIdleConnections()
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	lines := bufio.NewScanner(stdout)
	want := 1
	for _, a := range args {
		switch a {
		case "--listen", "--admin-listen", "--frame-listen":
			want++
		}
	}
	for range want {
		if !lines.Scan() {
			t.Fatalf("the server did not start: %v\n%s", s.stop(), s.log)
		}
		switch what, at, _ := strings.Cut(lines.Text(), " on "); what {
		case "serving":
			s.url = cmp.Or(s.url, at)
		case "admin":
			s.admin = at
		case "frames":
			s.frames = append(s.frames, at)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return s
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// client has no timeout, and neither have the connections of dial: how long an
// answer takes is up to the machine. One that never comes ends with go test's.
var client = &http.Client{
	Transport: &http.Transport{
		DisableCompression:  true,
		MaxIdleConnsPerHost: 100,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ask sends a request. Headers come in pairs of name and value.
func ask(t testing.TB, method, url string, body []byte, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: the answer broke off after %d bytes: %v", method, url, len(got), err)
	}
	return reply{answer.StatusCode, answer.Header, got}
}

// problem is what the body of a refusal must be.
type problem struct {
	Type, Title, Detail, Instance, Field string
	Status                               int
	Index                                *int
}

// wantProblem checks that an answer is a refusal as RFC 9457 has it.
func wantProblem(t testing.TB, r reply, status int, field string, index int) problem {
	t.Helper()
	var p problem
	if r.status != status {
		t.Errorf("status %d, not %d: %s", r.status, status, r.body)
		return p
	}
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	got := -1
	if p.Index != nil {
		got = *p.Index
	}
	if p.Field != field || got != index {
		t.Errorf("blames %s[%d], not %s[%d]: %s", p.Field, got, field, index, r.body)
	}
	if p.Status != status || p.Title == "" || p.Detail == "" || !strings.HasPrefix(p.Type, "urn:texttax:problem:") ||
		p.Instance != r.header.Get("X-Request-Id") {
		t.Errorf("the problem is not complete: %s", r.body)
	}
	return p
}

func TestABusyPortIsAnErrorAtOnce(t *testing.T) {
	s := start(t)
	err := run(context.Background(), []string{"serve", "--listen", strings.TrimPrefix(s.url, "http://")}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the second server ended with: %v", err)
	}
	if r := ask(t, "GET", s.url+"/healthz", nil); r.status != 200 {
		t.Errorf("the first server answers %d", r.status)
	}
}

func TestSeveralAddressesServeTheSame(t *testing.T) {
	s := start(t, "--listen", "127.0.0.1:0")
	if r := ask(t, "GET", s.url+"/healthz", nil); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
}

func TestAnAdminAddressTakesTheOperationsAway(t *testing.T) {
	s := start(t, "--admin-listen", "127.0.0.1:0")
	for _, path := range []string{"/metrics", "/live", "/healthz", "/readyz", "/debug/pprof/"} {
		if r := ask(t, "GET", s.admin+path, nil); r.status != 200 {
			t.Errorf("%s on the admin address: %d", path, r.status)
		}
		if r := ask(t, "GET", s.url+path, nil); r.status != 404 {
			t.Errorf("%s on the public address: %d", path, r.status)
		}
	}
	wantProblem(t, ask(t, "POST", s.admin+"/sweep", nil), 404, "", -1)
}

func TestThereIsNoPprofOnThePublicAddress(t *testing.T) {
	s := start(t)
	wantProblem(t, ask(t, "GET", s.url+"/debug/pprof/", nil), 404, "", -1)
}

func TestHelpTeaches(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}} {
		var out bytes.Buffer
		if err := run(context.Background(), args, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"texttax", "sweep"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v does not speak of %s:\n%s", args, want, &out)
			}
		}
	}
}

func TestAWrongCommandLineIsRefusedWithStatus2(t *testing.T) {
	for _, args := range [][]string{
		{}, {"serv"}, {"serve", "--lisen", ":0"}, {"serve", "--body-max", "lots"}, {"serve", "--body-max", "0B"}, {"serve", "--body-max", "-1"}, {"serve", "--listen", ""}, {"serve", "--listen", ":0,,:0"}, {"serve", "--frame-listen", ":0,,:0"}, {"serve", "--listen", "shm:/x"}, {"serve", "--socket-mode", "999"},
		{"serve", "--compress", "maybe"}, {"serve", "--slots", "-1"}, {"serve", "--idle-timeout", "0s"},
	} {
		err := run(context.Background(), args, io.Discard, io.Discard)
		if exitStatus(err) != 2 {
			t.Errorf("%q: status %d, %v", args, exitStatus(err), err)
		}
	}
}

func TestFlagsHaveTwinsInTheEnvironment(t *testing.T) {
	t.Setenv("TEXTTAX_BARS_MAX", "3")
	t.Setenv("TEXTTAX_ADMIN_LISTEN", "") // as a file of variables without a value has it
	s := start(t)
	wantProblem(t, ask(t, "POST", s.url+"/sweep?lengths=6", make([]byte, 32)), 422, "close", -1)
}

func TestTheListenersStayOpenForTheDrainDelay(t *testing.T) {
	const delay = 50 * time.Millisecond
	s := start(t, "--drain-delay", delay.String())
	began := time.Now()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("the server stopped after %v", took)
	}
}

// heldRequest is a sweep that the server has begun to serve, and can't answer
// before the rest of its body comes.
type heldRequest struct {
	conn *net.TCPConn
	in   *bufio.Reader
	rest []byte
}

// hold sends the request, but for the last half of its body.
func hold(t testing.TB, url string) *heldRequest {
	t.Helper()
	body := octets(gbm42.Close()...)
	h := &heldRequest{conn: dial(t, url), rest: body[len(body)/2:]}
	h.in = bufio.NewReader(h.conn)
	const head = "POST /sweep?lengths=6,8 HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
	if _, err := fmt.Fprintf(h.conn, head, len(body)); err != nil {
		t.Fatal(err)
	}
	// It comes when the body is asked for.
	if r, err := http.ReadResponse(h.in, nil); err != nil || r.StatusCode != http.StatusContinue {
		t.Fatalf("the request was not taken: %v, %v", r, err)
	}
	if _, err := h.conn.Write(body[:len(body)-len(h.rest)]); err != nil {
		t.Fatal(err)
	}
	return h
}

// finish sends the rest of the request, and checks the answer.
func (h *heldRequest) finish(t testing.TB) {
	t.Helper()
	if _, err := h.conn.Write(h.rest); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(h.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || !bytes.HasPrefix(body, []byte(`{"pnl":[-5165.584357716994,`)) {
		t.Errorf("the accepted request got %d, %v: %.200s", r.StatusCode, err, body)
	}
}

// untilClosed returns once nobody listens at url any more.
func untilClosed(url string) {
	for {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return
		}
		_ = c.Close()
		time.Sleep(time.Millisecond)
	}
}

func TestAcceptedRequestsFinishWhileTheServerDrains(t *testing.T) {
	s := start(t)
	accepted := hold(t, s.url)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	untilClosed(s.url)
	accepted.finish(t)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// settle waits until all requests that have been answered are counted: an
// answer is out before what it has cost is known.
func settle(t testing.TB, s *server) {
	t.Helper()
	for metric(t, s, "texttax_requests_in_flight") != 1 { // the one that asks
		time.Sleep(time.Millisecond)
	}
}

// metric returns the value of a series, as /metrics shows it: its name with
// all its labels.
func metric(t testing.TB, s *server, series string) float64 {
	t.Helper()
	for line := range strings.Lines(string(ask(t, "GET", s.url+"/metrics", nil).body)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	t.Fatalf("there is no series %s", series)
	return 0
}
