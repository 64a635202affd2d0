package loadtest

import (
	"fmt"
	"math"
	"time"
)

// A Pacer says when the calls of an open model begin, whatever becomes of the
// calls before. It is a pure function: the same arguments give the same time.
type Pacer interface {
	// Next returns when call n begins, counted from 0, if the call before it
	// began at previous; both since the start of the run. Call 0 has a
	// previous of 0.
	Next(n int64, previous time.Duration) time.Duration
	// Model is the pacer's name in reports, such as "constant 5000/s".
	Model() string
}

// Constant paces calls evenly, at so many a second.
type Constant float64

// Next implements Pacer. It does not add up gaps, so that roundings don't
// either.
func (c Constant) Next(n int64, _ time.Duration) time.Duration {
	return seconds(float64(n) / float64(c))
}

// Model implements Pacer.
func (c Constant) Model() string { return fmt.Sprintf("constant %g/s", float64(c)) }

// Poisson paces calls as many callers do who don't know of each other: the
// gaps are exponential, their mean 1/Rate seconds.
type Poisson struct {
	Rate float64 // calls a second
	Seed uint64  // of the gaps
}

// Next implements Pacer.
func (p Poisson) Next(n int64, previous time.Duration) time.Duration {
	return previous + seconds(-math.Log(uniform(p.Seed, uint64(n)))/p.Rate)
}

// Model implements Pacer.
func (p Poisson) Model() string { return fmt.Sprintf("poisson %g/s", p.Rate) }

// uniform is the n-th number of a seed, above 0 and at most 1: the output
// function of SplitMix64 on a counter.
func uniform(seed, n uint64) float64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11+1) / (1 << 53)
}

func seconds(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }
