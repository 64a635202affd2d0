package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildBinary builds the program once for the tests that need a process of their
// own.
func buildBinary(t testing.TB) string {
	t.Helper()
	path, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// binaryFolder is where the tests of this process build the program, once; it
// is removed when they are done.
var binaryFolder string

var builtBinary = sync.OnceValues(func() (path string, err error) {
	if binaryFolder, err = os.MkdirTemp("", "texttax-test"); err != nil {
		return "", err
	}
	path = filepath.Join(binaryFolder, "texttax")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// process is the program as a process.
type process struct {
	*exec.Cmd
	url    string
	stderr *lockedBuffer
	ended  chan error
}

func startProcess(t *testing.T, path string, args ...string) *process {
	t.Helper()
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok {
		// A process that goes on for ever ends in time for the tests to say so.
		early, cancel := context.WithDeadline(ctx, deadline.Add(-5*time.Second))
		t.Cleanup(cancel)
		ctx = early
	}
	p := &process{
		Cmd:    exec.CommandContext(ctx, path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...),
		stderr: new(lockedBuffer), ended: make(chan error, 1),
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stderr = p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, p.stderr)
	}
	p.url = strings.TrimSpace(strings.TrimPrefix(line, "serving on "))
	go func() { p.ended <- p.Wait() }()
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// drains sends the first signal, and returns once it is acted on.
func (p *process) drains(t *testing.T, s os.Signal) {
	t.Helper()
	p.signal(t, s)
	for !strings.Contains(p.stderr.String(), "draining") {
		if len(p.ended) > 0 {
			t.Fatalf("the process ended with %v\n%s", <-p.ended, p.stderr)
		}
		time.Sleep(time.Millisecond)
	}
}

// killed checks that a signal ends the process, without any word of its own.
func (p *process) killed(t *testing.T, s syscall.Signal) {
	t.Helper()
	err := <-p.ended
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != s {
		t.Errorf("the process ended with %v\n%s", err, p.stderr)
	}
}

// longestSweep is a sweep of about as much work as the limits allow: it is not
// done before it is stopped.
const longestSweep = "/sweep?dataset=gbm42&lengths=20000:20003:4"

// longSweep starts a request that takes long, and returns once it computes.
func longSweep(t *testing.T, p *process) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	go func() {
		r, err := client.Post(p.url+longestSweep, "", nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(body)
	}()
	for metric(t, &server{url: p.url}, "texttax_compute_slots_busy") == 0 {
		if len(answer) > 0 {
			t.Fatalf("the sweep was over before it was seen to begin: %.200s", <-answer)
		}
		time.Sleep(time.Millisecond)
	}
	return answer
}

func TestSIGTERMDrainsAndASecondSignalStopsAtOnce(t *testing.T) {
	path := buildBinary(t)
	t.Run("drain", func(t *testing.T) {
		p := startProcess(t, path, "--drain-delay", "0s")
		accepted := hold(t, p.url)
		p.signal(t, syscall.SIGTERM)
		untilClosed(p.url)
		accepted.finish(t)
		if err := <-p.ended; err != nil {
			t.Errorf("the process ended with %v\n%s", err, p.stderr)
		}
	})
	t.Run("second signal", func(t *testing.T) {
		p := startProcess(t, path, "--drain-delay", "0s", "--drain-timeout", "1h")
		longSweep(t, p)
		p.drains(t, syscall.SIGTERM)
		p.signal(t, syscall.SIGTERM)
		p.killed(t, syscall.SIGTERM)
	})
	t.Run("drain timeout", func(t *testing.T) {
		p := startProcess(t, path, "--drain-delay", "0s", "--drain-timeout", "100ms")
		answer := longSweep(t, p)
		p.signal(t, os.Interrupt)
		if err := <-p.ended; p.ProcessState.ExitCode() != 1 || !strings.Contains(p.stderr.String(), "cut off") {
			t.Errorf("the process ended with %v\n%s", err, p.stderr)
		}
		if got := <-answer; strings.HasPrefix(got, "{") {
			t.Errorf("the request that was cut off got %.200s", got)
		}
	})
}

func TestReadinessFailsBeforeTheListenersClose(t *testing.T) {
	// With a delay that outlasts the test, they can't have closed yet when
	// whatever is slow comes.
	p := startProcess(t, buildBinary(t), "--drain-delay", "1h")
	if r := ask(t, "GET", p.url+"/readyz", nil); r.status != 200 {
		t.Fatalf("status %d before the end", r.status)
	}
	p.drains(t, syscall.SIGTERM)
	r, err := client.Get(p.url + "/readyz")
	if err != nil {
		t.Fatalf("the listener closed without failing /readyz: %v", err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", r.StatusCode)
	}
	if !r.Close {
		t.Error("a client would keep the connection for a next request")
	}
	if r := ask(t, "POST", p.url+"/echo", octets(1)); r.status != 200 { // on a connection of its own
		t.Errorf("a request within the delay: %d %s", r.status, r.body)
	}
	p.signal(t, syscall.SIGTERM)
	p.killed(t, syscall.SIGTERM)
}

func TestABusyPortEndsTheProcessWithStatus1(t *testing.T) {
	path := buildBinary(t)
	p := startProcess(t, path)
	second := exec.Command(path, "serve", "--listen", strings.TrimPrefix(p.url, "http://"))
	out, err := second.CombinedOutput()
	if err == nil || second.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "address already in use") {
		t.Errorf("%v: %s", err, out)
	}
	third := exec.Command(path, "serve", "--nonsense")
	if out, err := third.CombinedOutput(); err == nil || third.ProcessState.ExitCode() != 2 {
		t.Errorf("%v: %s", err, out)
	}
}
