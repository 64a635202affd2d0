package loadtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

func TestThePhasesOfCallsAreMetrics(t *testing.T) {
	n := 0
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 3 { // the second of the run
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Server-Timing", "decode;dur=0.5, compute;dur=2, encode;dur=0.25")
		serveCall(w, r)
	})
	registry := prometheus.NewPedanticRegistry()
	p := Plan{Scenario: Scenario{b, format(t, "json"), Chunky, false}, Work: small(t), Count: 10}
	job, err := p.Work.Cut(Chunky, p.Format)
	if err != nil {
		t.Fatal(err)
	}
	p.Job = job
	m := NewMetrics(registry)
	p.Observe = m.Observe(p.Scenario, job)
	if _, err := Run(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", err, problems)
	}
	for outcome, want := range map[string]float64{"answered": 9, "throttled": 1, "wrong": 0, "broken": 0} {
		if got := testutil.ToFloat64(m.calls.WithLabelValues("http-tcp", "sweep", "json", outcome)); got != want {
			t.Errorf("%v calls %s, not %v", got, outcome, want)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*dto.Histogram{}
	for _, f := range families {
		if f.GetName() != PhaseMetric {
			continue
		}
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got[strings.Join(labels, " ")] = series.GetHistogram()
		}
	}
	for phase, want := range map[string]float64{"decode": 0.0005 * 9, "compute": 0.002 * 9, "encode": 0.00025 * 9} {
		h := got["http-tcp sweep json "+phase]
		if h.GetSampleCount() != 9 || h.GetSampleSum() < 0.999*want || h.GetSampleSum() > 1.001*want {
			t.Errorf("%s is %v, and not 9 observations of %v s in all", phase, h, want)
		}
	}
	for _, phase := range []string{"client_encode", "transit", "client_decode"} {
		h := got["http-tcp sweep json "+phase]
		if h.GetSampleCount() != 9 || len(h.GetBucket()) != 25 || h.Schema == nil {
			t.Errorf("%s is %v, and not 9 observations in 25 buckets and native ones", phase, h)
		}
	}
	if h := got["http-tcp sweep json queue"]; h == nil || h.GetSampleCount() != 0 {
		t.Errorf("queue, which nobody has seen, is %v", h)
	}
}
