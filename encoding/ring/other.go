//go:build !linux

package ring

import (
	"context"
	"errors"
	"net"
	"runtime"
)

var errSystem = errors.New("ring: shared memory needs Linux, and this is " + runtime.GOOS)

// NewListener fails: there are no rings on this system.
func NewListener(net.Listener, int) (net.Listener, error) { return nil, errSystem }

// Dial fails: there are no rings on this system.
func Dial(context.Context, string) (net.Conn, error) { return nil, errSystem }
