// Package gbm42 holds the demo series: 150,000 closes of a geometric Brownian
// motion, embedded in the binary so that a first request needs no file.
//
// The series is 100 * exp(cumsum(Z)), where Z are 150,000 normals of mean 0
// and standard deviation 0.0008 drawn from numpy's default_rng(42). The file
// itself is the definition: exp differs in the last bits from one machine and
// library to another, so who computes the series anew gets a close relative.
package gbm42

import (
	_ "embed"
	"encoding/binary"
	"math"
	"sync"
)

// ID is the name under which the service offers the series.
const ID = "gbm42"

// Bars is the length of the series.
const Bars = 150_000

// SHA256 is the hash of the series as little-endian float64, in hexadecimal. It
// is known beforehand, so that nobody waits for it.
const SHA256 = "42e58fb99a4734653ea5a9f7f6dbddf8204b626754a448a8a78560d02511b947"

//go:embed close.f64
var littleEndian string

// Close returns the series. It is decoded once and shared: callers must not
// write to it.
var Close = sync.OnceValue(func() []float64 {
	series := make([]float64, Bars)
	raw := []byte(littleEndian)
	for i := range series {
		series[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
	return series
})
