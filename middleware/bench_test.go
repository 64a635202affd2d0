package middleware_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"texttax/encoding"
	"texttax/handlers"
	"texttax/middleware"
)

// nobody is a ResponseWriter that costs nothing.
type nobody struct{ header http.Header }

func (n nobody) Header() http.Header         { return n.header }
func (n nobody) Write(p []byte) (int, error) { return len(p), nil }
func (n nobody) WriteHeader(int)             {}

// BenchmarkTrack is what it costs a request that goes through all phases to be
// split, counted, and kept in classic and native histograms: tracked, less the
// same without.
func BenchmarkTrack(b *testing.B) {
	for _, tracked := range []bool{false, true} {
		b.Run(fmt.Sprintf("tracked=%v", tracked), func(b *testing.B) {
			metrics := middleware.NewMetrics(prometheus.NewRegistry(), handlers.Labels(handlers.CompressNone))
			r := chi.NewRouter()
			if tracked {
				r.Use(middleware.Track(metrics))
			}
			r.Post("/sweep", func(w http.ResponseWriter, _ *http.Request) {
				if tracked {
					ex := middleware.From(w)
					ex.RequestFormat, ex.AnswerFormat = "json", "octet"
					ex.BytesIn, ex.Bars, ex.Combos = 1000, 125, 1
					for _, p := range middleware.Phases() {
						ex.Clock.Enter(p)
					}
				}
				w.WriteHeader(http.StatusOK)
			})
			q := httptest.NewRequest("POST", "/sweep", nil)
			w := nobody{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				r.ServeHTTP(w, q)
			}
		})
	}
}

// BenchmarkScrape reads the metrics of a service that has seen everything:
// every series has a value, spread from 1 us to 100 s.
func BenchmarkScrape(b *testing.B) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	labels := handlers.Labels(handlers.CompressNone)
	metrics := middleware.NewMetrics(registry, labels)
	r := rand.New(rand.NewPCG(7, 7))
	for pattern, endpoint := range labels.Endpoints {
		for _, status := range labels.Statuses {
			metrics.End(&middleware.Exchange{Route: pattern, Status: status})
		}
		formats := append([]string{""}, encoding.Names()...)
		if only, some := labels.Only[endpoint]; some {
			formats = only
		}
		for _, format := range formats {
			for range 1000 {
				ex := &middleware.Exchange{
					Route: pattern, Status: http.StatusOK, RequestFormat: format, AnswerFormat: format,
					BytesIn: r.Int64N(1e6), BytesOut: r.Int64N(1e6), Bars: r.IntN(1e6), Combos: 1 + r.IntN(2),
				}
				for _, p := range labels.Timed[endpoint] {
					if labels.Possible(cmp.Or(format, middleware.Other), p) {
						ex.Clock.Spend(p, time.Duration(1e3*math.Pow(10, 8*r.Float64())))
					}
				}
				metrics.End(ex)
			}
		}
	}
	exposition := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	for name, headers := range map[string][2]string{
		"text":   {"text/plain", "identity"},
		"gzip":   {"text/plain", "gzip"},
		"native": {"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "gzip"},
	} {
		b.Run(name, func(b *testing.B) {
			q := httptest.NewRequest("GET", "/metrics", nil)
			q.Header.Set("Accept", headers[0])
			q.Header.Set("Accept-Encoding", headers[1])
			size := 0
			for b.Loop() {
				w := httptest.NewRecorder()
				exposition.ServeHTTP(w, q)
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}
