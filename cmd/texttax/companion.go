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

// companionArgs are the arguments of the server that compare starts, with
// sockets in a directory. Each of the addresses becomes a boundary of the study.
func companionArgs(sockets string) []string {
	in := func(name string) string { return filepath.Join(sockets, name) }
	args := []string{"serve", "--log-level", "error", "--drain-delay", "0s",
		"--listen", "127.0.0.1:0", "--listen", "unix:" + in("http"), "--frame-listen", "unix:" + in("frames")}
	if runtime.GOOS == "linux" {
		args = append(args, "--frame-listen", "shm:"+in("rings"))
	}
	return args
}

// boundaryOf returns the boundary of an address, as a line of the server's
// output names it.
func boundaryOf(line string) (loadtest.Boundary, error) {
	if at, ok := strings.CutPrefix(line, "frames on "); ok {
		return loadtest.ParseBoundary("frame+" + at)
	}
	at, _, _ := strings.Cut(strings.TrimPrefix(line, "serving on "), " ") // what follows is how curl reaches it
	return loadtest.ParseBoundary(at)
}

// startCompanion starts the server, on cores of its own where there are enough.
func startCompanion(binary string) (c *companion, err error) {
	sockets, err := os.MkdirTemp("", "texttax-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(sockets))
		}
	}()
	args := companionArgs(sockets)
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
	for want := addresses(args); want > 0; want-- {
		line, err := lines.ReadString('\n')
		if err != nil {
			_ = c.process.Wait()
			return nil, fmt.Errorf("the server does not start: %s", strings.TrimSpace(c.complaint.String()))
		}
		b, err := boundaryOf(strings.TrimSpace(line))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the server says %q: %w", line, err), c.stop())
		}
		c.boundaries = append(c.boundaries, b)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return c, nil
}

// addresses counts the addresses that a server with such arguments prints.
func addresses(args []string) int {
	n := 0
	for _, a := range args {
		if a == "--listen" || a == "--frame-listen" {
			n++
		}
	}
	return n
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
