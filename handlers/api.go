// Package handlers serves the routes. A request goes one way: negotiate the
// formats, read and decode the body, check it against query and limits, wait
// for a compute slot, sweep, encode, write. Every refusal on that way is an
// error, and problem.go is the one place that turns errors into answers.
package handlers

import (
	"cmp"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"texttax/encoding"
	"texttax/handlers/store"
	"texttax/kernel/gbm42"
	"texttax/middleware"
)

// Limits bound what one request may ask for.
type Limits struct {
	BodyBytes int64 // of a body, on the wire and once its encoding is undone
	Bars      int   // of a series
	Combos    int   // of a sweep
	Work      int64 // bars x combos of a sweep
}

// DefaultLimits are the limits of a server that sets none.
var DefaultLimits = Limits{BodyBytes: 64 << 20, Bars: 10_000_000, Combos: 100_000, Work: 20_000_000_000}

// DefaultQueue is the number of requests that may wait for a compute slot.
const DefaultQueue = 1024

// DefaultMemory is what the bodies of all requests in flight may take in all.
const DefaultMemory = 1 << 30

// Config is what an API needs to know. Limits that are 0 are those of
// DefaultLimits, and so is the Memory; a Queue of 0 lets no request wait.
type Config struct {
	Limits      Limits
	Slots       int           // goroutines in the kernel at a time, GOMAXPROCS at most; < 1 means that
	Queue       int           // requests that may wait for a slot, and as many for memory
	QueueTime   time.Duration // longest that a request may expect to wait for others; 0 is no limit
	Memory      int64         // bytes that all bodies in flight may take, with what is made of them
	Deadlines   Deadlines
	Compression Compression
	Changed     func()       // told after a dataset was stored or deleted; nil for nobody
	Datasets    *store.Store // nil means one in memory, with the default limit
	// Require, if not nil, makes a middleware that lets through who has a scope,
	// and gives the others to deny: known tells that they have another.
	Require func(scope string, deny func(w http.ResponseWriter, r *http.Request, known bool)) func(http.Handler) http.Handler
	Build   Build
	Ready   func() bool // whether /readyz says yes; nil means always
	Log     *slog.Logger
}

// Build tells which program this is.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Kernel   string `json:"kernel"` // the kernel's implementation in use
}

// API serves the routes.
type API struct {
	config Config
	slots  *slots
	memory *memory
}

// New makes an API.
func New(config Config) *API {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	limits := &config.Limits
	limits.BodyBytes = cmp.Or(limits.BodyBytes, DefaultLimits.BodyBytes)
	limits.Bars = cmp.Or(limits.Bars, DefaultLimits.Bars)
	limits.Combos = cmp.Or(limits.Combos, DefaultLimits.Combos)
	limits.Work = cmp.Or(limits.Work, DefaultLimits.Work)
	if config.Datasets == nil {
		config.Datasets = store.New(store.DefaultMax)
	}
	if config.Changed == nil {
		config.Changed = func() {}
	}
	return &API{config: config, slots: newSlots(config.Slots, config.Queue, config.QueueTime), memory: newMemory(cmp.Or(config.Memory, DefaultMemory), config.Queue, config.QueueTime)}
}

// Limits returns the limits in force.
func (a *API) Limits() Limits { return a.config.Limits }

// State returns the gauges of the API, for the metrics.
func (a *API) State() middleware.State {
	return middleware.State{
		QueueDepth:   func() int { return int(a.slots.depth.Load()) },
		Slots:        func() int { return a.slots.total },
		SlotsBusy:    a.slots.busy,
		Datasets:     func() int { return 1 + a.config.Datasets.Count() },
		DatasetBytes: func() int64 { return 8*gbm42.Bars + a.config.Datasets.Bytes() },
		MemoryMax:    func() int64 { return a.memory.max },
		MemoryBusy:   a.memory.busy,
	}
}

// endpoints are the endpoint labels of the routes, by pattern.
var endpoints = map[string]string{
	"/sweep":         "sweep",
	"/echo":          "echo",
	"/datasets":      "datasets",
	"/datasets/{id}": "datasets",
	"/":              "home",
	"/openapi.yaml":  "openapi",
	"/version":       "version",
	"/healthz":       "healthz",
	"/readyz":        "readyz",
	"/metrics":       "metrics",
	"/live":          "live",
}

// Labels returns the closed sets that metric labels come from, for a service
// that compresses answers as said.
func Labels(answers Compression) middleware.Labels {
	var boundary []middleware.Phase
	for _, p := range middleware.Phases() {
		if p != middleware.Queue && p != middleware.Compute {
			boundary = append(boundary, p)
		}
	}
	var framed []middleware.Phase
	for _, p := range middleware.Phases() {
		if p != middleware.Decompress && p != middleware.Compress {
			framed = append(framed, p)
		}
	}
	routes := maps.Clone(endpoints)
	routes[frameRoute] = "frame"
	return middleware.Labels{
		Endpoints: routes,
		// Of the datasets the bytes are counted, and no phases: what a disk
		// takes is none of them.
		Timed:      map[string][]middleware.Phase{"sweep": middleware.Phases(), "echo": boundary, "frame": framed, "datasets": nil},
		Formats:    encoding.Names(),
		Only:       map[string][]string{"frame": {encoding.Octet.Name()}},
		Statuses:   append(Statuses(), middleware.StatusClientGone),
		Rejections: Reasons(),
		Possible: func(format string, p middleware.Phase) bool {
			switch {
			case format == middleware.Other: // refused before the format was known, or a problem
				return p == middleware.Decode || p == middleware.Encode || p == middleware.TransitOut
			case p == middleware.Compress:
				return answers.covers(format == encoding.JSON.Name() || format == encoding.JSONStd.Name())
			}
			return true
		},
	}
}

// QuietRoutes are the patterns that machines poll, and no log should be filled
// with.
var QuietRoutes = []string{"/healthz", "/readyz", "/metrics"}

// Routes adds the service's routes to r.
func (a *API) Routes(r chi.Router) {
	r.Post("/sweep", a.Allow(scopeSweep, a.route(a.sweep)))
	r.Post("/echo", a.Allow(scopeSweep, a.route(a.echo)))
	get(r, "/datasets", a.Allow(scopeSweep, a.route(a.listDatasets)))
	get(r, "/datasets/{id}", a.Allow(scopeSweep, a.route(a.getDataset)))
	r.Put("/datasets/{id}", a.Allow(scopeDatasets, a.route(a.putDataset)))
	r.Delete("/datasets/{id}", a.Allow(scopeDatasets, bodiless(a.route(a.deleteDataset))))
	get(r, "/openapi.yaml", a.prompt(serveOpenAPI))
	get(r, "/version", a.version)
	get(r, "/", a.route(a.home))
}

// Operations adds the routes that operators need to r: health, readiness, the
// metrics, and the live page that draws them. They can be served on another address than the rest.
func (a *API) Operations(r chi.Router, metrics http.Handler) {
	get(r, "/healthz", a.prompt(healthz))
	get(r, "/readyz", a.prompt(a.readyz))
	get(r, "/metrics", a.Allow(ScopeMetrics, a.prompt(metrics.ServeHTTP)))
	get(r, "/live", a.prompt(serveLive))
}

func get(r chi.Router, pattern string, h http.HandlerFunc) {
	r.Get(pattern, bodiless(h))
	r.Head(pattern, bodiless(h))
}

// Refusals makes r, a router of no other, refuse unknown paths and methods with
// problems.
func (a *API) Refusals(r chi.Router) {
	nothing := func(w http.ResponseWriter, q *http.Request) {
		a.fail(w, q, refuse(notFound, "the paths are described in /openapi.yaml"))
	}
	r.NotFound(nothing)
	r.MethodNotAllowed(func(w http.ResponseWriter, q *http.Request) {
		allowed := allowedMethods(r, q)
		if allowed == "" { // an unknown method, which chi refuses before it looks at the path
			nothing(w, q)
			return
		}
		w.Header().Set("Allow", allowed)
		a.fail(w, q, refuse(wrongMethod, "allowed are "+allowed))
	})
}

// allowedMethods lists the methods that the path of q has routes for.
func allowedMethods(r chi.Routes, q *http.Request) string {
	path := q.URL.RawPath // what chi matches, if it is set
	if path == "" {
		path = q.URL.Path
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if r.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	slices.Sort(allowed)
	return strings.Join(allowed, ", ")
}

// route makes a handler of one that can fail.
func (a *API) route(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := serve(w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}
