package handlers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"texttax/middleware"
)

// memory bounds what the bodies of all requests in flight take, together with
// what is made of them: numbers, and an answer.
type memory struct {
	room     *semaphore.Weighted
	max      int64
	patience time.Duration // how long a body waits before it is refused
	reserved atomic.Int64
}

// perBodyByte is what a byte of a body takes at most, in bytes: two of JSON can
// be a float64 of eight, and the answer is about as long as the body.
const perBodyByte = 8

// MemoryFor returns the memory that a body of n bytes may take.
func MemoryFor(n int64) int64 { return n * perBodyByte }

// newMemory makes a budget of max bytes, for which bodies wait for as long as
// sweeps do for slots, bound, but for no more than some seconds.
func newMemory(max int64, bound time.Duration) *memory {
	const most = 5 * time.Second
	if bound == 0 {
		bound = most
	}
	return &memory{room: semaphore.NewWeighted(max), max: max, patience: min(bound, most)}
}

// reservation is the memory that one request has.
type reservation struct {
	memory *memory
	bytes  int64
}

// grow makes the reservation large enough for a body of n bytes. It waits while
// others have too much.
func (r *reservation) grow(ctx context.Context, n int, ex *middleware.Exchange) error {
	m := r.memory
	want := MemoryFor(int64(n)) - r.bytes
	if want <= 0 {
		return nil
	}
	if r.bytes+want > m.max {
		return refuse(bodyTooLarge, fmt.Sprintf("the body is over what the memory for all bodies allows, %d bytes", m.max/perBodyByte))
	}
	if !m.room.TryAcquire(want) {
		defer ex.Clock.Enter(ex.Clock.Enter(middleware.Queue))
		wait, cancel := context.WithTimeout(ctx, m.patience)
		defer cancel()
		if m.room.Acquire(wait, want) != nil {
			if ctx.Err() != nil {
				return ended(ctx)
			}
			return &refusal{reason: memoryFull, index: -1, retryAfter: 1, detail: "the bodies of other requests have all the memory; try again later"}
		}
	}
	r.bytes += want
	m.reserved.Add(want)
	return nil
}

// release gives the memory back.
func (r *reservation) release() {
	if r.bytes > 0 {
		r.memory.reserved.Add(-r.bytes)
		r.memory.room.Release(r.bytes)
		r.bytes = 0
	}
}
