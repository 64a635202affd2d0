package middleware

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics, for those who query them.
const (
	PhaseMetric         = "texttax_phase_duration_seconds"
	DurationMetric      = "texttax_request_duration_seconds"
	RequestsMetric      = "texttax_requests_total"
	RequestBytesMetric  = "texttax_request_body_bytes_total"
	ResponseBytesMetric = "texttax_response_body_bytes_total"
	BarsMetric          = "texttax_request_bars_total"
	CombosMetric        = "texttax_combos_total"
	ComboSecondsMetric  = "texttax_combo_seconds_total"
	InFlightMetric      = "texttax_requests_in_flight"
	RejectedMetric      = "texttax_rejected_total"
	PanicsMetric        = "texttax_panics_total"
	QueueDepthMetric    = "texttax_queue_depth"
	SlotsMetric         = "texttax_compute_slots"
	SlotsBusyMetric     = "texttax_compute_slots_busy"
	DatasetsMetric      = "texttax_datasets"
	DatasetBytesMetric  = "texttax_dataset_bytes"
	MemoryMetric        = "texttax_body_memory_bytes"
	MemoryBusyMetric    = "texttax_body_memory_reserved_bytes"
	BuildInfoMetric     = "texttax_build_info"
)

// Other is the value of a label whose true value is not in its closed set.
const Other = "other"

// What the label combos of CombosMetric and ComboSecondsMetric tells apart: a
// client that sends a request for each combo, and one that sends them together.
const (
	OneCombo   = "one"
	ManyCombos = "many"
)

// Values of the label part of ComboSecondsMetric.
const (
	BoundaryPart = "boundary" // all phases but the next two
	QueuePart    = "queue"
	ComputePart  = "compute"
)

// PhaseBuckets are the upper bounds of the classic buckets of phase durations,
// in seconds: 1, 2 and 5 of each power of ten from 1 us to 100 s, so that a
// quantile that is read back is within a factor of 2.5 of the truth.
func PhaseBuckets() []float64 {
	return []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
		1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100}
}

// Native histograms are finer, a quantile within a fifth, and stay so over the
// same range: 8 powers of ten are 107 buckets.
const (
	nativeFactor  = 1.2
	nativeBuckets = 160
)

// Labels are the closed sets that the values of all labels come from. Whatever
// else turns up counts as Other, so that no client can make a new series.
type Labels struct {
	Endpoints  map[string]string  // endpoint by route pattern
	Timed      map[string][]Phase // endpoints whose requests are split, and the phases they can be in
	Formats    []string
	Only       map[string][]string // formats of the timed endpoints that don't have all
	Statuses   []int
	Rejections []string

	// Possible tells which phases requests and answers of a format can be in,
	// of those that their endpoint has: the others have no series until it turns
	// out that they can. Nil stands for all.
	Possible func(format string, p Phase) bool
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
	formats    map[string]bool
	statuses   statuses
	phases     map[phaseKey]prometheus.Observer
	phaseTimes *prometheus.HistogramVec
	durations  map[string]prometheus.Observer // by endpoint
	bodies     map[bodyKey]bodyCounters
	combos     map[combosKey]comboCounters
	requests   *prometheus.CounterVec
	rejections map[string]prometheus.Counter
	inFlight   prometheus.Gauge
	panics     prometheus.Counter
}

type phaseKey struct {
	endpoint, format string
	phase            Phase
}

type bodyKey struct{ endpoint, format string }

type bodyCounters struct{ in, out, bars prometheus.Counter }

type combosKey struct {
	format string
	many   bool
}

type comboCounters struct{ combos, boundary, queue, compute prometheus.Counter }

// NewMetrics registers the metrics and makes every known series, at 0. It
// panics if a metric is already registered: that is a fault of the program.
func NewMetrics(registry prometheus.Registerer, labels Labels) *Metrics {
	m := &Metrics{
		labels:     labels,
		formats:    map[string]bool{},
		statuses:   statuses{},
		phases:     map[phaseKey]prometheus.Observer{},
		durations:  map[string]prometheus.Observer{},
		bodies:     map[bodyKey]bodyCounters{},
		combos:     map[combosKey]comboCounters{},
		rejections: map[string]prometheus.Counter{},
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	histograms := func(name, help string, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:                            name,
			Help:                            help,
			Buckets:                         PhaseBuckets(),
			NativeHistogramBucketFactor:     nativeFactor,
			NativeHistogramMaxBucketNumber:  nativeBuckets,
			NativeHistogramMinResetDuration: time.Hour,
		}, labels)
		registry.MustRegister(v)
		return v
	}
	m.phaseTimes = histograms(PhaseMetric, "Time that requests spent in each phase. Format is the request's up to compute, then the answer's.", "endpoint", "format", "phase")
	durations := histograms(DurationMetric, "Time from a request's header to the end of its answer: all phases together.", "endpoint")
	in := counters(RequestBytesMetric, "Body bytes of requests, as on the wire.", "endpoint", "format")
	out := counters(ResponseBytesMetric, "Body bytes of answers, as on the wire.", "endpoint", "format")
	bars := counters(BarsMetric, "Bars of the series in bodies of requests.", "endpoint", "format")
	for _, f := range labels.Formats {
		m.formats[f] = true
	}
	for endpoint, possible := range labels.Timed {
		m.durations[endpoint] = durations.WithLabelValues(endpoint)
		formats, some := labels.Only[endpoint]
		if !some {
			formats = labels.Formats
		}
		for _, format := range append([]string{Other}, formats...) {
			m.bodies[bodyKey{endpoint, format}] = bodyCounters{
				in.WithLabelValues(endpoint, format), out.WithLabelValues(endpoint, format), bars.WithLabelValues(endpoint, format)}
			if some && format == Other {
				continue // in no phase is the format unknown
			}
			for _, p := range possible {
				if labels.Possible == nil || labels.Possible(format, p) {
					m.phases[phaseKey{endpoint, format, p}] = m.phaseTimes.WithLabelValues(endpoint, format, p.String())
				}
			}
		}
	}
	m.combos = newComboCounters(counters, labels.Formats)
	m.requests = counters(RequestsMetric, "Requests by endpoint and status code. Code 499 is a client that went away.", "endpoint", "code")
	for _, s := range labels.Statuses {
		m.statuses[s] = strconv.Itoa(s)
		for endpoint := range labels.Timed {
			m.requests.WithLabelValues(endpoint, m.statuses[s])
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

// newComboCounters makes the counters by which calls for one combo and calls
// for many can be compared.
func newComboCounters(counters func(name, help string, labels ...string) *prometheus.CounterVec, formats []string) map[combosKey]comboCounters {
	combos := counters(CombosMetric, "Combos computed, by the request's format, in requests for one combo and for many.", "format", "combos")
	seconds := counters(ComboSecondsMetric, "Time of the requests that computed combos: at the boundary, in the queue, in the kernel.", "format", "combos", "part")
	made := map[combosKey]comboCounters{}
	for _, format := range formats {
		for size, many := range map[string]bool{OneCombo: false, ManyCombos: true} {
			made[combosKey{format, many}] = comboCounters{
				combos.WithLabelValues(format, size),
				seconds.WithLabelValues(format, size, BoundaryPart),
				seconds.WithLabelValues(format, size, QueuePart),
				seconds.WithLabelValues(format, size, ComputePart),
			}
		}
	}
	return made
}

// Begin implements Observer.
func (m *Metrics) Begin(*Exchange) { m.inFlight.Inc() }

// End implements Observer.
func (m *Metrics) End(ex *Exchange) {
	// Last, so that whoever sees no request in flight sees all of them counted.
	defer m.inFlight.Dec()
	endpoint := m.endpoint(ex)
	m.requests.WithLabelValues(endpoint, m.statuses.label(ex.Status)).Inc()
	if ex.Panicked {
		m.panics.Inc()
	}
	if ex.Rejection != "" {
		m.rejection(ex.Rejection).Inc()
	}
	request, answer := m.format(ex.RequestFormat), m.format(ex.AnswerFormat)
	if b, ok := m.bodies[bodyKey{endpoint, request}]; ok {
		b.in.Add(float64(ex.BytesIn))
		b.bars.Add(float64(ex.Bars))
		m.bodies[bodyKey{endpoint, answer}].out.Add(float64(ex.BytesOut))
	}
	if c, ok := m.combos[combosKey{request, ex.Combos > 1}]; ok && ex.Combos > 0 {
		queue, _ := ex.Clock.Spent(Queue)
		compute, _ := ex.Clock.Spent(Compute)
		c.combos.Add(float64(ex.Combos))
		c.queue.Add(queue.Seconds())
		c.compute.Add(compute.Seconds())
		c.boundary.Add((ex.Clock.Wall() - queue - compute).Seconds())
	}
	if d, ok := m.durations[endpoint]; ok {
		d.Observe(ex.Clock.Wall().Seconds())
	}
	for p := range numPhases {
		spent, entered := ex.Clock.Spent(p)
		if !entered {
			continue
		}
		format := request
		if p >= Encode {
			format = answer
		}
		if o, ok := m.phases[phaseKey{endpoint, format, p}]; ok {
			o.Observe(spent.Seconds())
		} else if slices.Contains(m.labels.Timed[endpoint], p) {
			m.phaseTimes.WithLabelValues(endpoint, format, p.String()).Observe(spent.Seconds())
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

func (m *Metrics) format(name string) string {
	if m.formats[name] {
		return name
	}
	return Other
}

// State is read at each scrape.
type State struct {
	QueueDepth   func() int   // requests waiting for a compute slot
	Slots        func() int   // compute slots in all
	SlotsBusy    func() int   // compute slots in use
	Datasets     func() int   // datasets, with the built-in one
	DatasetBytes func() int64 // memory of their series
	MemoryMax    func() int64 // memory for bodies in flight, in all
	MemoryBusy   func() int64 // memory reserved for bodies in flight
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
	gauge(DatasetsMetric, "Datasets, with the built-in one.", func() float64 { return float64(s.Datasets()) })
	gauge(DatasetBytesMetric, "Memory of the datasets' series.", func() float64 { return float64(s.DatasetBytes()) })
	gauge(MemoryMetric, "Memory for the bodies of all requests in flight, in bytes.", func() float64 { return float64(s.MemoryMax()) })
	gauge(MemoryBusyMetric, "Memory reserved for the bodies of requests in flight, in bytes.", func() float64 { return float64(s.MemoryBusy()) })
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: BuildInfoMetric, Help: "Always 1; the labels tell the build.", ConstLabels: build})
	info.Set(1)
	registry.MustRegister(info)
}
