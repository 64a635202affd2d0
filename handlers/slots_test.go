package handlers

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
)

func TestThereAreNoMoreSlotsThanCores(t *testing.T) {
	for _, n := range []int{-1, 0, math.MaxInt} {
		if got := newSlots(n, 0).total(); got != runtime.GOMAXPROCS(0) {
			t.Errorf("%d asked for: %d slots", n, got)
		}
	}
	if got := newSlots(1, 0).total(); got != 1 {
		t.Errorf("1 asked for: %d slots", got)
	}
}

func TestALoneRequestGetsAllSlotsAndTheNextOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(0, 1)
		got, err := s.acquire(t.Context(), 100)
		if err != nil || got != s.total() || s.busy() != got {
			t.Fatalf("%d slots, %v", got, err)
		}
		done := make(chan int)
		go func() {
			n, _ := s.acquire(context.Background(), 1)
			done <- n
		}()
		synctest.Wait()
		if s.waiting.Load() != 1 {
			t.Errorf("%d wait", s.waiting.Load())
		}
		var full *refusal
		if _, err := s.acquire(t.Context(), 1); !errors.As(err, &full) || full.reason != queueFull {
			t.Errorf("a full queue gives %v", err)
		}
		s.release(got)
		if n := <-done; n != 1 || s.waiting.Load() != 0 || s.busy() != 1 {
			t.Errorf("the waiter got %d, %d wait, %d are busy", n, s.waiting.Load(), s.busy())
		}
	})
}

func TestAWaiterWhoGoesAwayTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 1)
		if _, err := s.acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			_, err := s.acquire(ctx, 1)
			done <- err
		}()
		synctest.Wait()
		cancel()
		var gone *refusal
		if err := <-done; !errors.As(err, &gone) || gone.reason != clientGone || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		s.release(1)
		if s.busy() != 0 || s.waiting.Load() != 0 {
			t.Errorf("%d are busy, %d wait", s.busy(), s.waiting.Load())
		}
	})
}
