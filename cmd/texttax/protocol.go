package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"texttax/middleware"
)

// protocol is what is served on a listener: HTTP or frames.
type protocol interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

// What a connection of HTTP/2 may take.
const (
	maxStreams       = 100       // requests in flight
	maxUnread        = 512 << 10 // bytes of all bodies that have come and are not read
	maxUnreadRequest = 128 << 10 // of one body, so that it does not stop the others
	maxFrame         = 16 << 10  // bytes of a frame, for which there is memory once it is announced
)

// maxHeaderBytes bounds a request's header, which takes up to sixteen times as
// much in memory. Ours are short, but for long lists of lengths.
const maxHeaderBytes = 16 << 10

// httpServer serves HTTP on one listener, to a bounded number of connections.
type httpServer struct {
	*http.Server
	guards *guards
	log    *slog.Logger
	places chan struct{} // one taken for each connection
	short  atomic.Bool   // somebody waits for a place, and nobody has been asked to leave yet

	mu      sync.Mutex
	idle    map[net.Conn]time.Time // from when on it may be evicted
	evicted net.Conn               // the last one, until it has ended
}

// A connection that does nothing may be evicted after a while. A client may be
// sending its next request just then, and has to send it again; the longer it has
// sent none, the less likely that is.
const idleBefore = time.Second

func (c *serveCommand) httpServer(h http.Handler, log *slog.Logger, guards *guards) protocol {
	s := &httpServer{guards: guards, log: log, places: make(chan struct{}, c.ConnectionsMax), idle: map[net.Conn]time.Time{}}
	s.Server = &http.Server{
		TLSConfig:         guards.tls.Clone(), // each server adds to its own
		Handler:           middleware.CloseWhile(s.handOver)(h),
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
		ConnState:                    s.track,
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

// track keeps account of the connections. net/http tells it of each that ends,
// once.
func (s *httpServer) track(conn net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		s.idle[conn] = time.Now().Add(idleBefore)
	case http.StateActive:
		delete(s.idle, conn)
	case http.StateClosed, http.StateHijacked:
		delete(s.idle, conn)
		if conn == s.evicted {
			s.evicted = nil
		}
		<-s.places
	}
}

// handOver tells, once for each time that somebody waits for a place, that a
// connection in use is to end with its answer.
func (s *httpServer) handOver() bool { return s.short.Load() && s.short.CompareAndSwap(true, false) }

// evict closes the connection that has been idle for longest, if there is one,
// and the last one has ended that was closed so.
func (s *httpServer) evict(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.evicted != nil {
		return
	}
	for conn, from := range s.idle {
		if from.Before(now) && (s.evicted == nil || from.Before(s.idle[s.evicted])) {
			s.evicted = conn
		}
	}
	if s.evicted == nil {
		return
	}
	delete(s.idle, s.evicted)
	conn := s.evicted
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn() // to take leave of the client could block
	}
	_ = conn.Close()
}

// boundedListener takes one connection more than its server has places for, and
// gives it to the server when there is one: others wait in the backlog. Idle
// connections make room, or the next one that is answered.
//
// The connections are the listener's own, and it is the server that tells when
// one ends: net/http closes half of those that can do it, and a wrapper would
// have to be able to do the same.
type boundedListener struct {
	net.Listener
	server *httpServer
	warned time.Time
	once   sync.Once
	closed chan struct{}
}

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
	s.short.Store(true)
	defer s.short.Store(false)
	again := time.NewTicker(idleBefore / 20)
	defer again.Stop()
	for {
		s.evict(time.Now())
		select {
		case s.places <- struct{}{}:
			return conn, nil
		case <-l.closed: // or Shutdown would wait for Accept, and Accept for a connection to end
			_ = conn.Close()
			return nil, net.ErrClosed
		case <-again.C:
		}
	}
}

func (l *boundedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
