package handlers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"texttax/encoding"
	"texttax/middleware"
)

// frameRoute is what stands for a route in the exchanges of frames. No path of
// HTTP is the same: they begin with a slash.
const frameRoute = "frame"

// FrameTimeouts bound how long a client of the frame protocol may keep the
// server waiting.
type FrameTimeouts struct {
	Idle  time.Duration // between frames, and for a megabyte of a reply to be taken
	Frame time.Duration // for each 64 KiB of a frame, and for its end
}

// FrameServer serves the frame protocol: sweeps and echoes on a stream, with
// the slots, limits and checks of the HTTP routes. A frame that is refused
// closes its connection, since the protocol has no words for refusals; the log
// says why.
type FrameServer struct {
	api      *API
	observer middleware.Observer
	timeouts FrameTimeouts
	places   chan struct{} // one taken for each connection

	ctx      context.Context // of all sweeps
	stop     context.CancelFunc
	draining atomic.Bool
	made     atomic.Int64 // connections so far

	mu        sync.Mutex
	listeners map[net.Listener]bool
	conns     map[*frameConn]bool
}

// NewFrameServer makes a server that shows every frame to the observer. It has
// at most so many connections; further ones wait to be accepted.
func (a *API) NewFrameServer(observer middleware.Observer, connections int, timeouts FrameTimeouts) *FrameServer {
	s := &FrameServer{api: a, observer: observer, timeouts: timeouts, places: make(chan struct{}, connections),
		listeners: map[net.Listener]bool{}, conns: map[*frameConn]bool{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Serve accepts connections until the server is shut down, and then returns
// http.ErrServerClosed. It may be called for several listeners.
func (s *FrameServer) Serve(l net.Listener) error {
	s.mu.Lock()
	if len(s.listeners) == 0 {
		go s.patrol()
	}
	s.listeners[l] = true
	s.mu.Unlock()
	var warned time.Time
	for pause := time.Duration(0); ; {
		conn, err := l.Accept()
		switch {
		case s.draining.Load():
			if err == nil {
				_ = conn.Close()
			}
			return http.ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			// Such as no more file descriptors: connections that end give
			// some back.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.api.config.Log.Error("frames: accept", "cause", err.Error(), "pause", pause)
			time.Sleep(pause)
			continue
		}
		pause = 0
		select {
		case s.places <- struct{}{}:
		default:
			if time.Since(warned) > time.Minute {
				warned = time.Now()
				s.api.config.Log.Warn("frames: there are as many connections as there may be: further ones wait", "address", l.Addr().String(), "connections", cap(s.places))
			}
			s.places <- struct{}{} // Shutdown ends connections too
		}
		c := s.take(conn, l)
		if c == nil {
			<-s.places
			continue
		}
		go func() {
			defer func() { <-s.places }()
			c.serve()
		}()
	}
}

// take makes conn one of the server's connections, or closes it if the server
// takes no more.
func (s *FrameServer) take(conn net.Conn, l net.Listener) *frameConn {
	c := &frameConn{server: s, conn: conn, buffer: newBuffer(smallestBuffer), began: time.Now()}
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetNoDelay(true) // Go's default, and what small frames live on
	}
	c.frames = encoding.NewFrameReader(conn, c.buffer.memory)
	c.log = s.api.config.Log.With("conn", s.made.Add(1), "address", l.Addr().String(), "remote", conn.RemoteAddr().String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		_ = conn.Close()
		return nil
	}
	s.conns[c] = true
	return c
}

// Shutdown closes the listeners, and each connection once the frames that have
// begun on it are answered. It returns when none is left, or the cause of ctx.
func (s *FrameServer) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	s.closeListeners()
	for {
		s.mu.Lock()
		for c := range s.conns {
			c.closeIfIdle()
		}
		left := len(s.conns)
		s.mu.Unlock()
		if left == 0 {
			s.stop()
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close ends the server at once, and breaks what it is doing.
func (s *FrameServer) Close() error {
	s.draining.Store(true)
	s.stop()
	s.closeListeners()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.conn.Close()
	}
	return nil
}

func (s *FrameServer) closeListeners() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.listeners {
		_ = l.Close() // may be closed already
	}
}

// patrol cuts off the connections that keep the server waiting. A look at all
// of them now and then costs less than a deadline for every frame.
func (s *FrameServer) patrol() {
	every := time.NewTicker(max(min(s.timeouts.Idle, s.timeouts.Frame)/8, time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case now := <-every.C:
			s.mu.Lock()
			for c := range s.conns {
				c.inspect(now)
			}
			s.mu.Unlock()
		}
	}
}
