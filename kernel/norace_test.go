//go:build !race

package kernel

import (
	"context"
	"testing"

	"texttax/kernel/gbm42"
)

// Under the race detector sync.Pool forgets at random what it is given.

func TestASweepAllocatesNothing(t *testing.T) {
	combos := combosOf(goldenGrid(t))
	var out Results
	ctx := context.Background()
	got := testing.AllocsPerRun(20, func() {
		if err := Sweep(ctx, gbm42.Close()[:5000], combos, DefaultFee, 1, &out); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations in a sweep", got)
	}
}
