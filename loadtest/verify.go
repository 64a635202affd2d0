package loadtest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"texttax/kernel"
)

// Verify compares an answer with the one that it must be: trades and open
// sides exactly, profits to within 1e-6, and an echo bit for bit. What an
// answer does not carry, such as octet's open sides, is not compared.
func (c *Call) Verify(got *kernel.Results, echo []float64) error {
	if c.Want == nil {
		if !sameBits(c.Request.Close, echo) {
			return fmt.Errorf("the echo of %d closes came back changed: %s", len(c.Request.Close), firstChange(c.Request.Close, echo))
		}
		return nil
	}
	want := c.Want
	if len(got.PnL) != len(want.PnL) || len(got.Trades) != len(want.Trades) {
		return fmt.Errorf("the answer has %d profits and %d trade counts for %d combos", len(got.PnL), len(got.Trades), len(want.PnL))
	}
	for i := range want.PnL {
		if !(got.PnL[i]-want.PnL[i] <= tolerance && want.PnL[i]-got.PnL[i] <= tolerance) {
			return fmt.Errorf("combo %d: pnl is %v, and %v in this process", i, got.PnL[i], want.PnL[i])
		}
		if got.Trades[i] != want.Trades[i] {
			return fmt.Errorf("combo %d: %d trades, and %d in this process", i, got.Trades[i], want.Trades[i])
		}
	}
	if got.Open != nil && !slices.Equal(got.Open, want.Open) {
		return errors.New("the open sides differ from those in this process")
	}
	return nil
}

// tolerance is how far a profit, in percentage points, may be from ours: other
// languages' kernels add in another order.
const tolerance = 1e-6

// sameBits tells whether two series are the same to the last bit.
func sameBits(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// firstChange says where the echo b of a is wrong.
func firstChange(a, b []float64) string {
	if len(a) != len(b) {
		return fmt.Sprintf("it has %d closes", len(b))
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return fmt.Sprintf("close[%d] is %v and was %v", i, b[i], a[i])
		}
	}
	return "it is the same"
}
