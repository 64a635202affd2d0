//go:build prometheus || chromium

package main

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"texttax/encoding"
	"texttax/kernel/gbm42"
	"texttax/loadtest"
	"texttax/middleware"
)

// driver sends load in all formats, chatty and chunky, and keeps what it
// measures itself.
type driver struct {
	url      string
	series   []float64
	transit  *prometheus.HistogramVec
	transits map[string][]float64 // by format
	requests float64
	spent    map[string][]float64  // by endpoint, format and phase: seconds of each request, by Server-Timing
	wall     map[string][]float64  // by endpoint and format
	sent     map[string][2]float64 // by format: bytes and bars
	boundary map[string][2]float64 // by format and one or many: seconds by Server-Timing, and combos
}

// chunk is the number of combos in a chunky request.
const chunk = 10

func newDriver(t *testing.T, url string) (*driver, string) {
	d := &driver{url: url, series: gbm42.Close()[:20_000],
		transits: map[string][]float64{}, spent: map[string][]float64{}, wall: map[string][]float64{}, sent: map[string][2]float64{}, boundary: map[string][2]float64{}}
	registry := prometheus.NewRegistry()
	d.transit = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: loadtest.PhaseMetric, Help: "As the load generator has it.",
		Buckets: middleware.PhaseBuckets()}, []string{"boundary", "endpoint", "format", "phase"})
	registry.MustRegister(d.transit)
	for _, f := range formats {
		for _, endpoint := range []string{"sweep", "echo"} {
			d.transit.WithLabelValues("http-tcp", endpoint, f.codec.Name(), loadtest.Transit.String())
		}
	}
	web := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(web.Close)
	return d, strings.TrimPrefix(web.URL, "http://")
}

// drive sends each kind of request in turn for a while.
func (d *driver) drive(t *testing.T, during time.Duration) {
	t.Helper()
	type call struct {
		endpoint, query string
		combos          int
	}
	calls := []call{{"echo", "", 0}, {"sweep", fmt.Sprintf("?lengths=6:200:%d", chunk), chunk}, {"sweep", "?lengths=20", 1}}
	for began := time.Now(); time.Since(began) < during; {
		for _, f := range formats {
			format := f.codec.Name()
			body := encode(t, f.codec, &encoding.Request{Close: d.series})
			for _, c := range calls {
				before := time.Now()
				r := ask(t, "POST", d.url+"/"+c.endpoint+c.query, body, "Content-Type", f.mediaType)
				wall := time.Since(before).Seconds()
				if r.status != 200 {
					t.Fatalf("%s", r.body)
				}
				d.requests++
				key := c.endpoint + " " + format
				d.wall[key] = append(d.wall[key], wall)
				sent := d.sent[format]
				d.sent[format] = [2]float64{sent[0] + float64(len(body)), sent[1] + float64(len(d.series))}
				transit, boundary := wall, 0.0
				for phase, spent := range timings(t, r.header.Get("Server-Timing")) {
					d.spent[key+" "+phase] = append(d.spent[key+" "+phase], spent)
					if phase != "transit_in" {
						transit -= spent
					}
					if phase != "queue" && phase != "compute" {
						boundary += spent
					}
				}
				d.transits[format] = append(d.transits[format], transit)
				d.transit.WithLabelValues("http-tcp", c.endpoint, format, loadtest.Transit.String()).Observe(transit)
				if c.combos > 0 {
					key, combos := "one "+format, float64(c.combos)
					if c.combos > 1 {
						key = "many " + format
					}
					b := d.boundary[key]
					d.boundary[key] = [2]float64{b[0] + boundary, b[1] + combos}
				}
			}
		}
	}
}

func total64(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum
}

func meanOf(values []float64) float64 { return total64(values) / float64(len(values)) }

// within tells whether two values differ by no more than a part of the second.
func within(got, want, part float64) bool { return math.Abs(got-want) <= part*math.Abs(want) }

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("a minute has passed, and it is not so that %s", what)
		}
	}
}

// serveAt runs the program as a process of its own, and returns how to kill it.
func serveAt(t *testing.T, address string) (kill func()) {
	t.Helper()
	server := exec.Command(os.Args[0], "serve", "--listen", address, "--log-level", "error")
	server.Env = append(os.Environ(), benchServer+"=texttax")
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = server.Process.Kill()
			_ = server.Wait()
		}
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return kill
}
