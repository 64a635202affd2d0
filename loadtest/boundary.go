package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"texttax/kernel"
)

// A Boundary is a way for calls to reach the kernel. A Boundary may be used by
// many goroutines; the connections it dials may not.
type Boundary interface {
	// Name is the boundary's name in reports and metrics: in-process,
	// http-tcp, https-tcp, http-unix, frame-tcp, frame-unix, frame-shm or spawn.
	Name() string
	// Check returns an error if the boundary can't carry the call in the
	// format.
	Check(c *Call, f Format) error
	// Dial opens a connection. A failure says what was dialled.
	Dial(ctx context.Context) (Conn, error)
}

// A Conn takes one exchange at a time.
type Conn interface {
	// Exchange sends a message and reads the reply to it, within the timeout
	// of the message. After an error the connection must be closed. An answer
	// that is a refusal is no error: the reply's Status tells it.
	Exchange(m *Message, r *Reply) error
	// Close ends the connection, and an exchange that is on its way.
	Close() error
}

// A Message is a call, ready to be sent.
type Message struct {
	Call    *Call
	Format  Format
	Body    []byte // in the format; nil in process
	Timeout time.Duration
}

// A Reply is what came back. Its memory is used again by the next exchange.
type Reply struct {
	Status  int             // as of HTTP; 200 where the boundary has no refusals
	Body    []byte          // nil in process
	Results *kernel.Results // in process only: what was computed
	Timing  ServerTiming    // how the server spent its part
	Close   bool            // the server ends the connection

	// When the first byte was handed over, the first byte of the reply was
	// there, and the last one was, on the clock that Now reads.
	Sent, FirstByte, Done time.Duration
}

// reset empties the reply and keeps its memory.
func (r *Reply) reset() { *r = Reply{Body: r.Body[:0], Status: 200} }

var epoch = time.Now()

// Now is the time on the clock of replies and records: since the start of the
// program, and never set back.
func Now() time.Duration { return time.Since(epoch) }

// InProcess is no boundary at all: the kernel is called in the caller's own
// process, on all its cores. It needs no format.
var InProcess Boundary = inProcess{}

type inProcess struct{}

func (inProcess) Name() string { return "in-process" }

func (inProcess) Check(c *Call, _ Format) error {
	_, err := c.series()
	return err
}

func (inProcess) Dial(context.Context) (Conn, error) {
	ctx, cancel := context.WithCancel(context.Background())
	return &inProcessConn{ctx: ctx, cancel: cancel}, nil
}

type inProcessConn struct {
	ctx     context.Context // ends with the connection
	cancel  context.CancelFunc
	results kernel.Results
}

func (c *inProcessConn) Exchange(m *Message, r *Reply) error {
	r.reset()
	r.Sent = Now()
	if m.Call.Want != nil {
		series, err := m.Call.series()
		if err != nil {
			return err
		}
		if err := kernel.Sweep(c.ctx, series, m.Call.Request.Params, kernel.DefaultFee, 0, &c.results); err != nil {
			return err
		}
		r.Results = &c.results
	}
	r.Done = Now()
	r.FirstByte = r.Done
	r.Timing.set(Compute, r.Done-r.Sent)
	return nil
}

func (c *inProcessConn) Close() error {
	c.cancel()
	return nil
}

// ParseBoundary returns the boundary that an address names:
//
//	http://host:port[/prefix]   HTTP over TCP, and https:// over TLS
//	unix:/path                  HTTP over a Unix socket
//	frame+tcp://host:port       frames over TCP
//	frame+unix:/path            frames over a Unix socket
//	frame+shm:/path             frames over rings in shared memory
func ParseBoundary(address string) (Boundary, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address can't be read: %w", err)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("the address %s may have a scheme, a host, a port and a path, and nothing more", u.Redacted())
	}
	path := strings.TrimRight(u.Path, "/")
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" {
			return nil, fmt.Errorf("the address %q names no host", address)
		}
		h := &HTTP{Network: "tcp", Address: u.Host, Host: u.Host, Prefix: path, TLS: u.Scheme == "https"}
		if u.Port() == "" {
			h.Address = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
		return h, nil
	case "unix":
		if u.Path == "" || u.Host != "" {
			return nil, errors.New("a Unix socket is given as unix:/path")
		}
		return &HTTP{Network: "unix", Address: u.Path, Host: "localhost"}, nil
	case "frame+tcp":
		if u.Port() == "" || path != "" {
			return nil, errors.New("frames over TCP are given as frame+tcp://host:port")
		}
		return &Frames{Network: "tcp", Address: u.Host}, nil
	case "frame+unix", "frame+shm":
		if u.Path == "" || u.Host != "" {
			return nil, errors.New("frames over a Unix socket are given as frame+unix:/path, and over shared memory as frame+shm:/path")
		}
		return &Frames{Network: strings.TrimPrefix(u.Scheme, "frame+"), Address: u.Path}, nil
	}
	return nil, fmt.Errorf("the address %q is none of http://host:port, https://host:port, unix:/path, frame+tcp://host:port, frame+unix:/path and frame+shm:/path", address)
}
