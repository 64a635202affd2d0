package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"texttax/loadtest"
	"texttax/loadtest/report"
)

type loadCommand struct {
	URL string `arg:"" help:"Where to: http://host:port, https://host:port, unix:/path, frame+tcp://host:port, frame+unix:/path or frame+shm:/path."`

	Format      string               `default:"json" enum:"json,json-std,msgpack,msgpack-bin,arrow,octet" help:"Format of the bodies: json, json-std, msgpack, msgpack-bin, arrow or octet."`
	Granularity loadtest.Granularity `default:"chunky" enum:"chunky,chatty,preloaded,per-bar,echo" help:"Calls of the work: chunky (one with all combos), chatty (one a combo, the series in each), preloaded (one a combo, by the name of the series), per-bar (an echo of one close) or echo (of the whole series)."`
	Combos      int                  `default:"80" help:"Combos of a sweep, of lengths from 6 to 200."`
	PreEncoded  bool                 `help:"Encode each request once, before the run. By default each call pays for it, as callers do."`

	Connections int           `default:"1" help:"Callers, each with a connection of its own."`
	Rate        float64       `help:"Calls a second that are meant to begin, whatever becomes of those before. Without it each caller sends as soon as it has its answer."`
	Poisson     bool          `help:"Random gaps between the calls of a rate, as many independent callers leave them."`
	Seed        uint64        `default:"1" help:"Seed of the random gaps."`
	Warmup      time.Duration `default:"1s" help:"Time before the results begin."`
	Duration    time.Duration `default:"10s" help:"Time of the run after that; 0 for no end."`
	Count       int64         `help:"Calls after which the run is over."`
	Stable      bool          `help:"End the run as soon as the medians of three seconds in a row are within 10 %."`
	Timeout     time.Duration `default:"30s" help:"Longest time for a call."`

	TLSCA       string `name:"tls-ca" placeholder:"FILE" help:"Certificates in PEM to trust in the place of the system's."`
	MetricsAddr string `placeholder:"HOST:PORT" help:"Serve the phases of the calls to Prometheus on this address, at /metrics."`
	Out         string `placeholder:"DIR" help:"Write the results to this directory."`
}

// Help is shown by texttax load --help.
func (*loadCommand) Help() string {
	return `Sends calls to a server, compares every answer with the kernel's in this process, and tells which phase their time goes into, the caller's and the server's.

  texttax load http://localhost:8080 --format octet --connections 4
  texttax load http://localhost:8080 --granularity per-bar --format octet --connections 16 --rate 5000`
}

// Validate refuses flags that contradict each other.
func (c *loadCommand) Validate() error {
	switch {
	case c.Connections < 1:
		return errors.New("--connections must be at least 1")
	case c.Rate < 0:
		return errors.New("--rate must be above 0")
	case c.Poisson && c.Rate == 0:
		return errors.New("--poisson needs a --rate")
	case c.Combos < 2:
		return errors.New("--combos must be at least 2")
	case c.Warmup < 0 || c.Duration < 0 || c.Timeout <= 0 || c.Count < 0:
		return errors.New("times and counts must not be negative")
	case c.Duration == 0 && c.Count == 0 && !c.Stable:
		return errors.New("--duration 0 needs a --count, or --stable")
	}
	return nil
}

// Run drives the server until the run is over.
func (c *loadCommand) Run(ctx context.Context, out streams) error {
	boundary, err := c.boundary()
	if err != nil {
		return err
	}
	format, err := loadtest.FormatByName(c.Format)
	if err != nil {
		return err
	}
	work, err := loadtest.Demo(c.Combos)
	if err != nil {
		return err
	}
	job, err := work.Cut(c.Granularity, format)
	if err != nil {
		return err
	}
	plan := loadtest.Plan{
		Scenario:    loadtest.Scenario{Boundary: boundary, Format: format, Granularity: c.Granularity, PreEncoded: c.PreEncoded},
		Job:         job,
		Connections: c.Connections, Warmup: c.Warmup, Duration: c.Duration, Count: c.Count, Stable: c.Stable, Timeout: c.Timeout,
	}
	switch {
	case c.Poisson:
		plan.Pacer = loadtest.Poisson{Rate: c.Rate, Seed: c.Seed}
	case c.Rate > 0:
		plan.Pacer = loadtest.Constant(c.Rate)
	}
	var observers []func(*loadtest.Record)
	var calls *report.Calls
	if c.Out != "" {
		if calls, err = report.CreateCalls(c.Out); err != nil {
			return err
		}
		observers = append(observers, calls.Observe)
	}
	if c.MetricsAddr != "" {
		registry := prometheus.NewRegistry()
		observers = append(observers, loadtest.NewMetrics(registry).Observe(plan.Scenario, job))
		stop, err := serveMetrics(ctx, c.MetricsAddr, registry, out)
		if err != nil {
			return err
		}
		defer stop()
	}
	plan.Observe = func(r *loadtest.Record) {
		for _, observe := range observers {
			observe(r)
		}
	}
	began := time.Now()
	status := newStatus(out.stderr)
	plan.Progress = func(w loadtest.Window) {
		stage := ""
		if w.Start < 0 {
			stage = "warm-up, "
		}
		status.show("%s%.0f/s, p50 %s, p99 %s, %d errors", stage, w.Rate(), loadtest.Seconds(w.P50), loadtest.Seconds(w.P99), w.Errors)
	}
	result, err := loadtest.Run(ctx, plan)
	status.end()
	if calls != nil {
		err = errors.Join(err, calls.Close())
	}
	if result == nil {
		return fmt.Errorf("%s: %w%s", c.URL, err, hint(err))
	}
	if err == nil && result.Failed() > 0 {
		err = fmt.Errorf("%d of %d calls were not answered", result.Failed(), result.Failed()+result.Answered())
	}
	return errors.Join(err, loadtest.WriteSummary(out.stdout, result), writeReport(c.Out, out, &report.Report{Load: result}, began, err))
}

func (c *loadCommand) boundary() (loadtest.Boundary, error) {
	boundary, err := loadtest.ParseBoundary(c.URL)
	if err != nil || c.TLSCA == "" {
		return boundary, err
	}
	h, ok := boundary.(*loadtest.HTTP)
	if !ok || !h.TLS {
		return nil, errors.New("--tls-ca needs an address with https://")
	}
	pem, err := os.ReadFile(c.TLSCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", c.TLSCA)
	}
	h.TLSConfig = &tls.Config{RootCAs: roots}
	return h, nil
}

// hint says what to do about an error that many meet.
func hint(err error) string {
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &unknown):
		return "; name the certificates to trust by --tls-ca"
	case strings.Contains(err.Error(), "connection refused"):
		return "; is texttax serve running there?"
	}
	return ""
}

// serveMetrics serves a registry until stop is called.
func serveMetrics(ctx context.Context, address string, registry *prometheus.Registry, out streams) (stop func(), err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // until it is closed
	fmt.Fprintf(out.stderr, "metrics on http://%s/metrics\n", l.Addr())
	return func() { _ = server.Close() }, nil
}
