package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// protocol is what is served on a listener: HTTP or frames.
type protocol interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// What HTTP/2 may take of one connection: requests in flight, bytes of their
// bodies that have come and are not read, in all and of one request, so that one
// that waits does not stop the others, and of a frame.
const (
	maxStreams       = 100
	maxUnread        = 512 << 10
	maxUnreadRequest = 128 << 10
	maxFrame         = 16 << 10
)

// maxHeaderBytes bounds a request's header. Ours are short.
const maxHeaderBytes = 64 << 10

// httpServer serves HTTP on one listener, to a bounded number of connections.
type httpServer struct {
	*http.Server
	guards *guards
	log    *slog.Logger
	places chan struct{} // one taken for each connection

	mu    sync.Mutex
	idle  map[net.Conn]time.Time // since when
	short bool                   // somebody waits for a place
}

func (c *serveCommand) httpServer(h http.Handler, log *slog.Logger, guards *guards) protocol {
	s := &httpServer{guards: guards, log: log, places: make(chan struct{}, c.ConnectionsMax), idle: map[net.Conn]time.Time{}}
	s.Server = &http.Server{
		TLSConfig:         guards.tls.Clone(), // each server adds to its own
		Handler:           h,
		ReadHeaderTimeout: c.HeaderTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnreadRequest, MaxReadFrameSize: maxFrame,
			// The deadline of an answer ends its stream, and can't if the connection
			// takes nothing any more.
			WriteByteTimeout: cmp.Or(c.TransferGrace, c.IdleTimeout),
		},
		// Or OPTIONS * would be answered past the middleware.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState:                    s.note,
	}
	return s
}

// Serve serves HTTPS where there is a certificate, but on Unix sockets.
func (s *httpServer) Serve(l net.Listener) error {
	bounded := &boundedListener{Listener: l, server: s, closed: make(chan struct{})}
	if s.guards.tls == nil || l.Addr().Network() == "unix" {
		return s.Server.Serve(bounded)
	}
	return s.ServeTLS(bounded, "", "")
}

// note keeps account of the connections. net/http tells it of each that ends,
// once.
func (s *httpServer) note(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch delete(s.idle, conn); state {
	case http.StateIdle:
		s.idle[conn] = time.Now()
		if s.short {
			s.evict()
		}
	case http.StateClosed, http.StateHijacked:
		<-s.places
	}
}

// evict closes the connection that has been idle for longest, if any is.
func (s *httpServer) evict() {
	var longest net.Conn
	for conn, since := range s.idle {
		if longest == nil || since.Before(s.idle[longest]) {
			longest = conn
		}
	}
	if longest != nil {
		delete(s.idle, longest)
		go longest.Close() // of TLS it says good-bye, for which there may be no room
	}
}

// shortOfPlaces says whether somebody waits for a place.
func (s *httpServer) shortOfPlaces(short bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.short = short; short {
		s.evict()
	}
}

// boundedListener leaves connections in the backlog while its server has no
// place for them, and none is idle that could make room. The connections are the
// listener's own, and it is the server that tells when one ends: net/http closes
// half of those that can do it, and a wrapper would have to be able to do the
// same.
type boundedListener struct {
	net.Listener
	server *httpServer
	warned time.Time
	once   sync.Once
	closed chan struct{}
}

// Accept takes a connection first and then looks for a place: only then does
// somebody wait for one.
func (l *boundedListener) Accept() (net.Conn, error) {
	s := l.server
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case s.places <- struct{}{}:
		return conn, nil
	default:
	}
	if time.Since(l.warned) > time.Minute {
		l.warned = time.Now()
		s.log.Warn("there are as many connections as there may be: idle ones are closed, and further ones wait", "address", l.Addr().String(), "connections", cap(s.places))
	}
	s.shortOfPlaces(true)
	defer s.shortOfPlaces(false)
	select {
	case s.places <- struct{}{}:
		return conn, nil
	case <-l.closed: // or Shutdown would wait for Accept, and Accept for a connection to end
		_ = conn.Close()
		return nil, net.ErrClosed
	}
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
