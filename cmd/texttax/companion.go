package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"texttax/loadtest"
)

// companion is a server of this same binary, as a process of its own.
type companion struct {
	process    *exec.Cmd
	sockets    string // directory of its Unix sockets
	boundaries []loadtest.Boundary
	complaint  strings.Builder
	cores      string // how the cores are shared
}

// companionAddress is where the server that compare starts listens, and how it
// is reached there. Over TCP only the server knows the port, and prints it.
type companionAddress struct {
	flag, at string
	boundary loadtest.Boundary // nil of TCP
}

// companionAddresses are the boundaries of the study, with sockets in a
// directory whose path is absolute.
func companionAddresses(sockets string) []companionAddress {
	in := func(name string) string { return filepath.Join(sockets, name) }
	all := []companionAddress{
		{"--listen", "127.0.0.1:0", nil},
		{"--listen", "unix:" + in("http"), &loadtest.HTTP{Network: "unix", Address: in("http"), Host: "localhost"}},
		{"--frame-listen", "unix:" + in("frames"), &loadtest.Frames{Network: "unix", Address: in("frames")}},
	}
	if runtime.GOOS == "linux" {
		all = append(all, companionAddress{"--frame-listen", "shm:" + in("rings"), &loadtest.Frames{Network: "shm", Address: in("rings")}})
	}
	return all
}

// makeSockets makes a directory for sockets, in the system's own place if the
// user's has a path that is too long for them.
func makeSockets() (string, error) {
	const most = 80 // of some 100, the directory and a name
	parent, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", err
	}
	if len(parent) > most {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "texttax-")
}

// startCompanion starts the server, on cores of its own where there are enough.
func startCompanion(binary string) (c *companion, err error) {
	sockets, err := makeSockets()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(sockets))
		}
	}()
	addresses := companionAddresses(sockets)
	args := []string{"serve", "--log-level", "error", "--drain-delay", "0s"}
	for _, a := range addresses {
		args = append(args, a.flag, a.at)
	}
	c = &companion{process: exec.Command(binary, args...), sockets: sockets, cores: "server and client share all cores"}
	// The study is of the defaults, whatever is set for other servers.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TEXTTAX_") {
			c.process.Env = append(c.process.Env, v)
		}
	}
	c.process.Stderr = &c.complaint
	stdout, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	pinned, err := startOnHalf(c.process)
	if err != nil {
		return nil, fmt.Errorf("the server does not start: %w", err)
	}
	if pinned > 0 {
		c.cores = fmt.Sprintf("the server has %d cores of its own, and this process computes on as many", pinned)
		runtime.GOMAXPROCS(pinned)
	}
	lines := bufio.NewReader(stdout)
	for _, a := range addresses {
		line, err := lines.ReadString('\n')
		if err != nil {
			_ = c.process.Process.Kill() // if it lives, it has no word for us
			_ = c.process.Wait()
			return nil, fmt.Errorf("the server does not start: %s", strings.TrimSpace(c.complaint.String()))
		}
		b := a.boundary
		if b == nil {
			if b, err = loadtest.ParseBoundary(strings.TrimPrefix(strings.TrimSpace(line), "serving on ")); err != nil {
				return nil, errors.Join(fmt.Errorf("the server says %q: %w", line, err), c.stop())
			}
		}
		c.boundaries = append(c.boundaries, b)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return c, nil
}

// stop ends the server.
func (c *companion) stop() error { return errors.Join(c.end(), os.RemoveAll(c.sockets)) }

func (c *companion) end() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.process.Process.Kill() })
	defer stop()
	if err := c.process.Wait(); err != nil {
		return fmt.Errorf("the server ended with: %w: %s", err, strings.TrimSpace(c.complaint.String()))
	}
	return nil
}
