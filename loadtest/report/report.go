// Package report keeps what a run or a study has found: as JSON and CSV for
// programs, and as a page with pictures for people. It also compares two.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"texttax/kernel"
	"texttax/loadtest"
	"texttax/loadtest/study"
)

// A Report is a study or a run, and the machine it was made on.
type Report struct {
	Manifest Manifest         `json:"manifest"`
	Error    string           `json:"error,omitempty"` // why it is not complete
	Study    *study.Results   `json:"study,omitempty"`
	Load     *loadtest.Result `json:"load,omitempty"`
}

// A Manifest tells what a report is of.
type Manifest struct {
	Program string    `json:"program"` // texttax with its version
	Go      string    `json:"go"`
	System  string    `json:"system"` // such as linux/amd64, and the kernel's release
	CPU     string    `json:"cpu"`
	Cores   int       `json:"cores"`  // that this process may use
	Kernel  string    `json:"kernel"` // the sweep's implementation: avx512, avx2 or go
	Command []string  `json:"command"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
}

// NewManifest describes this machine and program, now.
func NewManifest(command []string, began time.Time) Manifest {
	m := Manifest{
		Program: "texttax", Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: "unknown", Cores: runtime.NumCPU(), Kernel: kernel.Implementation,
		Command: command, Began: began.UTC().Truncate(time.Second), Seconds: time.Since(began).Seconds(),
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		m.Program += " " + info.Main.Version
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(text))
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

// String is the manifest in a line.
func (m Manifest) String() string {
	return fmt.Sprintf("%s, %s, %d cores of %s, %s, kernel %s, %s", m.Program, m.Go, m.Cores, m.CPU, m.System, m.Kernel, m.Began.Format("2006-01-02 15:04 MST"))
}

// Read reads a report's JSON from a file.
func Read(path string) (*Report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s is no report: %w", path, err)
	}
	if r.Study == nil && r.Load == nil {
		return nil, fmt.Errorf("%s is no report: there is neither a study nor a run in it", path)
	}
	return r, nil
}

// A Sample is a figure as it was measured again and again: in seconds, or in
// calls a second if Rate.
type Sample struct {
	Name   string
	Rate   bool
	Values []float64
}

// Samples lists the figures by which the report can be compared: those of
// each round of a study, or of each window of a run.
func (r *Report) Samples() []Sample {
	var all []Sample
	if r.Study != nil {
		for _, s := range r.Study.Samples() {
			all = append(all, Sample{Name: s.Name, Values: s.Seconds})
		}
	}
	if r.Load != nil {
		p50, p99, rate := Sample{Name: r.Load.Scenario + ", p50"}, Sample{Name: r.Load.Scenario + ", p99"}, Sample{Name: r.Load.Scenario + ", calls a second", Rate: true}
		for _, w := range r.Load.Windows {
			if w.Calls > 0 {
				p50.Values, p99.Values, rate.Values = append(p50.Values, w.P50), append(p99.Values, w.P99), append(rate.Values, w.Rate())
			}
		}
		if len(p50.Values) > 0 {
			all = append(all, p50, p99, rate)
		}
	}
	return all
}
