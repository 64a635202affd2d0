package loadtest

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

var discard = log.New(io.Discard, "", 0)

// TestEveryScenarioGetsTheKernelsAnswers runs all granularities in all formats
// across all boundaries that can carry them.
func TestEveryScenarioGetsTheKernelsAnswers(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "http")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(serveCall)}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	unix, err := ParseBoundary("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	demo, err := Demo(2)
	if err != nil {
		t.Fatal(err)
	}
	boundaries := []Boundary{
		InProcess, serve(t, serveCall), unix,
		&Frames{"tcp", listenFrames(t, "tcp", "127.0.0.1:0")},
		&Frames{"unix", listenFrames(t, "unix", filepath.Join(t.TempDir(), "frames"))},
		&Spawn{Command: []string{os.Args[0]}, Env: []string{role + "=frame"}},
	}
	want := map[string]int{"in-process": 60, "http-tcp": 60, "http-unix": 60, "frame-tcp": 8, "frame-unix": 8, "spawn": 8}
	if runtime.GOOS == "linux" { // which the rings need
		boundaries = append(boundaries, &Frames{"shm", listenFrames(t, "shm", filepath.Join(t.TempDir(), "rings"))})
		want["frame-shm"] = 8
	}
	ran := map[string]int{}
	for _, b := range boundaries {
		for _, f := range Formats() {
			for _, g := range Granularities() {
				work := small(t)
				if g == Preloaded {
					work = demo
				}
				job, err := work.Cut(g, f)
				if err != nil {
					t.Fatal(err)
				}
				if b.Check(job.Calls[0], f) != nil {
					continue
				}
				for _, preEncoded := range []bool{false, true} {
					s := Scenario{b, f, g, preEncoded}
					r, err := Run(t.Context(), Plan{Scenario: s, Job: job, Count: 2})
					if err != nil || r.Answered() != 2 {
						t.Errorf("%s: %v", s, err)
						continue
					}
					ran[b.Name()]++
				}
			}
		}
	}
	for name, want := range want {
		if ran[name] != want {
			t.Errorf("%d scenarios ran across %s, not %d", ran[name], name, want)
		}
	}
}

func TestAJobIsTheWholeWork(t *testing.T) {
	work := small(t)
	for g, want := range map[Granularity]int{Chunky: 1, Chatty: 3, PerBar: 2048, Echo: 1} {
		job, err := work.Cut(g, format(t, "json"))
		if err != nil {
			t.Fatal(err)
		}
		if job.Size() != want {
			t.Errorf("%s is %d calls, not %d", g, job.Size(), want)
		}
	}
	if _, err := work.Cut(Preloaded, format(t, "json")); err == nil {
		t.Error("a series that the server has not got is preloaded")
	}
	if _, err := work.Cut("lumpy", format(t, "json")); err == nil || !strings.Contains(err.Error(), "chunky") {
		t.Errorf("lumpy work: %v", err)
	}
	if _, err := (Work{}).Cut(Echo, format(t, "json")); err == nil {
		t.Error("there is no work in no series")
	}
}

func TestAProcessThatFailsSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		spawn Spawn
		want  string
	}{
		"refuses":    {Spawn{Command: []string{os.Args[0]}, Env: []string{role + "=refuse"}}, "exit status 3: no sweep today"},
		"is missing": {Spawn{Command: []string{"/nonexistent/texttax"}}, "no such file"},
		"says junk":  {Spawn{Command: []string{"echo", "I am no server"}}, "claims to have"},
		"is silent":  {Spawn{Command: []string{"true"}}, "no reply"},
		"is unnamed": {Spawn{}, "no command"},
	} {
		p := tiny(t, &test.spawn)
		p.Count = 1
		if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := tiny(t, &Spawn{Command: []string{"sleep", "60"}})
	p.Count, p.Timeout = 1, 100*time.Millisecond
	if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), "no answer in 100ms") {
		t.Errorf("sleeps: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]Boundary{
		"http://localhost:8080":     &HTTP{Network: "tcp", Address: "localhost:8080", Host: "localhost:8080"},
		"http://localhost":          &HTTP{Network: "tcp", Address: "localhost:80", Host: "localhost"},
		"https://example.org/tax/":  &HTTP{Network: "tcp", Address: "example.org:443", Host: "example.org", Prefix: "/tax", TLS: true},
		"http://[::1]:80":           &HTTP{Network: "tcp", Address: "[::1]:80", Host: "[::1]:80"},
		"unix:/run/texttax.sock":    &HTTP{Network: "unix", Address: "/run/texttax.sock", Host: "localhost"},
		"frame+tcp://localhost:81":  &Frames{Network: "tcp", Address: "localhost:81"},
		"frame+unix:/run/tax.frame": &Frames{Network: "unix", Address: "/run/tax.frame"},
		"frame+shm:/run/tax.rings":  &Frames{Network: "shm", Address: "/run/tax.rings"},
	} {
		got, err := ParseBoundary(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		switch w := want.(type) {
		case *HTTP:
			if g, ok := got.(*HTTP); !ok || *g != *w {
				t.Errorf("%s is %+v", address, got)
			}
		case *Frames:
			if g, ok := got.(*Frames); !ok || *g != *w {
				t.Errorf("%s is %+v", address, got)
			}
		}
	}
	for _, address := range []string{"", "localhost:8080", "ftp://x", "http://", "http://x/?a=b", "unix:", "unix://host/x", "frame+tcp://x", "frame+unix:", "frame+shm:", "http://a:b@c", "http://x:y"} {
		if b, err := ParseBoundary(address); err == nil {
			t.Errorf("%q is %+v", address, b)
		}
	}
}

// speak answers each request on a connection with a text of its own.
func speak(t *testing.T, answers ...string) *HTTP {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for _, a := range answers {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if _, err := io.WriteString(conn, a); err != nil {
				return
			}
		}
	})
	return &HTTP{Network: "tcp", Address: l.Addr().String(), Host: "x"}
}

// one is the first close of the demo series, as octets.
func one(t *testing.T) string {
	t.Helper()
	body, err := format(t, "octet").Codec.Append(nil, echoOf(small(t).Close[:1]).Request)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestTheLeanClientReadsAnswersInEachForm(t *testing.T) {
	body := one(t)
	for name, answer := range map[string]string{
		"length":       "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + body,
		"lower case":   "HTTP/1.1 200 \r\ncontent-length:8\r\nserver-timing:decode;dur=1\r\n\r\n" + body,
		"chunks":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n" + body[:3] + "\r\n5;x=y\r\n" + body[3:] + "\r\n0\r\nTrailer: x\r\n\r\n",
		"to the end":   "HTTP/1.0 200 OK\r\n\r\n" + body,
		"an interlude": "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + body,
	} {
		answers := []string{answer, answer, answer}
		if name == "to the end" {
			answers = answers[:1]
		}
		job := &Job{Granularity: PerBar, Calls: []*Call{echoOf(small(t).Close[:1])}, Rounds: 1}
		p := Plan{Scenario: Scenario{Boundary: speak(t, answers...), Format: format(t, "octet"), Granularity: PerBar}, Job: job, Count: 2}
		if r, err := Run(t.Context(), p); err != nil || r.Answered() != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheLeanClientRefusesWhatIsNoAnswer(t *testing.T) {
	body := one(t)
	for name, test := range map[string]struct{ answer, want string }{
		"another protocol": {"220 smtp.example.org ESMTP\r\n", "no HTTP/1.1 server"},
		"nothing":          {"", "closed the connection"},
		"half a header":    {"HTTP/1.1 200 OK\r\nContent-Le", "broke off in its header"},
		"half a body":      {"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + body[:4], "broke off after 4 of 8 bytes"},
		"half a chunk":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabc", "within its chunks"},
		"endless header":   {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70_000), "a line without end"},
		"negative length":  {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"},
		"huge length":      {"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n", "claims to have"},
		"compressed":       {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\n" + body, "compressed"},
		"another number":   {"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + strings.Repeat("\x01", 8), "came back changed: close[0]"},
		"too much":         {"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + body + body, "it has 2 closes"},
		"a page":           {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<html", "5 bytes"},
	} {
		p := tiny(t, speak(t, test.answer))
		p.Count, p.Timeout = 1, 20*time.Second
		if _, err := Run(t.Context(), p); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARefusalBeforeTheBodyIsReadIsStillRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much")
		// Long enough for the answer to be read; then the rest is cut off.
		time.Sleep(300 * time.Millisecond)
	}()
	work, err := Demo(2)
	if err != nil {
		t.Fatal(err)
	}
	b := &HTTP{Network: "tcp", Address: l.Addr().String(), Host: "x"}
	_, err = Run(t.Context(), Plan{Scenario: Scenario{b, format(t, "json"), Echo, false}, Work: work, Count: 1})
	if err == nil || !strings.Contains(err.Error(), "413: too much") {
		// The operating system may throw away what it has received once the
		// connection is reset.
		t.Logf("the refusal was lost with its connection: %v", err)
	}
}
