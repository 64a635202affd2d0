package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"texttax/encoding"
	"texttax/handlers"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// poison is what parts of a request panic with, if its price or header says so.
const poison = "poison"

// Prices that begin a series which is poison to a part of the way.
const (
	poisonsDecode = 66601
	poisonsEncode = 66602
)

// poisonedCodec is octets that panic.
type poisonedCodec struct {
	encoding.Codec
	encodes bool // the next answer is poison
}

func (c *poisonedCodec) Decode(body []byte, req *encoding.Request) error {
	err := c.Codec.Decode(body, req)
	if err == nil && len(req.Close) > 0 {
		c.encodes = req.Close[0] == poisonsEncode
		if req.Close[0] == poisonsDecode {
			panic(poison)
		}
	}
	return err
}

func (c *poisonedCodec) AppendResults(dst []byte, res *kernel.Results) ([]byte, error) {
	if c.encodes {
		panic(poison)
	}
	return c.Codec.AppendResults(dst, res)
}

// poisonedBody panics once so many bytes are read.
type poisonedBody struct {
	io.ReadCloser
	left int
}

func (b *poisonedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		panic(poison)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// poisonedContext panics when the kernel asks it: in a goroutine of its own, or
// in that of the request.
type poisonedContext struct {
	context.Context
	worker bool
}

func (c poisonedContext) Err() error {
	stack := string(debug.Stack())
	if strings.Contains(stack, "Pass).work(") && strings.Contains(stack, "texttax/handlers.") != c.worker {
		panic(poison)
	}
	return c.Context.Err()
}

// poisoner passes requests on to the real stack, poisoned as they wish.
func poisoner(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Poison") {
		case "body":
			r.Body = &poisonedBody{r.Body, 100_000}
		case "worker":
			r = r.WithContext(poisonedContext{r.Context(), true})
		case "caller":
			r = r.WithContext(poisonedContext{r.Context(), false})
		}
		next.ServeHTTP(w, r)
	})
}

// poisonedConn is a connection whose reads or writes panic after some bytes.
type poisonedConn struct {
	net.Conn
	reads, writes int
}

func (c *poisonedConn) Read(p []byte) (int, error) {
	if c.reads <= 0 {
		panic(poison)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.reads)])
	c.reads -= n
	return n, err
}

func (c *poisonedConn) Write(p []byte) (int, error) {
	if len(p) > c.writes {
		panic(poison)
	}
	c.writes -= len(p)
	return c.Conn.Write(p)
}

// poisonedListener poisons the connections that it is told to.
type poisonedListener struct {
	net.Listener
	next chan poisonedConn // limits of the next connection, if there are any
}

func (l *poisonedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	select {
	case p := <-l.next:
		p.Conn = conn
		return &p, err
	default:
		return conn, err
	}
}

// framesServe checks that a new connection has its frame answered.
func framesServe(t *testing.T, at string) {
	t.Helper()
	c := dialFrames(t, at)
	if got := c.ask(t, frame(t, encoding.OpEcho, []float64{1, 2})); len(got) != 16 {
		t.Errorf("a new connection got %d bytes", len(got))
	}
	_ = c.Close()
}

// After a panic the process lives, the request gets a 500 with its id, and
// everything that it had is given back.
func TestAPanicAnywhereIsA500AndLosesNothing(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // or there is no worker
	}
	octet := encoding.Octet
	encoding.Octet = &poisonedCodec{Codec: octet}
	log := new(lockedBuffer)
	stack := newStack(handlers.Config{Queue: handlers.DefaultQueue, Log: slog.New(slog.NewJSONHandler(log, nil))}, &guards{flags: new(security)}, 2048, false)
	web := httptest.NewServer(poisoner(stack.public))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := &poisonedListener{tcp, make(chan poisonedConn, 1)}
	frames := stack.frames(2048, handlers.FrameTimeouts{Idle: time.Minute, Frame: time.Minute})
	go func() { _ = frames.Serve(listener) }()
	defer func() {
		_ = frames.Close()
		web.Close()
		encoding.Octet = octet
	}()
	s := &server{url: web.URL, log: log}
	at := "tcp:" + tcp.Addr().String()

	long := gbm42.Close()
	poisoned := func(price float64) []float64 { return append([]float64{price}, long...) }
	stillServes(t, s)
	settle(t, s)
	framesServe(t, at)
	atStart := goleak.IgnoreCurrent() // each by its number: how many there are says little, some of them end
	panics := 0.0
	const overHTTP = 5
	check := func(t *testing.T) {
		t.Helper()
		panics++
		settle(t, s)
		for series, want := range map[string]float64{
			"texttax_panics_total":                                panics,
			"texttax_compute_slots_busy":                          0,
			"texttax_queue_depth":                                 0,
			"texttax_body_memory_reserved_bytes":                  0,
			`texttax_rejected_total{reason="internal-error"}`:     panics,
			`texttax_requests_total{code="500",endpoint="sweep"}`: min(panics, overHTTP),
			`texttax_requests_total{code="500",endpoint="frame"}`: max(0, panics-overHTTP),
		} {
			if got := metric(t, s, series); got != want {
				t.Errorf("%s is %v, not %v", series, got, want)
			}
		}
		stillServes(t, s)
		settle(t, s)
		client.CloseIdleConnections()
		left := goleak.Find(atStart)
		for deadline := time.Now().Add(20 * time.Second); left != nil && time.Now().Before(deadline); {
			left = goleak.Find(atStart)
		}
		if left != nil {
			t.Error(left)
		}
	}
	for name, request := range map[string]struct {
		series []float64
		poison string
	}{
		"while the body is read":        {long, "body"},
		"in the codec, on the way in":   {poisoned(poisonsDecode), ""},
		"in the codec, on the way out":  {poisoned(poisonsEncode), ""},
		"in a goroutine of the kernel":  {long, "worker"},
		"in the kernel, of the request": {long, "caller"},
	} {
		t.Run("HTTP, "+name, func(t *testing.T) {
			before := len(log.String())
			r := ask(t, "POST", s.url+"/sweep?lengths=6:200:80", octets(request.series...), "Poison", request.poison)
			p := wantProblem(t, r, 500, "", -1)
			if strings.Contains(string(r.body), poison) {
				t.Errorf("the client learns too much: %s", r.body)
			}
			line := logged(s, before, `"msg":"panic"`)
			if p.Instance == "" || !strings.Contains(line, `"id":"`+p.Instance+`"`) || !strings.Contains(line, poison) || !strings.Contains(line, "goroutine") {
				t.Errorf("the log does not tell of %s: %s", p.Instance, line)
			}
			check(t)
		})
	}
	for name, bad := range map[string]struct {
		conn   poisonedConn
		series []float64
		op     encoding.Op
	}{
		"while it waits for a frame":   {poisonedConn{reads: 0, writes: 1 << 30}, nil, encoding.OpEcho},
		"in the middle of a frame":     {poisonedConn{reads: 300_000, writes: 1 << 30}, long, encoding.OpEcho},
		"while the reply goes out":     {poisonedConn{reads: 1 << 30, writes: 10}, long, encoding.OpEcho},
		"in the codec, on the way in":  {poisonedConn{reads: 1 << 30, writes: 1 << 30}, poisoned(poisonsDecode), encoding.OpEcho},
		"in the codec, on the way out": {poisonedConn{reads: 1 << 30, writes: 1 << 30}, poisoned(poisonsEncode), encoding.OpSweep},
	} {
		t.Run("frames, "+name, func(t *testing.T) {
			before := len(log.String())
			listener.next <- bad.conn
			c := dialFrames(t, at)
			go func() { _, _ = c.Write(frame(t, bad.op, bad.series, kernel.Expand(6))) }()
			if got, err := c.reply(); err == nil {
				t.Errorf("a reply of %d bytes came", len(got))
			}
			if line := logged(s, before, `"msg":"panic"`); !strings.Contains(line, poison) || !strings.Contains(line, `"conn"`) {
				t.Errorf("the log does not tell: %q", line)
			}
			_ = c.Close()
			check(t)
			framesServe(t, at)
		})
	}
}
