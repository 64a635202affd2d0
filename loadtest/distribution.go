package loadtest

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Distribution is what a histogram of durations says, in seconds. Quantiles
// are within 0.1 % of the truth.
type Distribution struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P75   float64 `json:"p75"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	Curve []Point `json:"curve,omitempty"` // quantiles from 0 to 1, closer towards 1
}

// A Point is a quantile and its value in seconds.
type Point struct {
	Quantile float64 `json:"q"`
	Seconds  float64 `json:"s"`
}

// histogram counts durations. Its memory comes with the first one.
type histogram struct {
	hdr *hdrhistogram.Histogram
	sum time.Duration
}

// longest is the longest duration that is counted as itself: longer ones count
// as this.
const longest = 30 * time.Minute

func (h *histogram) add(d time.Duration) {
	if h.hdr == nil {
		h.hdr = hdrhistogram.New(1, int64(longest), 3)
	}
	h.sum += d
	_ = h.hdr.RecordValue(int64(min(max(d, 0), longest))) // within its bounds
}

func (h *histogram) reset() {
	if h.hdr != nil {
		h.hdr.Reset()
	}
	h.sum = 0
}

func (h *histogram) count() int64 {
	if h.hdr == nil {
		return 0
	}
	return h.hdr.TotalCount()
}

// quantile returns the duration in seconds, 0 if there are none.
func (h *histogram) quantile(q float64) float64 {
	if h.count() == 0 {
		return 0
	}
	return float64(h.hdr.ValueAtQuantile(100*q)) / 1e9
}

var curveQuantiles = []float64{0, .05, .1, .2, .3, .4, .5, .6, .7, .75, .8, .85, .9, .925, .95, .97, .98, .985, .99, .995, .998, .999, .9995, .9999, 1}

func (h *histogram) distribution() Distribution {
	if h.count() == 0 {
		return Distribution{}
	}
	d := Distribution{
		Count: h.count(), Mean: h.sum.Seconds() / float64(h.count()),
		Min: float64(h.hdr.Min()) / 1e9, Max: float64(h.hdr.Max()) / 1e9,
		P50: h.quantile(.5), P75: h.quantile(.75), P90: h.quantile(.9), P99: h.quantile(.99), P999: h.quantile(.999),
	}
	for _, q := range curveQuantiles {
		d.Curve = append(d.Curve, Point{q, h.quantile(q)})
	}
	return d
}
