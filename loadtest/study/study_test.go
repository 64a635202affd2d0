package study

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
	"texttax/loadtest"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := Median(test.of); got != test.want {
			t.Errorf("the median of %v is %v, not %v", test.of, got, test.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("nothing has a median")
	}
}

// The published floor of 14 us and 2,043 us for 150,000 floats are a line.
func TestALineIsFoundThroughItsPoints(t *testing.T) {
	c := Curve{}
	for _, n := range []int{1, 10, 100, 1_000, 10_000, 150_000} {
		c.Points = append(c.Points, Point{n, []float64{14e-6 + float64(n)*13.53e-9}})
	}
	line := c.Line()
	if math.Abs(line.Floor-14e-6) > 1e-12 || math.Abs(line.Slope-13.53e-9) > 1e-15 {
		t.Errorf("the line is %+v", line)
	}
	// 2 x 8 bytes in 13.53 ns.
	if got := line.GBPerSecond(); math.Abs(got-1.1826) > 0.0001 {
		t.Errorf("%v GB/s", got)
	}
}

// The published study again: 2.010 s in process, 80 calls of a 14 us floor.
func TestSharesAreThoseOfTheRule(t *testing.T) {
	r := &Results{
		Curves: []Curve{{"http-unix", "octet", []Point{{1, []float64{14e-6}}}}},
		Crossings: []Crossing{
			{Boundary: "in-process", Granularity: loadtest.Chunky, Calls: 1, Seconds: []float64{2.010}, Compute: []float64{2.010}},
			{Boundary: "in-process", Granularity: loadtest.Chatty, Calls: 80, Seconds: []float64{2.2}, Compute: []float64{2.2}},
			{Boundary: "http-unix", Format: "octet", Granularity: loadtest.Preloaded, Calls: 80, Seconds: []float64{2.0113}, Compute: []float64{2.010}},
			{Boundary: "http-unix", Format: "octet", Granularity: loadtest.PerBar, Calls: 150_000, Seconds: []float64{2.1}},
			{Boundary: "spawn", Format: "octet", Granularity: loadtest.Chatty, Calls: 80, Seconds: []float64{4.12}},
		},
	}
	for _, test := range []struct {
		row              int
		total, ratio     float64
		measured         float64
		g, predicted     float64
		withoutPredicted bool
	}{
		{row: 2, total: 2.0113, ratio: 1.000647, measured: 0.000646, g: 1794.6, predicted: 0.000557},
		{row: 3, total: 4.110, ratio: 2.044776, measured: 0.510949, g: 0.957143, predicted: 0.510949},
		{row: 4, total: 4.12, ratio: 2.049751, measured: 0.466019, withoutPredicted: true},
	} {
		s := r.ShareOf(&r.Crossings[test.row])
		near := func(what string, got, want float64) {
			if math.Abs(got-want) > 1e-3*want {
				t.Errorf("%s: %s is %v, not %v", &r.Crossings[test.row], what, got, want)
			}
		}
		near("total", s.Total, test.total)
		near("ratio", s.Ratio, test.ratio)
		near("share", s.Measured, test.measured)
		if s.HasFloor == test.withoutPredicted {
			t.Errorf("%s: is there a prediction? %v", &r.Crossings[test.row], s.HasFloor)
		}
		near("G", s.G, test.g)
		near("predicted share", s.Predicted, test.predicted)
	}
}

func TestQuantilesNeedCallsBeyondThem(t *testing.T) {
	c := Crossing{}
	for i := range 100 {
		c.single = append(c.single, float64(100-i))
	}
	c.finish()
	got := map[float64]float64{}
	for _, p := range c.Latency {
		got[p.Quantile] = p.Seconds
	}
	if got[0.5] != 51 || got[0.9] != 91 || got[1] != 100 || got[0.999] != 0 {
		t.Errorf("quantiles of 1 to 100: %v", got)
	}
}

// server does what the service does, with phases that it makes up.
func server(t *testing.T, spoil func(call int, answer []byte)) []loadtest.Boundary {
	t.Helper()
	calls := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		codec, err := encoding.ForContentType(r.Header.Get("Content-Type"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
			return
		}
		var req encoding.Request
		if err := codec.Decode(body, &req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var answer []byte
		if r.URL.Path == "/echo" {
			answer, err = codec.Append(nil, &encoding.Request{Close: req.Close, Packed: req.Packed})
		} else {
			series := req.Close
			if series == nil {
				series = gbm42.Close()
			}
			var res kernel.Results
			began := time.Now()
			if err := kernel.Sweep(r.Context(), series, req.Params, kernel.DefaultFee, 0, &res); err != nil {
				return
			}
			w.Header().Set("Server-Timing", "compute;dur="+strconv.FormatFloat(time.Since(began).Seconds()*1e3, 'f', 6, 64))
			answer, err = codec.AppendResults(nil, &res)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if calls++; spoil != nil {
			spoil(calls, answer)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	}))
	t.Cleanup(web.Close)
	b, err := loadtest.ParseBoundary(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	return []loadtest.Boundary{b}
}

// small is work that takes no time.
func small() loadtest.Work {
	return loadtest.Work{Close: gbm42.Close()[:2000], Combos: []kernel.Params{kernel.Expand(6), kernel.Expand(20)}}
}

func TestAStudyFillsItsTables(t *testing.T) {
	python := "python3"
	if exec.Command(python, "-c", "import numpy").Run() != nil {
		python = "no-such-python"
	}
	var shares []float64
	r, err := Run(t.Context(), Options{
		Work: small(), Boundaries: server(t, nil), Quick: true, Python: python, Spawn: &loadtest.Spawn{Command: []string{"false"}},
		Progress: func(share float64, left time.Duration, what string) { shares = append(shares, share) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rounds != minRounds || r.Gate.Failure != "" || r.Gate.Verified < 10_000 {
		t.Errorf("%d rounds, gate %+v", r.Rounds, r.Gate)
	}
	for i, s := range shares {
		if s < 0 || s > 1 {
			t.Errorf("step %d is at %v of the whole", i, s)
		}
	}
	notes := strings.Join(r.Notes, "\n")
	if !strings.Contains(notes, "a process per call is left out") || python == "no-such-python" && !strings.Contains(notes, "Python's own formats are left out") {
		t.Errorf("the notes are %q", r.Notes)
	}
	for _, s := range r.Samples() {
		want := minRounds
		if s.Name == "copy of the series" { // which is beside each format
			want *= len(loadtest.Formats())
		}
		if len(s.Seconds) != want {
			t.Errorf("%s has %d samples, not %d", s.Name, len(s.Seconds), want)
		}
		for _, v := range s.Seconds {
			if !(v > 0 && v < 1000) {
				t.Errorf("%s has a sample of %v s", s.Name, v)
			}
		}
	}
	var out strings.Builder
	if err := WriteTables(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"The tax:", "json-std", "1,348x", "The echo curve:", "http-tcp octet", "2,043", "The boundary:", "http-tcp per-bar octet", "The waterfall:", "The gate: passed", "Apple M2 Max"} {
		if python == "no-such-python" && want == "1,348x" {
			continue
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables lack %q:\n%s", want, &out)
		}
	}
}

func TestAnInterpreterThatIsOfNoUseLeavesANote(t *testing.T) {
	leftovers := func() int {
		found, err := filepath.Glob(filepath.Join(os.TempDir(), "texttax-*.f64"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	t.Setenv("TMPDIR", t.TempDir())
	for interpreter, script := range map[string]string{
		"without numpy": "echo 'Traceback' >&2; echo \"ModuleNotFoundError: No module named 'numpy'\" >&2; exit 1",
		"silent":        "exit 0",
		"another":       "echo hello; cat > /dev/null",
	} {
		path := filepath.Join(t.TempDir(), "python")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p, err := startPython(t.Context(), path, small().Close)
		if p != nil || err == nil || interpreter == "without numpy" && !strings.Contains(err.Error(), "No module named 'numpy'") {
			t.Errorf("%s: %v", interpreter, err)
		}
		if n := leftovers(); n > 0 {
			t.Errorf("%s: %d files are left", interpreter, n)
		}
	}
}

func TestWrongAnswersFailTheStudy(t *testing.T) {
	r, err := Run(t.Context(), Options{Work: small(), Boundaries: server(t, func(call int, answer []byte) {
		if call > 500 {
			answer[len(answer)-1] ^= 1
		}
	}), Quick: true})
	if err == nil || r == nil || r.Gate.Failure == "" {
		t.Fatalf("the study ends with %v: %+v", err, r)
	}
	var out strings.Builder
	if err := WriteTables(&out, r); err != nil || !strings.Contains(out.String(), "The gate FAILED") || !strings.Contains(out.String(), "The tax:") {
		t.Errorf("%v: the tables are\n%s", err, &out)
	}
}

func TestAnInterruptedStudyKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	r, err := Run(ctx, Options{Work: small(), Boundaries: server(t, nil), Quick: true, Progress: func(float64, time.Duration, string) {
		if steps++; steps == 15 {
			cancel()
		}
	}})
	if err == nil || r == nil || len(r.Tax) != len(loadtest.Formats()) {
		t.Fatalf("the study ends with %v: %+v", err, r)
	}
	if err := WriteTables(io.Discard, r); err != nil {
		t.Error(err)
	}
}

func TestCountsAndRatiosAreWrittenAsPeopleDo(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := count(n); got != want {
			t.Errorf("%d is written %s", n, got)
		}
	}
	for ratio, want := range map[float64]string{0.5: "0.50x", 9.99: "9.99x", 1348.2: "1,348x", math.NaN(): "-"} {
		if got := times(ratio); got != want {
			t.Errorf("%v is written %s", ratio, got)
		}
	}
	for seconds, want := range map[float64]string{1.8e-6: "1.80", 49.1e-6: "49.1", 66_243e-6: "66,243", math.NaN(): "-"} {
		if got := us(seconds); got != want {
			t.Errorf("%v is written %s", seconds, got)
		}
	}
}
