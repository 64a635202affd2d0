package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"texttax/loadtest"
)

// companion is a server of this same binary, as a process of its own.
type companion struct {
	process    *exec.Cmd
	boundaries []loadtest.Boundary
	complaint  strings.Builder
	cores      string // how the cores are shared
}

// serving is how a line of the server's output begins that names an address.
const serving = "serving on "

// companionArgs are the arguments of the server that compare starts. Each of
// the addresses becomes a boundary of the study.
var companionArgs = []string{"serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--drain-delay", "0s"}

// startCompanion starts the server, on cores of its own where there are enough.
func startCompanion(binary string) (*companion, error) {
	c := &companion{process: exec.Command(binary, companionArgs...), cores: "server and client share all cores"}
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
	for want := addresses(companionArgs); want > 0; want-- {
		line, err := lines.ReadString('\n')
		if err != nil {
			_ = c.process.Wait()
			return nil, fmt.Errorf("the server does not start: %s", strings.TrimSpace(c.complaint.String()))
		}
		b, err := loadtest.ParseBoundary(strings.TrimPrefix(strings.TrimSpace(line), serving))
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
		if a == "--listen" {
			n++
		}
	}
	return n
}

// stop ends the server.
func (c *companion) stop() error {
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
