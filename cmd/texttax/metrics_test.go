package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"texttax/encoding"
	"texttax/handlers"
	"texttax/kernel/gbm42"
	"texttax/loadtest"
	"texttax/middleware"
)

// timings parses a Server-Timing header into seconds by phase.
func timings(t testing.TB, header string) map[string]float64 {
	t.Helper()
	phases := map[string]float64{}
	for metric := range strings.SplitSeq(header, ", ") {
		name, value, ok := strings.Cut(metric, ";dur=")
		ms, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			t.Fatalf("Server-Timing %q", header)
		}
		phases[name] = ms / 1e3
	}
	return phases
}

func TestServerTimingAndMetricsTellTheSame(t *testing.T) {
	s := start(t)
	encoded := 0.0
	for _, f := range []int{0, 1, 2, 4, 5} {
		f := formats[f]
		body := encode(t, f.codec, &encoding.Request{Close: gbm42.Close()})
		before := time.Now()
		r := ask(t, "POST", s.url+"/sweep?lengths=6,20", body, "Content-Type", f.mediaType, "Accept", "application/octet-stream")
		wall := time.Since(before).Seconds()
		settle(t, s)
		shown := timings(t, r.header.Get("Server-Timing"))
		sum := shown["encode"]
		for _, phase := range []string{"transit_in", "decode", "queue", "compute"} {
			labels := fmt.Sprintf(`{endpoint="sweep",format="%s",phase="%s"}`, f.codec.Name(), phase)
			kept := metric(t, s, "texttax_phase_duration_seconds_sum"+labels)
			if n := metric(t, s, "texttax_phase_duration_seconds_count"+labels); n != 1 {
				t.Errorf("%s: %s was counted %v times", f.name, phase, n)
			}
			if math.Abs(kept-shown[phase]) > 1e-8 { // the header has nanoseconds
				t.Errorf("%s: %s took %v s in the header and %v s in the histogram", f.name, phase, shown[phase], kept)
			}
			sum += shown[phase]
		}
		encoded += shown["encode"]
		if sum > wall || shown["compute"] <= 0 || shown["decode"] <= 0 {
			t.Errorf("%s: the phases add up to %v s of the client's %v s: %v", f.name, sum, wall, shown)
		}
	}
	if kept := metric(t, s, `texttax_phase_duration_seconds_sum{endpoint="sweep",format="octet",phase="encode"}`); math.Abs(kept-encoded) > 1e-8 {
		t.Errorf("encode took %v s in the headers and %v s in the histogram", encoded, kept)
	}
	for series, want := range map[string]float64{
		`texttax_requests_total{code="200",endpoint="sweep"}`:                                       5,
		`texttax_response_body_bytes_total{endpoint="sweep",format="octet"}`:                        5 * 2 * 16,
		`texttax_phase_duration_seconds_count{endpoint="sweep",format="octet",phase="transit_out"}`: 5,
		`texttax_datasets`:      1,
		`texttax_dataset_bytes`: 1_200_000,
		`texttax_queue_depth`:   0,
	} {
		if got := metric(t, s, series); got != want {
			t.Errorf("%s is %v, not %v", series, got, want)
		}
	}
}

func TestCombosAndBarsAreCountedByHowTheyCome(t *testing.T) {
	s := start(t)
	body := encode(t, encoding.MessagePack, &encoding.Request{Close: gbm42.Close()[:1000]})
	spent := map[string]float64{}
	for _, query := range []string{"lengths=6", "lengths=8", "lengths=6:200:80", "lengths=0"} {
		r := ask(t, "POST", s.url+"/sweep?"+query, body, "Content-Type", "application/vnd.msgpack", "Accept", "application/octet-stream")
		if r.status != 200 {
			continue
		}
		size := "one"
		if query == "lengths=6:200:80" {
			size = "many"
		}
		for phase, seconds := range timings(t, r.header.Get("Server-Timing")) {
			part := phase
			if phase != "queue" && phase != "compute" {
				part = "boundary"
			}
			spent[size+"/"+part] += seconds
		}
	}
	ask(t, "POST", s.url+"/echo", body, "Content-Type", "application/vnd.msgpack")
	ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil)
	settle(t, s)
	for series, want := range map[string]float64{
		`texttax_request_bars_total{endpoint="sweep",format="msgpack"}`:      4000, // a series that is then refused has come too
		`texttax_request_bars_total{endpoint="echo",format="msgpack"}`:       1000,
		`texttax_request_bars_total{endpoint="sweep",format="json"}`:         0,
		`texttax_combos_total{combos="one",format="msgpack"}`:                2,
		`texttax_combos_total{combos="many",format="msgpack"}`:               80,
		`texttax_combos_total{combos="one",format="json"}`:                   1,
		`texttax_request_duration_seconds_count{endpoint="sweep"}`:           5,
		`texttax_request_duration_seconds_count{endpoint="echo"}`:            1,
		`texttax_request_duration_seconds_bucket{endpoint="echo",le="+Inf"}`: 1,
	} {
		if got := metric(t, s, series); got != want {
			t.Errorf("%s is %v, not %v", series, got, want)
		}
	}
	for key, want := range spent {
		size, part, _ := strings.Cut(key, "/")
		got := metric(t, s, fmt.Sprintf(`texttax_combo_seconds_total{combos="%s",format="msgpack",part="%s"}`, size, part))
		// The boundary has transit_out too, which the header can't have.
		if got < want-1e-8 || part != "boundary" && got > want+1e-8 {
			t.Errorf("%s is %v s, and %v s by the headers", key, got, want)
		}
	}
}

// newTestStack serves everything but the program around it.
func newTestStack() *stack {
	return newStack(handlers.Config{Queue: handlers.DefaultQueue, Log: slog.New(slog.DiscardHandler)}, &guards{flags: new(security)}, 2048, false)
}

func TestThePhasesCoverTheHandlersWallTime(t *testing.T) {
	s := newTestStack()
	phases := func() float64 {
		families, err := s.registry.Gather()
		if err != nil {
			t.Error(err)
		}
		sum := 0.0
		for _, f := range families {
			if f.GetName() == "texttax_phase_duration_seconds" {
				for _, m := range f.GetMetric() {
					sum += m.GetHistogram().GetSampleSum()
				}
			}
		}
		return sum
	}
	type times struct{ wall, phases float64 }
	served := make(chan times, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before := phases()
		began := time.Now()
		s.public.ServeHTTP(w, r)
		wall := time.Since(began).Seconds()
		served <- times{wall, phases() - before}
	}))
	defer web.Close()
	var all times
	for _, f := range formats {
		body := encode(t, f.codec, &encoding.Request{Close: gbm42.Close()})
		for _, path := range []string{"/echo", "/sweep?lengths=6,8"} {
			// The system may stop the process at any moment, and it is up to chance
			// whether a phase gets the time. So of several requests the one with
			// the least in no phase counts.
			var best times
			for i := range 5 {
				ask(t, "POST", web.URL+path, body, "Content-Type", f.mediaType)
				one := <-served
				if one.phases > one.wall {
					t.Errorf("%s, %s: the phases are %v s of the handler's %v s", f.name, path, one.phases, one.wall)
				}
				if i == 0 || one.wall-one.phases < best.wall-best.phases {
					best = one
				}
			}
			all.wall += best.wall
			all.phases += best.phases
		}
	}
	if share := all.phases / all.wall; share < 0.95 {
		t.Errorf("the phases are %.4f of the handler's time", share)
	}
}

// hostile makes a request that tries to make a new series.
func hostile(r *rand.Rand) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	junk := func() string {
		b := make([]byte, 1+r.IntN(20))
		for i := range b {
			b[i] = byte('!' + r.IntN(94))
		}
		return strings.NewReplacer("?", "x", "#", "x", "%", "x", ":", "x").Replace(string(b))
	}
	method := pick("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"+strconv.Itoa(r.IntN(1e6)))
	path := pick("/sweep", "/echo", "/datasets/"+strconv.Itoa(r.IntN(1e6)), "/"+junk(), "//"+junk(), "/sweep?dataset="+strconv.Itoa(r.IntN(1e6)))
	head := ""
	for _, name := range []string{"Content-Type", "Accept", "X-Request-Id", "Content-Encoding", "Origin", "User-Agent"} {
		if r.IntN(2) == 0 {
			head += name + ": " + pick("application/json", "application/"+junk(), junk(), "\xff\xfe"+junk(), "text/"+strconv.Itoa(r.IntN(1e6))) + "\r\n"
		}
	}
	return method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + head + "Content-Length: 4\r\n\r\n\xffabc"
}

func TestTenThousandHostileRequestsAddNoSeries(t *testing.T) {
	s := start(t, "--log-level", "error")
	count := func() map[string]bool {
		series := map[string]bool{}
		for line := range strings.Lines(string(ask(t, "GET", s.url+"/metrics", nil).body)) {
			if name, _, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(name, "texttax_") {
				series[name] = true
			}
		}
		return series
	}
	r := rand.New(rand.NewPCG(1, 1))
	// Each status of each endpoint may come once; make them come before.
	for range 300 {
		send(t, s, hostile(r))
	}
	settle(t, s)
	before := count()
	const requests = 10_000
	for i := 0; i < requests; i += 20 {
		batch := ""
		for range 20 {
			batch += hostile(r)
		}
		send(t, s, batch)
	}
	settle(t, s)
	for series := range count() {
		if !before[series] && !strings.Contains(series, "code=") {
			t.Errorf("%s has come", series)
		}
	}
	if len(count()) > len(before)+5 {
		t.Errorf("%d series have become %d", len(before), len(count()))
	}
	if served := total(t, s, "texttax_requests_total"); served < requests/2 {
		t.Errorf("only %v requests were served: the others do not test anything", served)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(bytes.NewReader(ask(t, "GET", s.url+"/metrics", nil).body)); err != nil {
		t.Errorf("/metrics can't be read any more: %v", err)
	}
	stillServes(t, s)
}

// send writes raw requests on a connection of their own, and reads what comes
// until the server has closed it or answered all.
func send(t testing.TB, s *server, raw string) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // now, and not with the test as dial has it
	// The server may close after the first of the requests.
	_, _ = io.WriteString(c, raw)
	_ = c.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// total returns the sum of all series of a metric.
func total(t testing.TB, s *server, name string) float64 {
	t.Helper()
	sum := 0.0
	for line := range strings.Lines(string(ask(t, "GET", s.url+"/metrics", nil).body)) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			_, value, _ := strings.Cut(rest, "} ")
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

func TestTheLoadGeneratorsPhasesHaveTheBucketsOfTheServers(t *testing.T) {
	registry := prometheus.NewRegistry()
	demo, err := loadtest.Demo(1)
	if err != nil {
		t.Fatal(err)
	}
	scenario := loadtest.Scenario{Boundary: loadtest.InProcess, Granularity: loadtest.Chunky}
	job, err := demo.Cut(loadtest.Chunky, loadtest.Format{})
	if err != nil {
		t.Fatal(err)
	}
	observe := loadtest.NewMetrics(registry).Observe(scenario, job)
	if _, err := loadtest.Run(t.Context(), loadtest.Plan{Scenario: scenario, Job: job, Count: 1, Observe: observe}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, f := range families {
		if f.GetName() != loadtest.PhaseMetric {
			continue
		}
		for _, m := range f.GetMetric() {
			seen = true
			var bounds []float64
			for _, b := range m.GetHistogram().GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
			if !slices.Equal(bounds, middleware.PhaseBuckets()) {
				t.Errorf("the buckets end at %v", bounds)
			}
		}
	}
	if !seen {
		t.Error("there are no phases")
	}
}
