//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"runtime"
)

func listenUnix(context.Context, string, fs.FileMode) (net.Listener, error) {
	return nil, errors.New("texttax has no Unix sockets on " + runtime.GOOS)
}
