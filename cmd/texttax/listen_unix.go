//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// listenUnix makes a socket at path, in the place of one that nobody listens
// on. Its file goes when the listener is closed.
func listenUnix(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if most := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("the path has %d bytes; that of a socket can have %d", len(path), most)
	}
	// Of two that start at once, both could find the same stale socket, and
	// the second would remove what the first has just made in its place.
	unlock, err := lockFolder(ctx, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// On Linux the file is born with the mode of its socket, so that there
		// is no moment at which more than the mode is allowed. Elsewhere this
		// fails, and the mode comes a moment later.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), uint32(mode)) })
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	s := &unixListener{UnixListener: l.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false) // it would not look whose file it is
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, s.UnixListener.Close(), os.Remove(path))
	}
	if s.file, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, s.UnixListener.Close())
	}
	return s, nil
}

// unixListener removes its file when it is closed.
type unixListener struct {
	*net.UnixListener
	path  string
	file  fs.FileInfo // as it was made
	close sync.Once
}

// Close removes the socket's file, unless it is no longer ours, then stops
// listening. In this order nobody finds a dead socket, and the file's identity
// can't have been given to another file meanwhile.
func (l *unixListener) Close() error {
	l.close.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
			_ = os.Remove(l.path) // a stale socket is taken over by the next start
		}
	})
	return l.UnixListener.Close()
}

// removeStale removes a socket that refuses connections, whose process has
// died. Anything else at path is an error.
func removeStale(ctx context.Context, path string) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errNoSocket
	}
	dialer := net.Dialer{Timeout: time.Second}
	switch conn, err := dialer.DialContext(ctx, "unix", path); {
	case err == nil:
		_ = conn.Close()
		return errLive
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("the socket there may be in use: %w", err)
	}
	return os.Remove(path)
}

// lockFolder waits until no other starter is at work in the folder. Where a
// folder can't be locked, starters take their chance.
func lockFolder(ctx context.Context, folder string) (unlock func(), err error) {
	f, err := os.Open(folder)
	if err != nil {
		return func() {}, nil // if it matters, it matters to the socket too
	}
	unlock = func() { _ = f.Close() }
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return unlock, nil
		case ctx.Err() != nil:
			unlock()
			return nil, fmt.Errorf("another process has locked the folder %s", folder)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
