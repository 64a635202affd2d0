package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"texttax/encoding/ring"
)

// address is where to listen: host:port or tcp:host:port, unix:/path, or
// shm:/path for rings in shared memory. The zero address is none.
type address struct{ network, at string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *address) UnmarshalText(text []byte) error {
	network, at, given := strings.Cut(string(text), ":")
	switch {
	case len(text) == 0:
		*a = address{}
		return nil
	case given && network == "tcp":
		*a = address{"tcp", at}
	case given && (network == "unix" || network == "shm"):
		if at == "" || at[0] == '@' { // to Go @ is Linux's namespace without files, and so without a mode
			return fmt.Errorf("%q names no file; sockets are like %s:/run/texttax.sock", text, network)
		}
		*a = address{network, at}
		return nil
	default:
		*a = address{"tcp", string(text)}
	}
	if _, _, err := net.SplitHostPort(a.at); err != nil {
		return fmt.Errorf("%q is no address; addresses are like 127.0.0.1:8080 or unix:/run/texttax.sock", text)
	}
	return nil
}

func (a address) isMemory() bool { return a.network == "shm" }

func (a address) String() string { return a.network + ":" + a.at }

// socketMode is the permissions of a socket's file.
type socketMode fs.FileMode

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *socketMode) UnmarshalText(text []byte) error {
	bits, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || bits > uint64(fs.ModePerm) {
		return fmt.Errorf("%q is no mode of a socket; modes are octal, from 0 to 0777", text)
	}
	*m = socketMode(bits)
	return nil
}

// listen takes the address, or says why not. A Unix socket that nobody listens
// on any more is taken over.
func (a address) listen(ctx context.Context, mode socketMode) (net.Listener, error) {
	if a.network == "tcp" {
		return new(net.ListenConfig).Listen(ctx, "tcp", a.at)
	}
	l, err := listenUnix(ctx, a.at, fs.FileMode(mode))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", a, err)
	}
	if !a.isMemory() {
		return l, nil
	}
	rings, err := ring.NewListener(l, ring.Size)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return rings, nil
}

// warnOfStrangers says in the log who can use an address beside its user.
func (a address) warnOfStrangers(log *slog.Logger, bound net.Addr, mode socketMode, guards *guards) {
	if guards.tokens != nil {
		return
	}
	const warning = "anyone who reaches this address can use it: there is no authentication"
	if at, ok := bound.(*net.TCPAddr); ok {
		if !at.IP.IsLoopback() {
			log.Warn(warning, "address", at.String())
		}
	} else if mode&0o002 != 0 { // to connect is to write
		log.Warn(warning, "address", a.String(), "mode", fmt.Sprintf("%#o", mode))
	}
}

// httpURL tells how to reach an HTTP server on an address.
func httpURL(a address, guards *guards) func(bound net.Addr) string {
	return func(bound net.Addr) string {
		switch {
		case a.network == "unix":
			return fmt.Sprintf("%s (curl --unix-socket %s http://localhost/)", a, a.at)
		case guards.tls != nil:
			return "https://" + bound.String()
		}
		return "http://" + bound.String()
	}
}

// frameURL tells how to reach a frame server on the address.
func (a address) frameURL(bound net.Addr) string { return a.network + ":" + bound.String() }

var (
	errNoSocket = errors.New("the file there is no socket; it is left alone")
	errLive     = errors.New("another process serves there: address already in use")
)
