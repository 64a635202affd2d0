package study

import (
	"math"
	"slices"
	"strings"

	"texttax/loadtest"
)

// Results are what a study has found. All times are in seconds, one sample per
// round.
type Results struct {
	Bars      int        `json:"bars"`
	Combos    int        `json:"combos"`
	Rounds    int        `json:"rounds"`
	Generator Generator  `json:"generator"`
	Kernels   []Kernel   `json:"kernels"`
	Copy      []float64  `json:"copy"` // of the series' bytes in memory, in Go
	Tax       []Tax      `json:"tax"`
	Curves    []Curve    `json:"curves"`
	Crossings []Crossing `json:"crossings"`
	Gate      Gate       `json:"gate"`
	Notes     []string   `json:"notes,omitempty"` // what could not be measured, and why
}

// Generator is the median of an 8-byte echo over TCP, by this package's
// client, by the least that a client can do, and by net/http's.
type Generator struct {
	Lean     []float64 `json:"lean"`
	Minimal  []float64 `json:"minimal"`
	Standard []float64 `json:"standard"`
}

// Kernel is the whole work by one variant of the kernel, in this process on one
// goroutine.
type Kernel struct {
	Name    string    `json:"name"` // as in kernel.Variants
	Seconds []float64 `json:"seconds"`
}

// Tax is what a format costs where nothing is sent.
type Tax struct {
	Name   string    `json:"name"`
	Bytes  int       `json:"bytes"`
	Encode []float64 `json:"encode"`
	Decode []float64 `json:"decode"`
	Python bool      `json:"python"` // and not Go
}

// Curve is the time of echoes by their length.
type Curve struct {
	Boundary string  `json:"boundary"`
	Format   string  `json:"format"`
	Points   []Point `json:"points"`
}

// Point is the median of echoes of one length.
type Point struct {
	Floats  int       `json:"floats"`
	Seconds []float64 `json:"seconds"`
}

// Crossing is the work across a boundary.
type Crossing struct {
	Boundary    string               `json:"boundary"`
	Format      string               `json:"format,omitempty"`
	Granularity loadtest.Granularity `json:"granularity"`
	Calls       int                  `json:"calls"`    // of the whole work
	Measured    int                  `json:"measured"` // of these, a round; the rest is in proportion
	Seconds     []float64            `json:"seconds"`  // of the whole work
	Compute     []float64            `json:"compute"`  // of which in the kernel; empty if nobody tells
	Phases      map[string][]float64 `json:"phases"`   // of the whole work

	// Latency are quantiles of single calls over all rounds.
	Latency []loadtest.Point `json:"latency,omitempty"`

	single []float64 // seconds of each call
}

// Gate is the verdict on the answers.
type Gate struct {
	Verified int64  `json:"verified"` // answers compared with the kernel's in this process
	Failure  string `json:"failure,omitempty"`
}

// Median returns the median, NaN of nothing.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(samples))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Line is the straight line through a curve: what the smallest echo costs, and
// what each float adds.
type Line struct {
	Floor float64 // seconds
	Slope float64 // seconds a float
}

// GBPerSecond is how fast the slope moves bytes of floats, there and back.
func (l Line) GBPerSecond() float64 { return 2 * 8 / l.Slope / 1e9 }

// Line fits the line by least squares of relative errors, so that each length
// weighs the same.
func (c Curve) Line() Line {
	var w, wx, wxx, wy, wxy float64
	for _, p := range c.Points {
		x, y := float64(p.Floats), Median(p.Seconds)
		weight := 1 / (y * y)
		w, wx, wxx, wy, wxy = w+weight, wx+weight*x, wxx+weight*x*x, wy+weight*y, wxy+weight*x*y
	}
	slope := (w*wxy - wx*wy) / (w*wxx - wx*wx)
	return Line{Floor: (wy - slope*wx) / w, Slope: slope}
}

// Floor returns the time of the smallest echo across a boundary in a format,
// and false if there is none.
func (r *Results) Floor(boundary, format string) (float64, bool) {
	for _, c := range r.Curves {
		if c.Boundary == boundary && c.Format == format && len(c.Points) > 0 && len(c.Points[0].Seconds) > 0 {
			return Median(c.Points[0].Seconds), true
		}
	}
	return 0, false
}

// Crossing returns the crossing of that kind, nil if there is none.
func (r *Results) Crossing(boundary, format string, g loadtest.Granularity) *Crossing {
	for i := range r.Crossings {
		if c := &r.Crossings[i]; c.Boundary == boundary && c.Format == format && c.Granularity == g && len(c.Seconds) > 0 {
			return c
		}
	}
	return nil
}

// Baseline is the work in this process: one call of the kernel.
func (r *Results) Baseline() *Crossing {
	return r.Crossing(loadtest.InProcess.Name(), "", loadtest.Chunky)
}

// Share is what a crossing says of its boundary.
type Share struct {
	Total     float64 // seconds of the whole work: the boundary and the kernel
	Ratio     float64 // to one call in this process
	Measured  float64 // the boundary's share of Total
	G         float64 // compute per call over the floor
	Predicted float64 // 1/(1+G)
	HasFloor  bool    // G and Predicted are known
}

// ShareOf works out a crossing. Where the server does not tell its compute, it
// is the same calls' in this process. Calls that are echoes leave the whole
// compute to be added.
func (r *Results) ShareOf(c *Crossing) Share {
	base := r.Baseline()
	if base == nil {
		return Share{}
	}
	alone := Median(base.Seconds)
	compute, total := Median(c.Compute), Median(c.Seconds)
	switch {
	case c.Granularity == loadtest.PerBar:
		compute = alone
		total += alone
	case len(c.Compute) == 0:
		compute = alone
		if same := r.Crossing(base.Boundary, "", c.Granularity); same != nil {
			compute = Median(same.Seconds)
		}
	}
	s := Share{Total: total, Ratio: total / alone, Measured: max(0, 1-compute/total)}
	if floor, ok := r.Floor(c.Boundary, c.Format); ok {
		s.HasFloor = true
		s.G = compute / float64(c.Calls) / floor
		s.Predicted = 1 / (1 + s.G)
	}
	return s
}

// latencyQuantiles are those that Latency has.
var latencyQuantiles = []float64{0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1}

// finish works out the quantiles of the calls.
func (c *Crossing) finish() {
	slices.Sort(c.single)
	c.Latency = nil
	for _, q := range latencyQuantiles {
		// Without a call beyond it a quantile says nothing.
		if n := len(c.single); n > 0 && (q == 1 || float64(n)*(1-q) >= 1) {
			c.Latency = append(c.Latency, loadtest.Point{Quantile: q, Seconds: c.single[min(int(q*float64(n)), n-1)]})
		}
	}
}

// Sample is a figure with its rounds, by which two studies are compared.
type Sample struct {
	Name    string
	Seconds []float64
}

// Samples lists all figures.
func (r *Results) Samples() []Sample {
	all := []Sample{{"copy of the series", r.Copy}, {"8-byte echo, lean client", r.Generator.Lean}, {"8-byte echo, net/http client", r.Generator.Standard}}
	for _, k := range r.Kernels {
		all = append(all, Sample{"kernel " + k.Name, k.Seconds})
	}
	for _, t := range r.Tax {
		all = append(all, Sample{"encode " + t.Name, t.Encode}, Sample{"decode " + t.Name, t.Decode})
	}
	for _, c := range r.Curves {
		for _, p := range c.Points {
			all = append(all, Sample{strings.Join([]string{"echo", count(p.Floats), c.Boundary, c.Format}, " "), p.Seconds})
		}
	}
	for _, c := range r.Crossings {
		all = append(all, Sample{c.String(), c.Seconds})
	}
	return slices.DeleteFunc(all, func(s Sample) bool { return len(s.Seconds) == 0 })
}

// String returns the crossing's name.
func (c *Crossing) String() string {
	return strings.TrimSpace(c.Boundary + " " + string(c.Granularity) + " " + c.Format)
}
