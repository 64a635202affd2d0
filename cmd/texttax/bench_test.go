package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// leanClient speaks just enough HTTP/1.1 to send the same request again and
// again on one connection: what it costs itself must not hide the server.
type leanClient struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	body    []byte // of the last answer
	timing  string // Server-Timing of the last answer, if keepTiming is set

	keepTiming bool
}

func newLeanClient(tb testing.TB, url, path string, body []byte, header string) *leanClient {
	tb.Helper()
	network, host := "tcp", strings.TrimPrefix(url, "http://")
	address := host
	if path, ok := strings.CutPrefix(url, "unix:"); ok {
		network, host, address = "unix", "localhost", path
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n", path, host, header, len(body))
	return &leanClient{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), request: append([]byte(head), body...)}
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("Content-Length: ")
	serverTiming  = []byte("Server-Timing: ")
)

func (c *leanClient) do(tb testing.TB) {
	if _, err := c.conn.Write(c.request); err != nil {
		tb.Fatal(err)
	}
	length := 0
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			tb.Fatal(err)
		}
		switch {
		case first && !bytes.HasPrefix(line, statusOK):
			tb.Fatalf("%s", line)
		case bytes.HasPrefix(line, contentLength):
			for _, digit := range line[len(contentLength) : len(line)-2] {
				length = 10*length + int(digit-'0')
			}
		case c.keepTiming && bytes.HasPrefix(line, serverTiming):
			c.timing = string(line[len(serverTiming) : len(line)-2])
		}
		if len(line) == 2 {
			break
		}
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		tb.Fatal(err)
	}
}

// bareEcho is the least that a net/http handler can do for an echo.
func bareEcho(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// bareSweep is the least that a net/http handler can do around a sweep of one
// combo over a series that it has; bareEmpty does nothing. Both tell, as the
// service does, what of their time is compute.
func bareSweep(w http.ResponseWriter, r *http.Request) {
	var out kernel.Results
	began := time.Now()
	if err := kernel.Sweep(r.Context(), gbm42.Close(), []kernel.Params{kernel.Expand(50)}, kernel.DefaultFee, 1, &out); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	compute := time.Since(began)
	w.Header().Set("Content-Length", "0")
	w.Header().Set("Server-Timing", fmt.Sprintf("compute;dur=%.6f", compute.Seconds()*1e3))
}

func bareEmpty(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.Header().Set("Server-Timing", "compute;dur=0")
}

// benchServer is the variable that makes a process of this test binary a
// server for benchmarks, so that client and server share no scheduler.
const benchServer = "TEXTTAX_BENCH_SERVER"

func TestMain(m *testing.M) {
	switch os.Getenv(benchServer) {
	case "bare":
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		bare := http.NewServeMux()
		bare.HandleFunc("/echo", bareEcho)
		bare.HandleFunc("/empty", bareEmpty)
		bare.HandleFunc("/sweep", bareSweep)
		if path, ok := strings.CutPrefix(os.Args[len(os.Args)-1], "unix:"); ok {
			socket, err := net.Listen("unix", path)
			if err != nil {
				panic(err)
			}
			go func() { panic(http.Serve(socket, bare)) }()
		}
		fmt.Println("serving on http://" + listener.Addr().String())
		panic(http.Serve(listener, bare))
	case "bare-echo":
		listener, err := net.Listen("unix", os.Args[len(os.Args)-1])
		if err != nil {
			panic(err)
		}
		fmt.Println("serving on " + listener.Addr().String())
		bareEchoes(listener)
	case "texttax":
		main()
	}
	status := m.Run()
	_ = os.RemoveAll(binaryFolder) // which may be ""
	os.Exit(status)
}

// startBenchServer starts the bare server, or the whole program as it is in
// production, as a process of its own, and returns its URL. The log goes to a
// file that forgets.
func startBenchServer(tb testing.TB, which string, args ...string) string {
	tb.Helper()
	server := exec.Command(os.Args[0], append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	server.Env = append(os.Environ(), benchServer+"="+which)
	stdout, err := server.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := server.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "serving on "))
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// BenchmarkInstrumentation compares an 8-byte echo through the whole stack with
// a bare net/http handler that does the same, in turns, each over one
// keep-alive connection. It reports the medians and their ratio.
func BenchmarkInstrumentation(b *testing.B) {
	body := octets(100)
	bare := newLeanClient(b, startBenchServer(b, "bare"), "/echo", body, "")
	whole := newLeanClient(b, startBenchServer(b, "texttax"), "/echo", body, "")
	// In turns of many requests, so that no server has gone to sleep by its
	// next one.
	const turn = 500
	var times [2][]time.Duration
	for b.Loop() {
		for i, c := range []*leanClient{bare, whole} {
			for range turn {
				began := time.Now()
				c.do(b)
				times[i] = append(times[i], time.Since(began))
			}
		}
	}
	without, with := median(times[0]), median(times[1])
	b.ReportMetric(float64(without.Nanoseconds())/1e3, "bare-us")
	b.ReportMetric(float64(with.Nanoseconds())/1e3, "texttax-us")
	b.ReportMetric(float64(with)/float64(without), "ratio")
}

// BenchmarkPreloadedCall compares a sweep of one combo over the demo series,
// which the server has, less its compute, with a bare net/http handler that is
// empty but for the same sweep, less that, in turns, each over one connection to
// a Unix socket. Beside it is a handler that is empty altogether: before its
// answer no cache has been emptied, and no client has gone to sleep.
func BenchmarkPreloadedCall(b *testing.B) {
	folder := socketFolder(b)
	bare, texttax := "unix:"+filepath.Join(folder, "bare"), "unix:"+filepath.Join(folder, "texttax")
	startBenchServer(b, "bare", bare)
	startBenchServer(b, "texttax", "--listen", texttax, "--log-level", "warn")
	type call struct {
		*leanClient
		compute, rest []time.Duration
	}
	newCall := func(at, path string) *call {
		c := newLeanClient(b, at, path, nil, "Accept: application/octet-stream\r\n")
		c.keepTiming = true
		return &call{leanClient: c}
	}
	empty, least, whole := newCall(bare, "/empty"), newCall(bare, "/sweep"), newCall(texttax, "/sweep?dataset=gbm42&lengths=50")
	const turn = 200
	for b.Loop() {
		for _, c := range []*call{empty, least, whole} {
			for range turn {
				began := time.Now()
				c.do(b)
				took := time.Since(began)
				compute := time.Duration(timings(b, c.timing)["compute"] * 1e9)
				c.compute, c.rest = append(c.compute, compute), append(c.rest, took-compute)
			}
		}
	}
	us := func(d []time.Duration) float64 { return float64(median(d).Nanoseconds()) / 1e3 }
	b.ReportMetric(us(whole.compute), "compute-us")
	b.ReportMetric(us(empty.rest), "empty-us")
	b.ReportMetric(us(least.rest), "bare-us")
	b.ReportMetric(us(whole.rest), "texttax-us")
	b.ReportMetric(us(whole.rest)/us(least.rest), "ratio")
}

// BenchmarkTextTax echoes 150,000 closes in each format and reports the
// medians of the server's phases in microseconds, and the body's bytes.
func BenchmarkTextTax(b *testing.B) {
	url := startBenchServer(b, "texttax")
	for _, f := range formats {
		b.Run("format="+f.name, func(b *testing.B) {
			body := encode(b, f.codec, &encoding.Request{Close: gbm42.Close()})
			c := newLeanClient(b, url, "/echo", body, "Content-Type: "+f.mediaType+"\r\n")
			c.keepTiming = true
			spent := map[string][]time.Duration{}
			for b.Loop() {
				c.do(b)
				for phase, seconds := range timings(b, c.timing) {
					spent[phase] = append(spent[phase], time.Duration(seconds*1e9))
				}
			}
			tax := time.Duration(0)
			for _, phase := range []string{"transit_in", "decode", "encode"} {
				m := median(spent[phase])
				b.ReportMetric(float64(m.Nanoseconds())/1e3, phase+"-us")
				if phase != "transit_in" {
					tax += m
				}
			}
			b.ReportMetric(float64(tax.Nanoseconds())/1e3, "tax-us")
			b.ReportMetric(float64(len(body)), "body-bytes")
		})
	}
}

// BenchmarkHTTPEcho compares echoes of 150,000 closes as octets over HTTP with a
// bare loop that reads a message of that length and writes it back, in turns,
// each over one connection of the same kind.
func BenchmarkHTTPEcho(b *testing.B) {
	for _, network := range []string{"tcp", "unix"} {
		b.Run("network="+network, func(b *testing.B) {
			folder := socketFolder(b)
			address := map[string][2]string{"tcp": {"127.0.0.1:0", "127.0.0.1:0"}, "unix": {filepath.Join(folder, "bare"), "unix:" + filepath.Join(folder, "http")}}[network]
			l, err := net.Listen(network, address[0])
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go bareEchoes(l)
			s := start(b, "--listen", address[1], "--log-level", "warn")
			path := strings.TrimPrefix(address[1], "unix:")
			if network == "tcp" {
				path = strings.TrimPrefix(s.url, "http://")
			}

			body := encode(b, encoding.Octet, &encoding.Request{Close: gbm42.Close()})
			bare, err := net.Dial(network, l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer bare.Close()
			if _, err := bare.Write([]byte{1}); err != nil { // messages of this length
				b.Fatal(err)
			}
			http, err := net.Dial(network, path)
			if err != nil {
				b.Fatal(err)
			}
			defer http.Close()
			request := append(fmt.Appendf(nil, "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
			answer, in := make([]byte, len(body)), bufio.NewReader(http)
			echo := func() {
				if _, err := http.Write(request); err != nil {
					b.Fatal(err)
				}
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						b.Fatal(err)
					}
					if len(line) == 2 {
						break
					}
				}
				if _, err := io.ReadFull(in, answer); err != nil {
					b.Fatal(err)
				}
			}
			var times [2][]time.Duration
			for b.Loop() {
				for i, once := range []func(){func() { roundTrip(b, bare, body, answer) }, echo} {
					for range 10 {
						began := time.Now()
						once()
						times[i] = append(times[i], time.Since(began))
					}
				}
			}
			if !bytes.Equal(answer, body) {
				b.Error("the echo is another")
			}
			least, took := median(times[0]), median(times[1])
			b.ReportMetric(float64(least.Nanoseconds())/1e3, "bare-us")
			b.ReportMetric(float64(took.Nanoseconds())/1e3, "http-us")
			b.ReportMetric(float64(took)/float64(least), "ratio")
		})
	}
}
