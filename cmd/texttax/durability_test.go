package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// killRounds is the variable that makes the test of kill -9 longer.
const killRounds = "TEXTTAX_KILL_ROUNDS"

// version is a state of a dataset that its writer has asked for: a series, or
// none after a DELETE.
type version struct {
	seed, bars int // bars of 0: deleted
}

func (v version) series() []float64 { return prices(v.seed, v.bars) }

// writer is the only client that writes a dataset, one version after the other.
type writer struct {
	id    string
	rng   *rand.Rand
	seed  int
	acked version  // the last version that was acknowledged
	sent  *version // a later one without an answer
	acks  int
}

// write sends versions until the server is gone.
func (w *writer) write(t *testing.T, url string) {
	for {
		w.seed++
		next := version{seed: w.seed, bars: 1 + w.rng.IntN(3000)}
		switch w.rng.IntN(20) {
		case 0:
			next.bars = 150_000
		case 1, 2:
			next.bars = 0
		}
		method, body := "PUT", io.Reader(nil)
		if next.bars == 0 {
			method = "DELETE"
		} else {
			body = bytes.NewReader(octets(next.series()...))
		}
		r, err := http.NewRequest(method, url+"/datasets/"+w.id, body)
		if err != nil {
			t.Error(err)
			return
		}
		w.sent = &next
		answer, err := client.Do(r)
		if err != nil {
			return // the answer may be lost, but what it was may be done
		}
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 2 && !(next.bars == 0 && answer.StatusCode == http.StatusNotFound) {
			t.Errorf("%s %s: status %d", method, w.id, answer.StatusCode)
		}
		w.acked, w.sent = next, nil
		w.acks++
	}
}

// check reads the dataset back. It must be the version that was acknowledged
// last, or the one that was sent after it; whichever it is, it stays.
func (w *writer) check(t *testing.T, url string) {
	r := ask(t, "GET", url+"/datasets/"+w.id, nil, "Accept", "application/octet-stream")
	is := func(v version) bool {
		if v.bars == 0 {
			return r.status == http.StatusNotFound
		}
		series := v.series()
		return r.status == 200 && bytes.Equal(r.body, octets(series...)) && r.header.Get("Etag") == tagOf(series)
	}
	switch {
	case is(w.acked):
	case w.sent != nil && is(*w.sent):
		w.acked = *w.sent
	default:
		t.Errorf("%s: status %d, %d bytes, ETag %s, which is neither version %v nor %v", w.id, r.status, len(r.body), r.header.Get("Etag"), w.acked, w.sent)
	}
	w.sent = nil
}

// TestKillLosesNoAcknowledgedDataset kills a server at a random moment, again
// and again, while clients store and delete datasets, and looks after each start
// whether all that was acknowledged is there and whole. TEXTTAX_KILL_ROUNDS
// says how often.
func TestKillLosesNoAcknowledgedDataset(t *testing.T) {
	rounds := 5
	if text := os.Getenv(killRounds); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q", killRounds, text)
		}
		rounds = n
	}
	t.Setenv(benchServer, "texttax") // the test's own binary becomes the server
	dir := t.TempDir()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	writers := make([]*writer, 8)
	for i := range writers {
		writers[i] = &writer{id: fmt.Sprintf("Set-%d", i), rng: rand.New(rand.NewPCG(seed, uint64(i+1))), seed: i * 1_000_000}
	}
	unfinished := 0
	for range rounds {
		unfinished += len(temporaries(t, dir))
		p := startProcess(t, os.Args[0], "--data-dir", dir, "--log-level", "warn")
		if left := temporaries(t, dir); len(left) > 0 {
			t.Errorf("after the start there are %q", left)
		}
		for _, w := range writers {
			w.check(t, p.url)
		}
		if t.Failed() {
			t.Fatalf("%s", p.stderr)
		}
		var wait sync.WaitGroup
		for _, w := range writers {
			wait.Go(func() { w.write(t, p.url) })
		}
		time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
		p.signal(t, syscall.SIGKILL)
		<-p.ended
		wait.Wait()
		client.CloseIdleConnections()
		if p.stderr.String() != "" {
			t.Errorf("the server says %s", p.stderr)
		}
	}
	p := startProcess(t, os.Args[0], "--data-dir", dir)
	acks := 0
	for _, w := range writers {
		w.check(t, p.url)
		acks += w.acks
	}
	if _, err := os.Stat(filepath.Join(dir, "damaged")); !os.IsNotExist(err) {
		t.Errorf("a file was set aside: %v", err)
	}
	t.Logf("%d rounds, %d acknowledged writes, %d unfinished files found and removed", rounds, acks, unfinished)
	if acks < rounds {
		t.Errorf("only %d writes were acknowledged in %d rounds, which shows little", acks, rounds)
	}
}

// temporaries lists what the store has not finished.
func temporaries(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "new-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestTwoProcessesDoNotShareADirectory(t *testing.T) {
	t.Setenv(benchServer, "texttax")
	dir := t.TempDir()
	first := startProcess(t, os.Args[0], "--data-dir", dir)
	wantBare(t, ask(t, "PUT", first.url+"/datasets/it", octets(prices(1, 10)...)), 201, tagOf(prices(1, 10)))
	second := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
	out, err := second.CombinedOutput()
	if err == nil || second.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), dir+": another process is using it") {
		t.Errorf("%v: %s", err, out)
	}
	holds(t, first.url, "it", prices(1, 10))
	first.signal(t, syscall.SIGKILL)
	<-first.ended
	// The lock has died with its owner.
	holds(t, startProcess(t, os.Args[0], "--data-dir", dir).url, "it", prices(1, 10))
}
