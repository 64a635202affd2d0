package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"texttax/kernel"
	"texttax/loadtest"
	"texttax/loadtest/report"
)

// command runs the program and returns what it prints.
func command(args ...string) (stdout, stderr string, err error) {
	var out, errs strings.Builder
	err = run(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), err
}

func TestLoadTellsWhereTheTimeGoes(t *testing.T) {
	s := start(t)
	for _, f := range loadtest.FormatNames() {
		out, _, err := command("load", s.url, "--format", f, "--combos", "3", "--count", "4", "--warmup", "0s")
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, want := range []string{
			`http-tcp chunky ` + f + `, closed model, 1 connection`, `answered 4, `, `latency +\d`, `client_encode +\d+\.\d %`, `transit +\d`, `decode +\d`,
			`queue +\d`, `compute +\d`, `encode +\d`, `client_decode +\d`, `generator: `,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s lacks %s:\n%s", f, want, out)
			}
		}
		if strings.Contains(out, "unsplit") {
			t.Errorf("%s: the phases of client and server were not joined:\n%s", f, out)
		}
	}
}

func TestLoadWritesAReport(t *testing.T) {
	s := start(t)
	directory := filepath.Join(t.TempDir(), "report")
	out, errs, err := command("load", s.url, "--format", "octet", "--granularity", "per-bar", "--rate", "200", "--poisson", "--connections", "4",
		"--duration", "1500ms", "--warmup", "100ms", "--out", directory)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "poisson 200/s model, 4 connections") || !strings.Contains(out, "schedule lag p50") || !strings.Contains(errs, directory) {
		t.Errorf("it prints\n%s%s", out, errs)
	}
	r, err := report.Read(filepath.Join(directory, report.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(filepath.Join(directory, report.CallsFile))
	if err != nil {
		t.Fatal(err)
	}
	if lines := int64(strings.Count(string(calls), "\n")); r.Load.Answered() < 200 || lines != 1+r.Load.Answered()+r.Load.Warmups {
		t.Errorf("%d calls were answered, and %d warmed up; calls.csv has %d lines", r.Load.Answered(), r.Load.Warmups, lines)
	}
	same, _, err := command("report", directory, filepath.Join(directory, report.ResultsFile))
	if err != nil || !strings.Contains(same, "0 of 3 figures differ") {
		t.Errorf("%v: against itself it is\n%s", err, same)
	}
}

func TestLoadShowsItsPhasesToPrometheusWhileItRuns(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithCancel(context.Background())
	log := new(lockedBuffer)
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"load", s.url, "--format", "octet", "--combos", "2", "--duration", "1m", "--metrics-addr", "127.0.0.1:0"}, io.Discard, log)
	}()
	address := regexp.MustCompile(`http://\S+/metrics`)
	const series = `texttax_client_phase_duration_seconds_count{boundary="http-tcp",endpoint="sweep",format="octet",phase="transit"} `
	for {
		if url := address.FindString(log.String()); url != "" {
			if got := string(ask(t, "GET", url, nil).body); strings.Contains(got, series) && !strings.Contains(got, series+"0\n") {
				break
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("the run is over: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the run ended with: %v", err)
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	s := start(t)
	refuse := serveTest(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "come back later", http.StatusServiceUnavailable)
	})
	var calls atomic.Int64
	wrong := serveTest(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if calls.Add(1) > 3 {
			body[0] ^= 1
		}
		_, _ = w.Write(body)
	})
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"http://127.0.0.1:1"}, 1, "is texttax serve running there?"},
		{[]string{s.url + "/nothing"}, 1, "POST /sweep is answered with 404"},
		{[]string{"localhost:8080"}, 1, "is none of http://host:port"},
		{[]string{strings.Replace(s.url, "http", "https", 1)}, 1, "TLS with"},
		{[]string{s.url, "--tls-ca", "x"}, 1, "needs an address with https"},
		{[]string{refuse}, 1, "503: come back later"},
		{[]string{wrong, "--granularity", "echo", "--format", "octet"}, 1, "the server's answers are wrong: the echo of 150000 closes came back changed: close[0]"},
		{[]string{s.url, "--format", "xml"}, 2, "must be one of"},
		{[]string{s.url, "--poisson"}, 2, "needs a --rate"},
		{[]string{s.url, "--duration", "0s"}, 2, "needs a --count"},
		{[]string{s.url, "--connections", "0"}, 2, "at least 1"},
		{[]string{s.url, "--rate=-1"}, 2, "above 0"},
		{[]string{s.url, "--metrics-addr", strings.TrimPrefix(s.url, "http://"), "--combos", "2"}, 1, "address already in use"},
		{[]string{s.url, "--out", "/dev/null/x", "--combos", "2"}, 1, "/dev/null"},
		{nil, 2, "expected"},
	} {
		out, _, err := command(append([]string{"load", "--warmup", "0s"}, test.args...)...)
		if exitStatus(err) != test.status || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: status %d, %v\n%s", test.args, exitStatus(err), err, out)
		}
	}
}

func serveTest(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	web := &http.Server{Handler: h}
	l := listen(t)
	go func() { _ = web.Serve(l) }()
	t.Cleanup(func() { _ = web.Close() })
	return "http://" + l.Addr().String()
}

func TestCompareStudiesThisMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("three rounds take some seconds")
	}
	directory := t.TempDir()
	p := startCommand(t, buildBinary(t), "compare", "--quick", "--budget", "1s", "--python", "no-such-python", "--out", directory)
	if err := p.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, p.Stdout, p.Stderr)
	}
	out := p.Stdout.(*strings.Builder).String()
	for _, want := range []string{"The kernel:", "The tax:", "The echo curve:", "The boundary:", "The waterfall:", "The generator:", "The gate: passed", "Medians of 3 rounds", "Apple M2 Max"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(directory, report.ResultsFile))
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil || r.Error != "" || r.Study.Rounds != 3 {
		t.Errorf("%v: %+v", err, r)
	}
	crossed := map[string]bool{}
	for i := range r.Study.Crossings {
		c := &r.Study.Crossings[i]
		crossed[c.Boundary] = true
		if share := r.Study.ShareOf(c); share.Measured < 0 || share.Measured > 1 || share.Total <= 0 {
			t.Errorf("%s: %+v", c, share)
		}
		if split := c.Boundary == "http-tcp" || c.Boundary == "http-unix"; split && len(c.Phases["transit"]) != 3 {
			t.Errorf("%s has phases %v", c, c.Phases)
		}
	}
	want := []string{"frame-unix", "http-tcp", "http-unix", "in-process", "spawn"}
	if runtime.GOOS == "linux" {
		want = append([]string{"frame-shm"}, want...)
	}
	if got := slices.Sorted(maps.Keys(crossed)); !slices.Equal(got, want) {
		t.Errorf("it crosses %q, not %q", got, want)
	}
	for i, v := range kernel.Variants() {
		if k := r.Study.Kernels[i]; k.Name != v.Name() || len(k.Seconds) != 3 {
			t.Errorf("kernel %d is %+v, not %s in three rounds", i, k, v.Name())
		}
	}
}

func TestCompareOfAServerThatIsNotThereFails(t *testing.T) {
	// The binary, and not this test's: it starts itself for a process per call.
	p := startCommand(t, buildBinary(t), "compare", "--quick", "--url", "http://127.0.0.1:1", "--python", "")
	_ = p.Wait()
	if p.ProcessState.ExitCode() != 1 || !strings.Contains(p.Stderr.(*strings.Builder).String(), "connection refused") {
		t.Errorf("%v\n%s", p.ProcessState, p.Stderr)
	}
}

func TestReportRefusesWhatIsNone(t *testing.T) {
	_, _, err := command("report", "load_test.go", "load_test.go")
	if exitStatus(err) != 1 || !strings.Contains(err.Error(), "load_test.go is no report") {
		t.Errorf("%v", err)
	}
	if _, _, err := command("report", "one"); exitStatus(err) != 2 {
		t.Errorf("%v", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startCommand starts the program as a process whose output is kept.
func startCommand(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	p := exec.Command(path, args...)
	p.Stdout, p.Stderr = new(strings.Builder), new(strings.Builder)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() })
	return p
}
