package handlers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"texttax/middleware"
)

// ask asks for memory in a goroutine of its own, and tells how it went.
func (m *memory) ask(ctx context.Context, bytes int64) (*reservation, <-chan error) {
	r := &reservation{memory: m}
	done := make(chan error, 1)
	go func() {
		ex := new(middleware.Exchange)
		ex.Clock.Start(middleware.Decode)
		done <- r.add(ctx, bytes, true, ex)
	}()
	return r, done
}

// has checks that the request has its memory, or that it still waits.
func has(t *testing.T, who string, done <-chan error, want bool) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil || !want {
			t.Errorf("%s: has its memory, or %v", who, err)
		}
	default:
		if want {
			t.Errorf("%s waits", who)
		}
	}
}

func TestSmallBodiesPassALargeOneThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(6400, 10, 0)
		a, got := m.ask(t.Context(), 4000)
		has(t, "the first", got, true)
		large, gotLarge := m.ask(t.Context(), 5000)
		has(t, "a large one", gotLarge, false)
		middle, gotMiddle := m.ask(t.Context(), 101)
		has(t, "one that is not small, behind it", gotMiddle, false)
		small, got := m.ask(t.Context(), 100)
		has(t, "a small one", got, true)

		// Small ones wait as well where there is nothing, and pass when there is.
		fill, got := m.ask(t.Context(), 100)
		has(t, "another small one", got, true)
		others := int64(0)
		for m.take(100, true) {
			others += 100
		}
		second, gotSecond := m.ask(t.Context(), 100)
		has(t, "a small one in a full memory", gotSecond, false)
		fill.release()
		has(t, "the same, when a little is free", gotSecond, true)

		time.Sleep(m.patience / 2)
		small.release()
		fifth, gotFifth := m.ask(t.Context(), 100)
		has(t, "one more small one, when the large one has waited for long", gotFifth, false)

		a.release()
		has(t, "the large one, as long as the small ones have too much", gotLarge, false)
		has(t, "the one behind it", gotMiddle, false)
		second.release()
		m.giveBack(others - 1400) // 1400 and 5000 are all
		has(t, "the large one, as soon as it fits", gotLarge, true)
		has(t, "the one behind it, which does not", gotMiddle, false)
		large.release()
		has(t, "the one behind it", gotMiddle, true)
		has(t, "and the small one", gotFifth, true)
		middle.release()
		fifth.release()
	})
}

func TestWhoWaitsForMemoryGivesUpAndHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(6400, 2, 8*time.Second)
		a, got := m.ask(t.Context(), 6000)
		has(t, "the first", got, true)
		ctx, cancel := context.WithCancel(t.Context())
		_, gone := m.ask(ctx, 6400)
		synctest.Wait()
		began := time.Now()
		_, got = m.ask(t.Context(), 300)
		has(t, "one that would fit, behind one that does not", got, false)
		_, third := m.ask(t.Context(), 1000)
		var refused *refusal
		if err := <-third; !errors.As(err, &refused) || refused.reason != memoryFull || time.Since(began) != 0 {
			t.Errorf("with two that wait, the third gets %v after %v", err, time.Since(began))
		}
		cancel()
		if err := <-gone; !errors.As(err, &refused) || refused.reason != clientGone {
			t.Errorf("who is gone gets %v", err)
		}
		has(t, "who was behind", got, true)

		_, late := m.ask(t.Context(), 200)
		if err := <-late; !errors.As(err, &refused) || refused.reason != memoryFull || refused.retryAfter == 0 || time.Since(began) != 2*time.Second {
			t.Errorf("who has waited for a quarter of 8 s gets %v after %v", err, time.Since(began))
		}
		a.release()
		if m.busy() != 300 || len(m.waiting) != 0 {
			t.Errorf("%d bytes are reserved, and %d wait", m.busy(), len(m.waiting))
		}
	})
}

func TestWhoWantsMoreMemoryThanThereIsWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(6400, 10, 0)
		r, got := m.ask(t.Context(), 6401)
		var refused *refusal
		if err := <-got; !errors.As(err, &refused) || refused.reason != overLimit {
			t.Errorf("it gets %v", err)
		}
		r.release()
		if _, got := m.ask(t.Context(), 6400); <-got != nil {
			t.Error("who wants all of it does not get it")
		}
	})
}
