package main

import (
	"cmp"
	"compress/gzip"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"texttax/encoding"
	"texttax/handlers"
	"texttax/loadtest"
	"texttax/middleware"
)

// watchers are the files that ask for metrics.
func watchers(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, pattern := range []string{"../../grafana/dashboards/*.json", "../../grafana/prometheus/*.yml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) < 2 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[path] = string(text)
		}
	}
	return files
}

func TestDashboardsAndRulesAskForMetricsThatAreThere(t *testing.T) {
	families, err := newTestStack().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{loadtest.PhaseMetric: true}
	for _, f := range families {
		there[f.GetName()] = true
	}
	files := watchers(t)
	rule := regexp.MustCompile(`(?m)^ +- record: (\S+)$`)
	for _, text := range files {
		for _, name := range rule.FindAllStringSubmatch(text, -1) {
			there[name[1]] = true
		}
	}
	asked := map[string]bool{}
	for path, text := range files {
		for _, name := range regexp.MustCompile(`[\w:]*\b(?:texttax|go|process)_[\w:]+`).FindAllString(text, -1) {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !there[base] && !there[name] {
				t.Errorf("%s asks for %s", path, name)
			}
			asked[base] = true
		}
	}
	// And what is counted is shown.
	for name := range there {
		if strings.HasPrefix(name, "texttax_") && !asked[name] {
			t.Errorf("nobody looks at %s", name)
		}
	}
}

// populate gives every series that there can be a value of its own, spread as
// widely as requests can be.
func populate(t testing.TB, m *middleware.Metrics) {
	t.Helper()
	labels := handlers.Labels(handlers.CompressAll)
	r := rand.New(rand.NewPCG(7, 7))
	for pattern, endpoint := range labels.Endpoints {
		for _, status := range labels.Statuses {
			m.End(&middleware.Exchange{Route: pattern, Status: status})
		}
		if labels.Timed[endpoint] == nil {
			continue
		}
		formats, some := labels.Only[endpoint]
		if !some {
			formats = append([]string{""}, encoding.Names()...)
		}
		for _, format := range formats {
			for range 100 {
				ex := &middleware.Exchange{
					Route: pattern, Status: 200, RequestFormat: format, AnswerFormat: format,
					BytesIn: 1e6 + r.Int64N(1e6), BytesOut: 1e6 + r.Int64N(1e6), Bars: r.IntN(1e6), Combos: 1 + r.IntN(2),
				}
				ex.Clock.Start(middleware.Decode)
				for _, p := range labels.Timed[endpoint] {
					if !labels.Possible(cmp.Or(format, middleware.Other), p) {
						continue
					}
					ex.Clock.Enter(p)
					time.Sleep(time.Duration(1e3 * math.Pow(10, 8*r.Float64()))) // 1 us to 100 s
				}
				ex.Clock.Stop()
				m.Begin(ex)
				m.End(ex)
			}
		}
	}
	for _, reason := range labels.Rejections {
		for range 100 {
			m.End(&middleware.Exchange{Rejection: reason, Panicked: true})
		}
	}
}

func scrape(t testing.TB, s *stack, headers ...string) []byte {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.public.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("status %d: %.200s", w.Code, w.Body)
	}
	return w.Body.Bytes()
}

// asPrometheus are the headers of a Prometheus that knows native histograms.
var asPrometheus = []string{
	"Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	"Accept-Encoding", "gzip",
}

// largestScrape is what a scrape may take on the wire, where Prometheus asks for
// it packed, and largestText what it may be as plain text.
const (
	largestScrape = 300_000
	largestText   = 320_000
)

func TestAScrapeOfAFullRegistryIsSmall(t *testing.T) {
	var s *stack
	synctest.Test(t, func(t *testing.T) { // where 100 s pass at once
		s = newStack(handlers.Config{Compression: handlers.CompressAll, Log: slog.New(slog.DiscardHandler)}, &guards{flags: new(security)}, 2048, false)
		populate(t, s.metrics)
	})
	text := scrape(t, s)
	if len(text) > largestText {
		t.Errorf("%d bytes of text", len(text))
	}
	packed := scrape(t, s, "Accept-Encoding", "gzip")
	if z, err := gzip.NewReader(strings.NewReader(string(packed))); err != nil {
		t.Error(err)
	} else if all, err := io.ReadAll(z); err != nil || len(all) < len(text)*9/10 {
		t.Errorf("%d bytes are in it: %v", len(all), err)
	}
	if len(packed) > largestScrape {
		t.Errorf("%d bytes of packed text", len(packed))
	}
	native := scrape(t, s, asPrometheus...)
	if len(native) > largestScrape {
		t.Errorf("%d bytes of packed protobuf", len(native))
	}
	if series := strings.Count(string(text), "\ntexttax_"); series < 2500 {
		t.Errorf("only %d series", series)
	}
	t.Logf("%d bytes of text, %d packed; %d bytes with native histograms, packed", len(text), len(packed), len(native))
}
