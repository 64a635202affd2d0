package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// protocol is what is served on a listener: HTTP or frames.
type protocol interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	Close() error
}

const (
	// maxHeaderBytes bounds a request's header. Ours are short.
	maxHeaderBytes = 64 << 10
	// maxStreams bounds the requests on a connection of HTTP/2, and maxUnread what
	// has come of their bodies and is not read.
	maxStreams = 100
	maxUnread  = 256 << 10
)

// httpServer serves HTTP on one listener.
type httpServer struct {
	*http.Server
	guards *guards
	log    *slog.Logger
	places chan struct{} // one taken for each connection
}

func (c *serveCommand) httpServer(h http.Handler, log *slog.Logger, guards *guards) protocol {
	s := httpServer{guards: guards, log: log, places: make(chan struct{}, c.ConnectionsMax)}
	s.Server = &http.Server{
		TLSConfig:         guards.tls.Clone(), // each server adds to its own
		Handler:           h,
		ReadHeaderTimeout: c.HeaderTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread},
		// Or OPTIONS * would be answered past the middleware.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				<-s.places
			}
		},
	}
	return s
}

// Serve serves HTTPS where there is a certificate, but on Unix sockets.
func (s httpServer) Serve(l net.Listener) error {
	bounded := &boundedListener{Listener: l, server: s}
	if s.guards.tls == nil || l.Addr().Network() == "unix" {
		return s.Server.Serve(bounded)
	}
	return s.ServeTLS(bounded, "", "")
}

// boundedListener leaves connections in the backlog while its server has no
// place for them. The connections are the listener's own, and it is the server
// that tells when one ends: net/http closes half of those that can do it, and a
// wrapper would have to be able to do the same.
type boundedListener struct {
	net.Listener
	server httpServer
	warned time.Time
}

func (l *boundedListener) Accept() (net.Conn, error) {
	select {
	case l.server.places <- struct{}{}:
	default:
		if time.Since(l.warned) > time.Minute {
			l.warned = time.Now()
			l.server.log.Warn("there are as many connections as there may be: further ones wait", "address", l.Addr().String(), "connections", cap(l.server.places))
		}
		l.server.places <- struct{}{} // connections end, in Shutdown at the latest
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.server.places
	}
	return conn, err
}
