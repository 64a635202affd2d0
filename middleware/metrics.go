package middleware

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics, for those who query them.
const (
	PhaseMetric         = "texttax_phase_duration_seconds"
	RequestsMetric      = "texttax_requests_total"
	RequestBytesMetric  = "texttax_request_body_bytes_total"
	ResponseBytesMetric = "texttax_response_body_bytes_total"
	InFlightMetric      = "texttax_requests_in_flight"
	RejectedMetric      = "texttax_rejected_total"
	PanicsMetric        = "texttax_panics_total"
	QueueDepthMetric    = "texttax_queue_depth"
	SlotsMetric         = "texttax_compute_slots"
	SlotsBusyMetric     = "texttax_compute_slots_busy"
	DatasetsMetric      = "texttax_datasets"
	DatasetBytesMetric  = "texttax_dataset_bytes"
	BuildInfoMetric     = "texttax_build_info"
)

// Other is the value of a label whose true value is not in its closed set.
const Other = "other"

// PhaseBuckets are the upper bounds of the classic buckets of phase durations,
// in seconds: from 1 us to 134 s, each twice the one before, so that a
// quantile that is read back is within a factor of 2 of the truth.
func PhaseBuckets() []float64 { return prometheus.ExponentialBuckets(1e-6, 2, 28) }

// Labels are the closed sets that the values of all labels come from. Whatever
// else turns up counts as Other, so that no client can make a new series.
type Labels struct {
	Endpoints  map[string]string  // endpoint by route pattern
	Timed      map[string][]Phase // endpoints whose requests are split, and the phases they can be in
	Formats    []string
	Only       map[string][]string // formats of the timed endpoints that don't have all
	Statuses   []int
	Rejections []string
}

// statuses is a closed set of codes, with their label values made beforehand.
type statuses map[int]string

func (s statuses) label(status int) string {
	if l, ok := s[status]; ok {
		return l
	}
	return Other
}

// Metrics is an Observer that keeps the Prometheus metrics of all exchanges.
type Metrics struct {
	labels     Labels
	statuses   statuses
	timed      map[seriesKey]*series
	requests   *prometheus.CounterVec
	counted    map[requestKey]prometheus.Counter // of requests, those of timed endpoints
	rejections map[string]prometheus.Counter
	inFlight   prometheus.Gauge
	panics     prometheus.Counter
}

type seriesKey struct{ endpoint, format string }

// series are those of an endpoint's bodies in one format.
type series struct {
	in, out prometheus.Counter
	phases  [numPhases]prometheus.Observer // nil for those that can't be
}

type requestKey struct {
	endpoint string
	status   int
}

// NewMetrics registers the metrics and makes every known series, at 0. It
// panics if a metric is already registered: that is a fault of the program.
func NewMetrics(registry prometheus.Registerer, labels Labels) *Metrics {
	m := &Metrics{
		labels:     labels,
		statuses:   statuses{},
		timed:      map[seriesKey]*series{},
		counted:    map[requestKey]prometheus.Counter{},
		rejections: map[string]prometheus.Counter{},
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	phases := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            PhaseMetric,
		Help:                            "Time that requests spent in each phase. Format is the request's up to compute, then the answer's.",
		Buckets:                         PhaseBuckets(),
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"endpoint", "format", "phase"})
	registry.MustRegister(phases)
	in := counters(RequestBytesMetric, "Body bytes of requests, as on the wire.", "endpoint", "format")
	out := counters(ResponseBytesMetric, "Body bytes of answers, as on the wire.", "endpoint", "format")
	for endpoint, possible := range labels.Timed {
		formats, some := labels.Only[endpoint]
		if !some {
			formats = labels.Formats
		}
		for _, format := range append([]string{Other}, formats...) {
			v := &series{in: in.WithLabelValues(endpoint, format), out: out.WithLabelValues(endpoint, format)}
			for _, p := range possible {
				v.phases[p] = phases.WithLabelValues(endpoint, format, p.String())
			}
			m.timed[seriesKey{endpoint, format}] = v
		}
	}
	m.requests = counters(RequestsMetric, "Requests by endpoint and status code. Code 499 is a client that went away.", "endpoint", "code")
	for _, s := range labels.Statuses {
		m.statuses[s] = strconv.Itoa(s)
		for endpoint := range labels.Timed {
			m.counted[requestKey{endpoint, s}] = m.requests.WithLabelValues(endpoint, m.statuses[s])
		}
	}
	for _, endpoint := range labels.Endpoints {
		m.requests.WithLabelValues(endpoint, m.statuses.label(http.StatusOK))
	}
	rejections := counters(RejectedMetric, "Requests that were refused, by reason.", "reason")
	for _, reason := range append([]string{Other}, labels.Rejections...) {
		m.rejections[reason] = rejections.WithLabelValues(reason)
	}
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: InFlightMetric, Help: "Requests being served."})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{Name: PanicsMetric, Help: "Requests that ended in a panic."})
	registry.MustRegister(m.inFlight, m.panics)
	return m
}

// Begin implements Observer.
func (m *Metrics) Begin(*Exchange) { m.inFlight.Inc() }

// End implements Observer.
func (m *Metrics) End(ex *Exchange) {
	m.inFlight.Dec()
	endpoint := m.endpoint(ex)
	if c, ok := m.counted[requestKey{endpoint, ex.Status}]; ok {
		c.Inc()
	} else {
		m.requests.WithLabelValues(endpoint, m.statuses.label(ex.Status)).Inc()
	}
	if ex.Panicked {
		m.panics.Inc()
	}
	if ex.Rejection != "" {
		m.rejection(ex.Rejection).Inc()
	}
	request := m.series(endpoint, ex.RequestFormat)
	if request == nil {
		return
	}
	answer := request
	if ex.AnswerFormat != ex.RequestFormat {
		answer = m.series(endpoint, ex.AnswerFormat)
	}
	request.in.Add(float64(ex.BytesIn))
	answer.out.Add(float64(ex.BytesOut))
	for p := range numPhases {
		spent, entered := ex.Clock.Spent(p)
		if !entered {
			continue
		}
		of := request
		if p >= Encode {
			of = answer
		}
		if o := of.phases[p]; o != nil {
			o.Observe(spent.Seconds())
		}
	}
}

// endpoint returns the label of the route, or of the path if the request was
// refused before it was routed.
func (m *Metrics) endpoint(ex *Exchange) string {
	for _, pattern := range []string{ex.Route, ex.Path} {
		if endpoint, ok := m.labels.Endpoints[pattern]; ok {
			return endpoint
		}
	}
	return Other
}

func (m *Metrics) rejection(reason string) prometheus.Counter {
	if c, ok := m.rejections[reason]; ok {
		return c
	}
	return m.rejections[Other]
}

// series returns those of an endpoint and a format, or nil if the endpoint is
// not timed.
func (m *Metrics) series(endpoint, format string) *series {
	if v, ok := m.timed[seriesKey{endpoint, format}]; ok {
		return v
	}
	return m.timed[seriesKey{endpoint, Other}]
}

// State is read at each scrape.
type State struct {
	QueueDepth   func() int   // requests waiting for a compute slot
	Slots        func() int   // compute slots in all
	SlotsBusy    func() int   // compute slots in use
	Datasets     func() int   // preloaded series
	DatasetBytes func() int64 // memory of the preloaded series
}

// RegisterState registers gauges of the state, and the build's labels as
// texttax_build_info. It panics if a metric is already registered.
func RegisterState(registry prometheus.Registerer, s State, build map[string]string) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge(QueueDepthMetric, "Requests waiting for a compute slot.", func() float64 { return float64(s.QueueDepth()) })
	gauge(SlotsMetric, "Compute slots: goroutines that may run in the kernel at a time.", func() float64 { return float64(s.Slots()) })
	gauge(SlotsBusyMetric, "Compute slots in use.", func() float64 { return float64(s.SlotsBusy()) })
	gauge(DatasetsMetric, "Preloaded series.", func() float64 { return float64(s.Datasets()) })
	gauge(DatasetBytesMetric, "Memory of the preloaded series.", func() float64 { return float64(s.DatasetBytes()) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: BuildInfoMetric, Help: "Always 1; the labels tell the build.", ConstLabels: build})
	info.Set(1)
	registry.MustRegister(info)
}
