package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildBinary builds the program once for the tests that need a process of their
// own.
func buildBinary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "texttax")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// process is the program as a process.
type process struct {
	*exec.Cmd
	url    string
	stderr *lockedBuffer
	ended  chan error
}

func startProcess(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), stderr: new(lockedBuffer), ended: make(chan error, 1)}
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

func (p *process) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("the process goes on\n%s", p.stderr)
		return nil
	}
}

// longSweep starts a request that takes a while, and returns once it computes.
func longSweep(t *testing.T, p *process, query string) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	go func() {
		r, err := client.Post(p.url+"/sweep?dataset=gbm42&"+query, "", nil)
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
	for {
		r, err := http.Get(p.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("\ntexttax_compute_slots_busy 0\n")) {
			return answer
		}
	}
}

func TestSIGTERMDrainsAndASecondSignalStopsAtOnce(t *testing.T) {
	path := buildBinary(t)
	t.Run("drain", func(t *testing.T) {
		p := startProcess(t, path, "--drain-delay", "0s")
		answer := longSweep(t, p, "lengths=6,3000") // the long one is left to the slow kernel
		p.signal(t, syscall.SIGTERM)
		if got := <-answer; !strings.HasPrefix(got, `{"pnl":[-5165.584357716994,`) {
			t.Errorf("the accepted request got %.200s", got)
		}
		if err := p.wait(t); err != nil {
			t.Errorf("the process ended with %v\n%s", err, p.stderr)
		}
	})
	t.Run("second signal", func(t *testing.T) {
		p := startProcess(t, path)
		longSweep(t, p, "lengths=10000:20000:50")
		p.signal(t, syscall.SIGTERM)
		for !strings.Contains(p.stderr.String(), "draining") {
			time.Sleep(time.Millisecond)
		}
		p.signal(t, syscall.SIGTERM)
		if err := p.wait(t); err == nil {
			t.Error("the process ended as if all were well")
		}
	})
	t.Run("drain timeout", func(t *testing.T) {
		p := startProcess(t, path, "--drain-delay", "0s", "--drain-timeout", "100ms")
		answer := longSweep(t, p, "lengths=10000:20000:50")
		p.signal(t, os.Interrupt)
		if err := p.wait(t); p.ProcessState.ExitCode() != 1 || !strings.Contains(p.stderr.String(), "cut off") {
			t.Errorf("the process ended with %v\n%s", err, p.stderr)
		}
		if got := <-answer; strings.HasPrefix(got, "{") {
			t.Errorf("the request that was cut off got %.200s", got)
		}
	})
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
