package kernel

import (
	"fmt"
	"math"
)

// Params are the six windows of one combo, in bars, in the order in which
// every wire format carries them. The constants HMAHalf to HMA3Full index it.
type Params [6]int64

// The places of the windows in Params.
const (
	HMAHalf = iota
	HMAFull
	HMASmooth
	HMA3Third
	HMA3Half
	HMA3Full
)

// WindowNames are the names of the windows, in the order of Params.
var WindowNames = [6]string{"hma_half", "hma_full", "hma_smooth", "hma3_third", "hma3_half", "hma3_full"}

// A WindowError reports a window below 1. Windows longer than the series are
// legal: such a combo never trades.
type WindowError struct {
	Combo  int   // index into the combos of the sweep
	Window int   // index into Params
	Value  int64 // what was given
}

func (e *WindowError) Error() string {
	return fmt.Sprintf("combo %d: %s must be at least 1, not %d", e.Combo, WindowNames[e.Window], e.Value)
}

// CheckParams returns a *WindowError for the first window below 1, or nil.
func CheckParams(combos []Params) error {
	for c := range combos {
		for w, v := range combos[c] {
			if v < 1 {
				return &WindowError{Combo: c, Window: w, Value: v}
			}
		}
	}
	return nil
}

// MinLength is the shortest length that Expand accepts.
const MinLength = 2

// Expand returns the combo that a single length n >= MinLength, in bars,
// stands for: n/2, n, round(sqrt n), round(p/3), round(p/2) and p, where
// p = n/2. Divisions drop the remainder, halves round up, and no window is
// below 1. Expand panics if n < MinLength.
func Expand(n int64) Params {
	if n < MinLength {
		panic(fmt.Sprintf("kernel: length %d is below %d", n, MinLength))
	}
	p := n / 2
	return Params{
		HMAHalf:   p,
		HMAFull:   n,
		HMASmooth: roundSqrt(n),
		HMA3Third: max(1, p/3+(p%3)/2), // a remainder of 2 rounds up
		HMA3Half:  max(1, p/2+p%2),     // a half rounds up
		HMA3Full:  p,
	}
}

// roundSqrt returns the square root of n > 0 rounded to the nearest whole
// number. It is exact for every int64: (s+1/2)² is never whole, so there are
// no ties, and n > s² + s tells which side of it n lies on.
func roundSqrt(n int64) int64 {
	s := int64(math.Sqrt(float64(n)))
	for s > n/s { // the float square root can be off by one near 2^63
		s--
	}
	for (s + 1) <= n/(s+1) {
		s++
	}
	if n-s*s > s {
		s++
	}
	return s
}
