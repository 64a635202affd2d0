package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/units"

	"texttax/handlers"
)

type serveCommand struct {
	Listen      []string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to serve on; may be given several times. Port 0 takes a free port; the address is printed. Default: ${default}."`
	AdminListen string   `placeholder:"HOST:PORT" help:"Serve /metrics, /live, /healthz, /readyz and /debug/pprof/ on this address instead. Without it there is no pprof."`

	BodyMax   size  `default:"64MiB" help:"Largest body, on the wire and once its content encoding is undone."`
	BarsMax   int   `default:"10000000" help:"Longest series, in bars."`
	CombosMax int   `default:"100000" help:"Most combos of a sweep."`
	WorkMax   int64 `default:"20000000000" help:"Most work of a sweep, in bars x combos."`
	Slots     int   `default:"0" help:"Goroutines that compute at a time, over all requests; at most one a core, which is what 0 means."`
	QueueMax  int   `default:"1024" help:"Most requests that wait for a compute slot; beyond it the answer is 503."`

	Compress handlers.Compression `default:"off" enum:"off,text,all" help:"Answers to compress when the client's Accept-Encoding asks for it: off, text (JSON only) or all."`

	HeaderTimeout time.Duration `default:"10s" help:"Longest time for a request's header to arrive."`
	IdleTimeout   time.Duration `default:"2m" help:"Longest time that an idle connection is kept."`
	DrainDelay    time.Duration `default:"1s" help:"On SIGTERM or SIGINT: time between failing /readyz and closing the listeners. A second signal stops at once."`
	DrainTimeout  time.Duration `default:"30s" help:"Longest time for accepted requests to finish after that."`

	LogFormat string     `default:"text" enum:"text,json" help:"Form of the log on standard error: text or json."`
	LogLevel  slog.Level `default:"info" help:"Least level that is logged: debug, info, warn or error. Requests are info."`
}

// size is a number of bytes, such as 64MiB or 1000.
type size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *size) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*s = size(n)
		return nil
	}
	n, err := units.ParseBase2Bytes(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no size; sizes are like 1000, 64KiB or 64MiB", text)
	}
	*s = size(n)
	return nil
}

// Help is shown by texttax serve --help.
func (*serveCommand) Help() string {
	return `Routes: POST /sweep and /echo; GET /datasets, /datasets/ID, /metrics, /live (the metrics, drawn), /healthz, /readyz, /version, /openapi.yaml and / (a short guide).

Body formats, chosen by Content-Type and Accept: application/json, application/vnd.msgpack, application/vnd.apache.arrow.stream, application/octet-stream.

The time of each request is split into phases, in the header Server-Timing and in the histogram texttax_phase_duration_seconds.`
}

// Validate refuses limits that would refuse everything, or nothing.
func (c *serveCommand) Validate() error {
	for _, limit := range []struct {
		flag  string
		value int64
	}{
		{"--body-max", int64(c.BodyMax)}, {"--bars-max", int64(c.BarsMax)}, {"--combos-max", int64(c.CombosMax)}, {"--work-max", c.WorkMax},
	} {
		if limit.value < 1 {
			return fmt.Errorf("%s must be at least 1, not %d", limit.flag, limit.value)
		}
	}
	if len(c.Listen) == 0 || slices.Contains(c.Listen, "") {
		return errors.New("--listen needs an address, such as 127.0.0.1:8080")
	}
	if c.Slots < 0 || c.QueueMax < 0 {
		return errors.New("--slots and --queue-max must not be negative")
	}
	if c.HeaderTimeout <= 0 || c.IdleTimeout <= 0 || c.DrainTimeout <= 0 || c.DrainDelay < 0 {
		return errors.New("timeouts must be above 0")
	}
	return nil
}

// Run serves until ctx ends, then drains.
func (c *serveCommand) Run(ctx context.Context, out streams) error {
	log := newLog(c.LogFormat, c.LogLevel, out.stderr)
	var ready atomic.Bool
	s := newStack(handlers.Config{
		Limits:      handlers.Limits{BodyBytes: int64(c.BodyMax), Bars: c.BarsMax, Combos: c.CombosMax, Work: c.WorkMax},
		Slots:       c.Slots,
		Queue:       c.QueueMax,
		Compression: c.Compress,
		Build:       handlers.Build(buildInfo()),
		Ready:       ready.Load,
		Log:         log,
	}, c.AdminListen != "")

	// Listening comes first: a busy port is an error at once.
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // closed already, if it was served
		}
	}()
	listen := func(address string) (net.Listener, error) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		return l, nil
	}
	type service struct {
		name     string
		listener net.Listener
		server   *http.Server
	}
	var services []service
	for _, address := range c.Listen {
		l, err := listen(address)
		if err != nil {
			return err
		}
		services = append(services, service{"serving", l, c.server(s.public, log)})
	}
	if c.AdminListen != "" {
		l, err := listen(c.AdminListen)
		if err != nil {
			return err
		}
		services = append(services, service{"admin", l, c.server(s.admin, log)})
	}

	// From here on connections are accepted, by the listeners' backlog if not
	// by us: whoever reads the address below finds the service ready.
	ready.Store(true)
	failed := make(chan error, len(services))
	for _, v := range services {
		fmt.Fprintf(out.stdout, "%s on http://%s\n", v.name, v.listener.Addr())
		if a, ok := v.listener.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
			log.Warn("anyone who reaches this address can use it: there is no authentication", "address", a.String())
		}
		go func() {
			if err := v.server.Serve(v.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s: %w", v.listener.Addr(), err)
			}
		}()
	}
	var err error
	select {
	case err = <-failed:
		ready.Store(false)
	case <-ctx.Done():
		ready.Store(false)
		log.Info("draining", "delay", c.DrainDelay, "timeout", c.DrainTimeout)
		time.Sleep(c.DrainDelay)
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.DrainTimeout)
	defer cancel()
	// All at once, but for the admin address: health can be asked for until the
	// end.
	cut := make([]error, len(services))
	shutdown := func(i int) {
		if e := services[i].server.Shutdown(deadline); e != nil {
			_ = services[i].server.Close()
			cut[i] = fmt.Errorf("requests on %s were cut off: %w", services[i].listener.Addr(), e)
		}
	}
	var draining sync.WaitGroup
	for i := range c.Listen {
		draining.Go(func() { shutdown(i) })
	}
	draining.Wait()
	for i := len(c.Listen); i < len(services); i++ {
		shutdown(i)
	}
	err = errors.Join(append(cut, err)...)
	log.Info("stopped")
	return err
}

// maxHeaderBytes bounds a request's header. Ours are short.
const maxHeaderBytes = 64 << 10

func (c *serveCommand) server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: c.HeaderTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Or OPTIONS * would be answered past the middleware.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
