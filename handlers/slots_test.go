package handlers

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestThereAreNoMoreSlotsThanCores(t *testing.T) {
	for _, n := range []int{-1, 0, math.MaxInt} {
		if got := newSlots(n, 0, 0).total; got != runtime.GOMAXPROCS(0) {
			t.Errorf("%d asked for: %d slots", n, got)
		}
	}
	if got := newSlots(1, 0, 0).total; got != 1 {
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
		s := newSlots(0, 1, 0)
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
		s := newSlots(1, 1, 0)
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
		s := newSlots(0, 10, 0)
		long := mustAcquire(t, s, s.total)
		short := make(chan *turn)
		go func() { short <- mustAcquire(t, s, 1) }()
		synctest.Wait()
		long.yield(t.Context(), s.total, 0) // too early
		s.state(t, s.total, 1)
		time.Sleep(quantum)
		back := make(chan bool)
		go func() {
			long.yield(t.Context(), s.total, 0)
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
		s := newSlots(1, 10, 0)
		const sweeps, steps = 5, 100
		ends := make(chan time.Duration, sweeps)
		began := time.Now()
		for range sweeps {
			go func() {
				turn := mustAcquire(t, s, 1)
				for range steps {
					time.Sleep(time.Millisecond)
					turn.yield(t.Context(), 1, 0)
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
		s := newSlots(0, 10, 0)
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
		long.yield(ctx, s.total, 0)
		long.release()
		s.state(t, s.total, 0)
		(<-short).release()
		s.state(t, 0, 0)
	})
}

func TestRetryAfterIsTheBacklogOverTheSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 20, 0)
		first := mustAcquire(t, s, 1) // 1e9 bar-combos in a second
		time.Sleep(time.Second)
		first.done = true
		first.release()
		// One that is given up tells nothing of the speed.
		mustAcquire(t, s, 1).release()
		busy := mustAcquire(t, s, 1)
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			go func() { _, _ = s.acquire(ctx, 1, 1e9) }()
		}
		synctest.Wait()
		_, err := s.acquire(t.Context(), 1, 1)
		var full *refusal
		if !errors.As(err, &full) || full.retryAfter != 21 {
			t.Errorf("20 s of work wait, and one second is being done: %v, again after %d s", err, full.retryAfter)
		}
		cancel()
		synctest.Wait()
		busy.release()
		s.state(t, 0, 0)
	})
}

// crowd lets sweeps of the given seconds come one after the other, each of which
// computes in steps of a millisecond, and returns how long each took, -1 of
// those that were refused.
func crowd(t *testing.T, s *slots, every time.Duration, seconds ...float64) []time.Duration {
	t.Helper()
	took := make([]time.Duration, len(seconds))
	var all sync.WaitGroup
	for i, work := range seconds {
		all.Go(func() {
			began := time.Now()
			turn, err := s.acquire(t.Context(), 1, int64(work*guess))
			if err != nil {
				took[i] = -1
				return
			}
			for range int(work * 1000) {
				time.Sleep(time.Millisecond)
				turn.yield(t.Context(), 1, 0)
			}
			turn.done = true
			turn.release()
			took[i] = time.Since(began)
		})
		time.Sleep(every)
	}
	all.Wait()
	return took
}

// At three times of what can be computed the work goes on at full speed, and
// those that are let in are done within what they were promised.
func TestAnOverloadIsRefusedEarlyAndTheRestIsDoneInTime(t *testing.T) {
	const bound = time.Second
	for name, work := range map[string][]float64{
		"sweeps of one turn":           {0.005},
		"sweeps of four turns":         {0.040},
		"sweeps of 50 turns":           {0.500},
		"sweeps of one to eight turns": {0.040, 0.010, 0.080, 0.040},
		"sweeps of one to 80 turns":    {0.010, 0.010, 0.800, 0.010},
		"small ones and large ones":    {0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.002, 0.100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlots(2, 1<<20, bound)
				mean, sum := 0.0, 0.0
				for _, w := range work {
					mean += w / float64(len(work))
				}
				var seconds []float64
				for i := 0; sum < 180; i++ { // of computing, offered within 30 s
					seconds = append(seconds, work[i%len(work)])
					sum += seconds[i]
				}
				began := time.Now()
				took := crowd(t, s, time.Duration(mean/6*1e9), seconds...)
				done, late, most := 0.0, 0, map[float64]time.Duration{}
				let := map[float64]int{}
				for i, d := range took {
					if d < 0 {
						continue
					}
					done += seconds[i]
					let[seconds[i]]++
					if most[seconds[i]] = max(most[seconds[i]], d); d > 2*bound {
						late++
					}
				}
				wall := time.Since(began).Seconds()
				t.Logf("%d came, %.1f%% of the slots' time was used, let in were %v, of which the longest took %v; %d were late", len(took), 100*done/wall/2, let, most, late)
				if done < 0.95*2*wall {
					t.Errorf("%.1f s were computed in %.1f s on two slots", done, wall)
				}
				if late > 0 {
					t.Errorf("%d of %d took longer than %v: %v", late, len(took), 2*bound, most)
				}
				s.state(t, 0, 0)
				if len(s.turns) != 0 {
					t.Errorf("%d turns are left", len(s.turns))
				}
			})
		})
	}
}

// A giant that computes is no reason to refuse a small sweep, but one to refuse
// another giant.
func TestWhoIsRefusedDependsOnWhatItHasToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 10, time.Second)
		giant, err := s.acquire(t.Context(), 1, 60*guess)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.acquire(t.Context(), 1, 60*guess); toRefusal(err).reason != queueFull || toRefusal(err).retryAfter != 60 {
			t.Errorf("another giant gets %v", err)
		}
		small := make(chan *turn)
		go func() {
			turn, err := s.acquire(t.Context(), 1, guess/10)
			if err != nil {
				t.Error(err)
			}
			small <- turn
		}()
		synctest.Wait()
		giant.release()
		(<-small).release()
		s.state(t, 0, 0)
	})
}

// A sweep of two workers, of which one has ended and the other stands aside,
// must not keep the slot of the first: who waits for both would wait for ever.
func TestWhoStandsAsideKeepsNoSlotThatNobodyComputesOn(t *testing.T) {
	for name, ends := range map[string]func(*testing.T, *turn){
		"one ends before the other stands aside": func(t *testing.T, u *turn) { u.yield(t.Context(), 1, 0) },
		"one ends after the other stood aside": func(t *testing.T, u *turn) {
			aside := make(chan bool)
			go func() {
				u.yield(t.Context(), 1, 1)
				aside <- true
			}()
			synctest.Wait()
			u.yield(t.Context(), 0, 0)
			<-aside
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slots{total: 2, free: 2, limit: 10}
				wide, other := mustAcquire(t, s, 2), make(chan *turn)
				go func() { other <- mustAcquire(t, s, 2) }()
				synctest.Wait()
				time.Sleep(quantum)
				done := make(chan bool)
				go func() {
					wide.yield(t.Context(), 2, 0)
					wide.release()
					done <- true
				}()
				narrow := <-other
				time.Sleep(quantum)
				ends(t, narrow)
				narrow.release()
				<-done
				s.state(t, 0, 0)
			})
		})
	}
}
