package loadtest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics, for those who query them.
const (
	PhaseMetric = "texttax_client_phase_duration_seconds"
	CallsMetric = "texttax_client_calls_total"
)

// Metrics keep the phases and outcomes of calls for Prometheus.
type Metrics struct {
	phases *prometheus.HistogramVec
	calls  *prometheus.CounterVec
}

// NewMetrics registers the metrics. It panics if they are already registered:
// that is a fault of the program.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		phases: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: PhaseMetric,
			Help: "Time that answered calls spent in each phase, as their caller sees it. Transit is the caller's wall time less what the server calls its own.",
			// As the server's own phases.
			Buckets: []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
				1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100},
			NativeHistogramBucketFactor:     1.2,
			NativeHistogramMaxBucketNumber:  160,
			NativeHistogramMinResetDuration: time.Hour,
		}, []string{"boundary", "endpoint", "format", "phase"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: CallsMetric, Help: "Calls by how they ended.",
		}, []string{"boundary", "endpoint", "format", "outcome"}),
	}
	registry.MustRegister(m.phases, m.calls)
	return m
}

// Observe returns a function that counts the calls of a scenario, for
// Plan.Observe. The series of the job's endpoints are there from then on.
func (m *Metrics) Observe(s Scenario, job *Job) func(*Record) {
	type series struct {
		phases [numPhases]prometheus.Observer
		calls  [numOutcomes]prometheus.Counter
	}
	byEndpoint := map[string]*series{}
	for _, c := range job.Calls {
		if byEndpoint[c.Endpoint] != nil {
			continue
		}
		labels := []string{s.Boundary.Name(), c.Endpoint, s.Format.Name}
		made := new(series)
		for p := range numPhases {
			made.phases[p] = m.phases.WithLabelValues(append(labels, p.String())...)
		}
		for o := range numOutcomes {
			made.calls[o] = m.calls.WithLabelValues(append(labels, o.String())...)
		}
		byEndpoint[c.Endpoint] = made
	}
	return func(r *Record) {
		s := byEndpoint[r.Call.Endpoint]
		s.calls[r.Outcome].Inc()
		if r.Outcome != Answered {
			return
		}
		for p := range numPhases {
			if spent, ok := r.Phase(p); ok {
				s.phases[p].Observe(max(0, spent).Seconds())
			}
		}
	}
}
