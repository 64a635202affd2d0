package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/cors"

	"texttax/handlers"
	"texttax/middleware"
)

// stack is everything between a socket and the kernel.
type stack struct {
	public   http.Handler
	admin    http.Handler // nil without an address of its own
	frames   func(connections int, timeouts handlers.FrameTimeouts) *handlers.FrameServer
	registry *prometheus.Registry
	metrics  *middleware.Metrics
}

// maxScrapes is how many may read the metrics at a time, each of which takes
// memory for all series. There are more than one or two only by mistake, or
// malice.
const maxScrapes = 10

// newStack joins the packages to a service: the middleware around the routes,
// and the metrics of both. At most so many requests are in flight, besides those
// for the operations.
func newStack(config handlers.Config, guards *guards, requests int, separateAdmin bool) *stack {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if guards.tokens != nil {
		config.Require = guards.tokens.Require
	}
	api := handlers.New(config)
	b := config.Build
	middleware.RegisterState(registry, api.State(), map[string]string{
		"version": b.Version, "revision": b.Revision, "goversion": b.Go, "kernel": b.Kernel,
	})
	metrics := middleware.NewMetrics(registry, handlers.Labels(config.Compression))
	requestLog := middleware.NewRequestLog(config.Log, handlers.QuietRoutes...)
	newRouter := func() *chi.Mux {
		r := chi.NewRouter()
		r.Use(
			middleware.Track(metrics, requestLog),
			middleware.Recover(config.Log, api.Fail),
			middleware.CloseWhile(func() bool { return config.Ready != nil && !config.Ready() }),
			middleware.CloseAfterChunks,
		)
		if origins := guards.flags.CORSOrigin; len(origins) > 0 {
			r.Use(cors.New(cors.Options{
				AllowedOrigins: origins,
				AllowedMethods: []string{"GET", "HEAD", "POST", "PUT", "DELETE"},
				AllowedHeaders: []string{"Accept", "Authorization", "Content-Encoding", "Content-Type", "If-Match", "If-None-Match", middleware.RequestIDHeader, handlers.TimeoutHeader},
				ExposedHeaders: []string{"Content-Encoding", "Etag", "Location", "Retry-After", "Server-Timing", middleware.RequestIDHeader},
				MaxAge:         600,
			}).Handler)
		}
		r.Use(middleware.BodyLimit(api.Limits().BodyBytes, api.TooLarge))
		api.Refusals(r)
		return r
	}
	exposition := middleware.Limit(maxScrapes, api.Busy)(promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// No OpenMetrics: by its rules the Go collector's gauge and counter of
		// allocated bytes are of one name.
		ErrorLog: slog.NewLogLogger(config.Log.Handler(), slog.LevelError),
	}))

	public := newRouter()
	// Health and metrics are beside these limits: a service that has much to do is
	// not ill, and that is when somebody looks.
	public.Group(func(r chi.Router) {
		r.Use(middleware.Limit(requests, api.Busy))
		if most := guards.flags.ClientRate; most > 0 {
			r.Use(httprate.LimitBy(most, time.Second, func(r *http.Request) (string, error) { return middleware.Client(r), nil }, httprate.WithLimitHandler(api.TooMany)))
		}
		if most := guards.flags.ClientConcurrency; most > 0 {
			r.Use(middleware.ClientLimit(most, api.TooMany))
		}
		api.Routes(r)
	})
	s := &stack{public: public, registry: registry, metrics: metrics}
	s.frames = func(connections int, t handlers.FrameTimeouts) *handlers.FrameServer {
		return api.NewFrameServer(metrics, connections, t)
	}
	if !separateAdmin {
		api.Operations(public, exposition)
		return s
	}
	admin := newRouter()
	api.Operations(admin, exposition)
	admin.HandleFunc("/debug/pprof/*", api.Allow(handlers.ScopeMetrics, handlers.Unhurried(pprof.Index)))
	admin.HandleFunc("/debug/pprof/cmdline", api.Allow(handlers.ScopeMetrics, handlers.Unhurried(pprof.Cmdline)))
	admin.HandleFunc("/debug/pprof/profile", api.Allow(handlers.ScopeMetrics, handlers.Unhurried(pprof.Profile)))
	admin.HandleFunc("/debug/pprof/symbol", api.Allow(handlers.ScopeMetrics, handlers.Unhurried(pprof.Symbol)))
	admin.HandleFunc("/debug/pprof/trace", api.Allow(handlers.ScopeMetrics, handlers.Unhurried(pprof.Trace)))
	s.admin = admin
	return s
}

// newLog returns a logger that writes to out.
func newLog(format string, level slog.Level, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}
