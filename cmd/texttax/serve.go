package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/units"

	"texttax/handlers"
	"texttax/handlers/store"
)

type serveCommand struct {
	Listen      []address  `default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address to serve on, HOST:PORT or unix:PATH; may be given several times. Port 0 takes a free port; the address is printed. Default: ${default}."`
	AdminListen address    `placeholder:"ADDRESS" help:"Serve /metrics, /live, /healthz, /readyz and /debug/pprof/ on this address instead. Without it there is no pprof."`
	FrameListen []address  `placeholder:"ADDRESS" help:"Address to serve the frame protocol on, unix:PATH, tcp:HOST:PORT or shm:PATH (rings in shared memory, offered on a socket); may be given several times."`
	SocketMode  socketMode `default:"0600" placeholder:"MODE" help:"Permissions of the files of Unix sockets: who may connect. Default: ${default}."`

	Security security `embed:"" group:"Security"`

	BodyMax        size          `default:"64MiB" help:"Largest body, on the wire and once its content encoding is undone."`
	BarsMax        int           `default:"10000000" help:"Longest series, in bars."`
	CombosMax      int           `default:"100000" help:"Most combos of a sweep."`
	WorkMax        int64         `default:"20000000000" help:"Most work of a sweep, in bars x combos. A combo with windows of more than about 2,000 bars counts for many: half of the terms of its sums."`
	ConnectionsMax int           `default:"2048" help:"Most connections of an address. For further ones those of HTTP that have been idle for longest are closed, or end with their next answer; of frames they wait. Also most HTTP requests in flight, of which HTTP/2 can have many on a connection; beyond it the answer is 503. Health and metrics do not count among these, and on --admin-listen they have connections of their own."`
	Slots          int           `default:"0" help:"Goroutines that compute at a time, over all requests; at most one a core, which is what 0 means."`
	QueueMax       int           `default:"1024" help:"Most requests that wait for a compute slot, and as many for memory; beyond it the answer is 503. Sweeps take turns, so that a long one does not keep the short ones waiting."`
	QueueTime      time.Duration `default:"20s" help:"Longest time that a sweep may expect to be kept waiting by others when it comes; beyond it the answer is 503. 0 is no limit."`

	MemoryMax size `default:"0" help:"Memory for all requests in flight: 8 bytes for each of a body, and what more it stands for, combos, sweeps and answers. Beyond it they wait, and then the answer is 503. Unless GOMEMLIMIT is set, the garbage collector aims to stay within this, the datasets that there are, and 40 MiB. 0 means 1GiB, or what one body of --body-max takes if that is more."`

	RequestTimeout time.Duration `default:"1m" help:"Longest time for a sweep, from the header of its request on, waiting included; beyond it the answer is 503. A client can ask for less in X-Request-Timeout, in seconds. 0 is no limit."`
	TransferGrace  time.Duration `default:"20s" help:"Time that a body may take to arrive, and an answer to be read, whatever its length. 0 is no limit."`
	TransferRate   size          `default:"16KiB" help:"Bytes a second that a body must arrive at, and an answer be read at, beyond the grace; a slower body is answered 408."`

	DatasetsMax size   `default:"1GiB" help:"Most bytes of all datasets that clients store, 8 for each bar; beyond it the answer is 507."`
	DataDir     string `placeholder:"DIR" help:"Directory that keeps the stored datasets over a restart. Without it they are in memory only."`

	Compress handlers.Compression `default:"off" enum:"off,text,all" help:"Answers to compress when the client's Accept-Encoding asks for it: off, text (JSON only) or all."`

	HeaderTimeout time.Duration `default:"10s" help:"Longest time for a request's header to arrive, and for each 64 KiB of a frame."`
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
	return `Routes: POST /sweep and /echo; GET /datasets; GET, PUT and DELETE /datasets/ID; GET /metrics, /live (the metrics, drawn), /healthz, /readyz, /version, /openapi.yaml and / (a short guide).

Body formats, chosen by Content-Type and Accept: application/json, application/vnd.msgpack, application/vnd.apache.arrow.stream, application/octet-stream.

The frame protocol of --frame-listen is sweeps and echoes without HTTP: frames [u32 length][body] both ways, all little-endian. The body of a request is [u8 opcode, 0 sweep or 1 echo][u32 bars][u32 combos][f64 closes][6 x i64 windows of each combo]; a reply is [f64 profits][i64 trades] of a sweep, and the closes of an echo. A frame that is refused closes the connection, and the log says why.

The time of each request is split into phases, in the header Server-Timing and in the histogram texttax_phase_duration_seconds.`
}

// Validate refuses limits that would refuse everything, or nothing.
func (c *serveCommand) Validate() error {
	for _, limit := range []struct {
		flag  string
		value int64
	}{
		{"--body-max", int64(c.BodyMax)}, {"--bars-max", int64(c.BarsMax)}, {"--combos-max", int64(c.CombosMax)}, {"--work-max", c.WorkMax},
		{"--connections-max", int64(c.ConnectionsMax)},
	} {
		if limit.value < 1 {
			return fmt.Errorf("%s must be at least 1, not %d", limit.flag, limit.value)
		}
	}
	if len(c.Listen) == 0 || slices.Contains(slices.Concat(c.Listen, c.FrameListen), address{}) {
		return errors.New("--listen and --frame-listen need addresses, such as 127.0.0.1:8080 or unix:/run/texttax.sock")
	}
	if c.MemoryMax != 0 && int64(c.MemoryMax) < handlers.MemoryFor(int64(c.BodyMax)) {
		return fmt.Errorf("--memory-max must be at least %d, which a body of --body-max may take, not %d", handlers.MemoryFor(int64(c.BodyMax)), c.MemoryMax)
	}
	if c.RequestTimeout < 0 || c.QueueTime < 0 || c.TransferGrace < 0 || c.TransferRate < 0 {
		return errors.New("--request-timeout, --queue-time, --transfer-grace and --transfer-rate must not be negative")
	}
	if slices.ContainsFunc(append(slices.Clone(c.Listen), c.AdminListen), address.isMemory) {
		return errors.New("HTTP is not served over shared memory: shm: is for --frame-listen")
	}
	if err := c.Security.validate(); err != nil {
		return err
	}
	if c.Slots < 0 || c.QueueMax < 0 {
		return errors.New("--slots and --queue-max must not be negative")
	}
	if c.DatasetsMax < 0 {
		return fmt.Errorf("--datasets-max must not be negative, as %d is", c.DatasetsMax)
	}
	if c.HeaderTimeout <= 0 || c.IdleTimeout <= 0 || c.DrainTimeout <= 0 || c.DrainDelay < 0 {
		return errors.New("timeouts must be above 0")
	}
	return nil
}

// Run serves until ctx ends, then drains.
func (c *serveCommand) Run(ctx context.Context, out streams) error {
	log := newLog(c.LogFormat, c.LogLevel, out.stderr)
	guards, err := c.Security.load()
	if err != nil {
		return err
	}
	defer guards.reloadOnHangup(log)()
	datasets, err := store.Open(store.Config{Max: int64(c.DatasetsMax), Dir: c.DataDir, Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = datasets.Close() }() // what was acknowledged is on disk already
	memory := cmp.Or(int64(c.MemoryMax), max(handlers.DefaultMemory, handlers.MemoryFor(int64(c.BodyMax))))
	limitMemory := func() {
		const beside = 40 << 20 // for all else: connections, and the program
		if os.Getenv("GOMEMLIMIT") == "" {
			debug.SetMemoryLimit(memory + datasets.Bytes() + beside)
		}
	}
	limitMemory()
	var ready atomic.Bool
	s := newStack(handlers.Config{
		Limits:      handlers.Limits{BodyBytes: int64(c.BodyMax), Bars: c.BarsMax, Combos: c.CombosMax, Work: c.WorkMax},
		Slots:       c.Slots,
		Queue:       c.QueueMax,
		QueueTime:   c.QueueTime,
		Memory:      memory,
		Deadlines:   handlers.Deadlines{Request: c.RequestTimeout, Grace: c.TransferGrace, Rate: int64(c.TransferRate)},
		Compression: c.Compress,
		Datasets:    datasets,
		Changed:     limitMemory,
		Build:       handlers.Build(buildInfo()),
		Ready:       ready.Load,
		Log:         log,
	}, guards, c.ConnectionsMax, c.AdminListen != address{})

	// Listening comes first: a busy port is an error at once.
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // closed already, if it was served
		}
	}()
	type service struct {
		name     string
		url      string
		listener net.Listener
		server   protocol
	}
	var services []service
	serve := func(name string, at address, url func(net.Addr) string, v protocol) error {
		l, err := at.listen(ctx, c.SocketMode)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
		if err := guards.mayBind(at, l.Addr(), name != "frames"); err != nil {
			return err
		}
		at.warnOfStrangers(log, l.Addr(), c.SocketMode, guards)
		services = append(services, service{name, url(l.Addr()), l, v})
		return nil
	}
	for _, at := range c.Listen {
		if err := serve("serving", at, httpURL(at, guards), c.httpServer(s.public, log, guards)); err != nil {
			return err
		}
	}
	for _, at := range c.FrameListen {
		if err := serve("frames", at, at.frameURL, s.frames(c.ConnectionsMax, handlers.FrameTimeouts{Idle: c.IdleTimeout, Frame: c.HeaderTimeout})); err != nil {
			return err
		}
	}
	public := len(services)
	if c.AdminListen != (address{}) {
		if err := serve("admin", c.AdminListen, httpURL(c.AdminListen, guards), c.httpServer(s.admin, log, guards)); err != nil {
			return err
		}
	}

	// From here on connections are accepted, by the listeners' backlog if not
	// by us: whoever reads the address below finds the service ready.
	ready.Store(true)
	failed := make(chan error, len(services))
	for _, v := range services {
		fmt.Fprintf(out.stdout, "%s on %s\n", v.name, v.url)
		go func() {
			if err := v.server.Serve(v.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serving %s: %w", v.listener.Addr(), err)
			}
		}()
	}
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
	for i := range public {
		draining.Go(func() { shutdown(i) })
	}
	draining.Wait()
	for i := public; i < len(services); i++ {
		shutdown(i)
	}
	err = errors.Join(append(cut, err)...)
	log.Info("stopped")
	return err
}
