package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"texttax/handlers"
	"texttax/middleware"
)

// stack is everything between a socket and the kernel.
type stack struct {
	public   http.Handler
	admin    http.Handler // nil without an address of its own
	registry *prometheus.Registry
	metrics  *middleware.Metrics
}

// newStack joins the packages to a service: the middleware around the routes,
// and the metrics of both.
func newStack(config handlers.Config, separateAdmin bool) *stack {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
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
			middleware.BodyLimit(api.Limits().BodyBytes, api.TooLarge),
		)
		return r
	}
	exposition := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		// No OpenMetrics: by its rules the Go collector's gauge and counter of
		// allocated bytes are of one name.
		ErrorLog: slog.NewLogLogger(config.Log.Handler(), slog.LevelError),
	})

	public := newRouter()
	api.Routes(public)
	s := &stack{public: public, registry: registry, metrics: metrics}
	if !separateAdmin {
		api.Operations(public, exposition)
		return s
	}
	admin := newRouter()
	api.Operations(admin, exposition)
	admin.HandleFunc("/debug/pprof/*", pprof.Index)
	admin.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	admin.HandleFunc("/debug/pprof/profile", pprof.Profile)
	admin.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	admin.HandleFunc("/debug/pprof/trace", pprof.Trace)
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
