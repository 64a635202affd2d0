package report

import (
	"encoding/csv"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"texttax/loadtest"
	"texttax/loadtest/study"
)

func samples(around float64) []float64 {
	return []float64{around, 1.02 * around, 0.98 * around, 1.01 * around, 0.99 * around}
}

// aStudy is a study in which JSON takes so many seconds to encode.
func aStudy(json float64) *Report {
	phases := func(compute float64) map[string][]float64 {
		return map[string][]float64{"client_encode": {0.001}, "transit": {0.002}, "compute": {compute}}
	}
	return &Report{
		Manifest: NewManifest([]string{"texttax", "compare", "<quick>"}, time.Now()),
		Study: &study.Results{
			Bars: 150_000, Combos: 80, Rounds: 5, Copy: samples(30e-6),
			Tax: []study.Tax{{Name: "json", Bytes: 9, Encode: samples(json), Decode: samples(1)}},
			Curves: []study.Curve{{Boundary: "http-tcp", Format: "octet", Points: []study.Point{{Floats: 1, Seconds: samples(40e-6)}, {Floats: 1000, Seconds: samples(50e-6)}}},
				{Boundary: "http-unix", Format: "json", Points: []study.Point{{Floats: 1, Seconds: samples(30e-6)}}}},
			Crossings: []study.Crossing{
				{Boundary: "in-process", Granularity: loadtest.Chunky, Calls: 1, Seconds: samples(0.006), Compute: samples(0.006), Phases: phases(0.006)},
				{Boundary: "http-tcp", Format: "octet", Granularity: loadtest.Chunky, Calls: 1, Seconds: samples(0.007), Compute: samples(0.006), Phases: phases(0.006)},
				{Boundary: "http-tcp", Format: "octet", Granularity: loadtest.Preloaded, Calls: 80, Seconds: samples(0.02), Compute: samples(0.018), Phases: phases(0.018),
					Latency: []loadtest.Point{{Quantile: 0.5, Seconds: 2e-4}, {Quantile: 0.99, Seconds: 1e-3}}},
				{Boundary: "http-tcp", Format: "json", Granularity: loadtest.PerBar, Calls: 150_000, Measured: 9, Phases: phases(1)}, // not measured
			},
		},
	}
}

func aRun(median float64) *Report {
	d := loadtest.Distribution{Count: 500, Mean: median, P50: median, P99: 3 * median, Max: 9 * median,
		Curve: []loadtest.Point{{Quantile: 0, Seconds: median / 2}, {Quantile: 0.5, Seconds: median}, {Quantile: 1, Seconds: 9 * median}}}
	r := &loadtest.Result{Scenario: "http-tcp chunky json", Model: "constant 100/s", Connections: 4, Elapsed: 5, Outcomes: map[string]int64{"answered": 500, "throttled": 3},
		Latency: d, Service: d, Refusals: d, Phases: []loadtest.PhaseTime{{Phase: "transit", Total: 1, Distribution: d}, {Phase: "compute", Total: 4, Distribution: d}}}
	for _, s := range samples(median) {
		r.Windows = append(r.Windows, loadtest.Window{Length: 1, Calls: 100, P50: s, P99: 3 * s})
	}
	return &Report{Manifest: NewManifest([]string{"texttax", "load"}, time.Now()), Load: r}
}

func TestAReportIsReadAsItWasWritten(t *testing.T) {
	for name, r := range map[string]*Report{"study": aStudy(1), "run": aRun(0.01)} {
		path := filepath.Join(t.TempDir(), ResultsFile)
		if err := writeFile(path, r.writeJSON); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range Compare(r, got) {
			if d.Ratio != 1 || d.Differs() {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if len(got.Samples()) != len(r.Samples()) || got.Manifest.CPU != r.Manifest.CPU || !got.Manifest.Began.Equal(r.Manifest.Began) {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}

func TestADirectoryHoldsEveryForm(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "a", "b")
	if err := aStudy(1).Write(directory); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.json", "samples.csv", "index.html", "phases.svg", "phases.png", "phases-dark.png",
		"echo-http-tcp.svg", "echo-http-unix.png", "shares.svg", "shares-dark.png", "latency.svg", "latency.png"} {
		if info, err := os.Stat(filepath.Join(directory, name)); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := os.Open(filepath.Join(directory, "samples.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// 5 rounds of a copy, 2 of tax, 3 points and 3 crossings, and the header.
	if len(rows) != 1+5*(1+2+3+3) || strings.Join(rows[6], " ") != "encode json seconds 1 1" {
		t.Errorf("%d rows: %q", len(rows), rows)
	}
}

func TestThePageStandsAlone(t *testing.T) {
	r := aStudy(1)
	r.Error = "the server is <gone>"
	var b strings.Builder
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, found := range regexp.MustCompile(`(?:src|href|url|@import)\s*[=(]?[^>]{0,40}`).FindAllString(page, -1) {
		t.Errorf("the page loads %q", found)
	}
	if regexp.MustCompile(`https?://`).FindString(strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, "")) != "" {
		t.Error("the page names an address")
	}
	for _, want := range []string{"Not complete: the server is &lt;gone&gt;", "&lt;quick&gt;", "prefers-color-scheme:dark", "<svg", "The gate: passed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestAFullDiskKeepsWhatItCan(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	directory := t.TempDir()
	for _, full := range []string{"samples.csv", "phases.png", CallsFile} {
		if err := os.Symlink("/dev/full", filepath.Join(directory, full)); err != nil {
			t.Fatal(err)
		}
	}
	err := aRun(1).Write(directory)
	if err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), "the report is not complete") {
		t.Errorf("the report ends with: %v", err)
	}
	if _, err := Read(filepath.Join(directory, ResultsFile)); err != nil {
		t.Error(err)
	}
	for _, kept := range []string{"index.html", "latency.svg"} {
		if info, err := os.Stat(filepath.Join(directory, kept)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", kept, err)
		}
	}
	calls, err := CreateCalls(directory)
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		calls.Observe(&loadtest.Record{})
	}
	if err := calls.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the calls end with: %v", err)
	}
}

func TestCallsCarryTheirTimes(t *testing.T) {
	directory := t.TempDir()
	calls, err := CreateCalls(directory)
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	calls.Observe(&loadtest.Record{Scheduled: 1 * ms, Started: 2 * ms, Sent: 3 * ms, FirstByte: 4 * ms, Done: 5 * ms, Decoded: 6 * ms, Status: 200, BytesOut: 7, BytesIn: 8, Warmup: true})
	calls.Observe(&loadtest.Record{Outcome: loadtest.Throttled, Sent: 1, FirstByte: 2, Done: 3, Status: 429})
	if err := calls.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(directory, CallsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := `scheduled,started,sent,first_byte,done,decoded,outcome,status,bytes_out,bytes_in,warmup
0.001000000,0.002000000,0.003000000,0.004000000,0.005000000,0.006000000,answered,200,7,8,true
0.000000000,0.000000000,0.000000001,0.000000002,0.000000003,,throttled,429,0,0,false
`
	if string(text) != want {
		t.Errorf("the calls are\n%s", text)
	}
}

func TestADifferenceIsToldFromNoise(t *testing.T) {
	for _, d := range Compare(aStudy(1), aStudy(1.5)) {
		if differs := d.Name == "encode json"; d.Differs() != differs {
			t.Errorf("%+v", d)
		}
		if d.Name == "encode json" && (d.Ratio != 1.5 || d.Low < 1.4 || d.High > 1.6) {
			t.Errorf("%+v", d)
		}
	}
	var out strings.Builder
	if err := WriteDifferences(&out, aRun(0.01), aRun(0.02)); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`p50 +10.00 ms +20.00 ms +2.00 +1.9\d to 2.0\d +differs`).MatchString(out.String()) || !strings.Contains(out.String(), "2 of 3 figures differ") {
		t.Errorf("the differences are\n%s", &out)
	}
	if err := WriteDifferences(io.Discard, aRun(1), aStudy(1)); err == nil {
		t.Error("a run and a study have figures in common")
	}
}

func TestTooFewSamplesHaveNoInterval(t *testing.T) {
	a, b := aStudy(1), aStudy(2)
	a.Study.Tax[0].Encode = a.Study.Tax[0].Encode[:2]
	for _, d := range Compare(a, b) {
		if d.Name == "encode json" && (d.High != 0 || d.Differs()) {
			t.Errorf("%+v", d)
		}
	}
}

func TestWhatIsNoReportIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "another": "{}", "list": "[]"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "is no report") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
