package handlers

import (
	"context"
	"errors"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestThereAreNoMoreSlotsThanCores(t *testing.T) {
	for _, n := range []int{-1, 0, math.MaxInt} {
		if got := newSlots(n, 0).total; got != runtime.GOMAXPROCS(0) {
			t.Errorf("%d asked for: %d slots", n, got)
		}
	}
	if got := newSlots(1, 0).total; got != 1 {
		t.Errorf("1 asked for: %d slots", got)
	}
}

// mustAcquire takes slots for work that takes a second on one of them.
func mustAcquire(t *testing.T, s *slots, want int) *turn {
	t.Helper()
	turn, err := s.acquire(t.Context(), want, 1e9)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

// state checks how many slots are busy, and how many requests wait.
func (s *slots) state(t *testing.T, busy, waiting int) {
	t.Helper()
	if s.busy() != busy || int(s.waiting.Load()) != waiting {
		t.Errorf("%d slots are busy and %d wait, not %d and %d", s.busy(), s.waiting.Load(), busy, waiting)
	}
}

func TestALoneRequestGetsAllSlotsAndTheNextOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(0, 1)
		first := mustAcquire(t, s, 100)
		s.state(t, s.total, 0)
		done := make(chan *turn)
		go func() { done <- mustAcquire(t, s, 1) }()
		synctest.Wait()
		s.state(t, s.total, 1)
		var full *refusal
		if _, err := s.acquire(t.Context(), 1, 1); !errors.As(err, &full) || full.reason != queueFull {
			t.Errorf("a full queue gives %v", err)
		}
		first.release()
		second := <-done
		s.state(t, 1, 0)
		second.release()
		s.state(t, 0, 0)
	})
}

func TestAWaiterWhoGoesAwayTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 1)
		first := mustAcquire(t, s, 1)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			_, err := s.acquire(ctx, 1, 1)
			done <- err
		}()
		synctest.Wait()
		cancel()
		var gone *refusal
		if err := <-done; !errors.As(err, &gone) || gone.reason != clientGone || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		first.release()
		s.state(t, 0, 0)
	})
}

func TestALongSweepLetsAShortOneThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(0, 10)
		long := mustAcquire(t, s, s.total)
		short := make(chan *turn)
		go func() { short <- mustAcquire(t, s, 1) }()
		synctest.Wait()
		long.yield(t.Context(), s.total) // too early
		s.state(t, s.total, 1)
		time.Sleep(quantum)
		back := make(chan bool)
		go func() {
			long.yield(t.Context(), s.total)
			back <- true
		}()
		turn := <-short
		synctest.Wait()
		s.state(t, 1, 1)
		time.Sleep(3 * time.Millisecond)
		turn.release()
		<-back
		s.state(t, s.total, 0)
		if away := long.release(); away != 3*time.Millisecond {
			t.Errorf("the long one was away for %v", away)
		}
		s.state(t, 0, 0)
	})
}

func TestLongSweepsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 10)
		const sweeps, steps = 5, 100
		ends := make(chan time.Duration, sweeps)
		began := time.Now()
		for range sweeps {
			go func() {
				turn := mustAcquire(t, s, 1)
				for range steps {
					time.Sleep(time.Millisecond)
					turn.yield(t.Context(), 1)
				}
				turn.release()
				ends <- time.Since(began)
			}()
		}
		for range sweeps {
			// One after the other, the first would end after 100 ms.
			if end := <-ends; end < (steps-10)*sweeps*time.Millisecond {
				t.Errorf("one ended after %v", end)
			}
		}
		s.state(t, 0, 0)
	})
}

func TestAClientWhoGoesWhileItsSweepStandsAsideLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(0, 10)
		ctx, cancel := context.WithCancel(t.Context())
		long, err := s.acquire(ctx, s.total, 1)
		if err != nil {
			t.Fatal(err)
		}
		short := make(chan *turn)
		go func() { short <- mustAcquire(t, s, s.total) }()
		synctest.Wait()
		time.Sleep(quantum)
		go func() {
			time.Sleep(time.Millisecond)
			cancel()
		}()
		long.yield(ctx, s.total)
		long.release()
		s.state(t, s.total, 0)
		(<-short).release()
		s.state(t, 0, 0)
	})
}

func TestRetryAfterIsTheBacklogOverTheSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 20)
		first := mustAcquire(t, s, 1) // 1e9 bar-combos in a second
		time.Sleep(time.Second)
		first.release()
		busy := mustAcquire(t, s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			go func() { _, _ = s.acquire(ctx, 1, 1e9) }()
		}
		synctest.Wait()
		_, err := s.acquire(t.Context(), 1, 1)
		var full *refusal
		if !errors.As(err, &full) || full.retryAfter != 20 {
			t.Errorf("20 s of work wait: %v, again after %d s", err, full.retryAfter)
		}
		cancel()
		synctest.Wait()
		busy.release()
		s.state(t, 0, 0)
	})
}
