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
// what is made of them: numbers, an answer, and the working memory of a sweep.
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

// newMemory makes a budget of max bytes, for which bodies wait for a quarter
// of the time for which sweeps do for slots, bound, and for no more than some
// seconds.
func newMemory(max int64, bound time.Duration) *memory {
	const most = 5 * time.Second
	if bound == 0 {
		bound = 4 * most
	}
	return &memory{room: semaphore.NewWeighted(max), max: max, patience: min(bound/4, most)}
}

// reservation is the memory that one request has.
type reservation struct {
	memory *memory
	bytes  int64
}

// grow makes the reservation large enough for a body of n bytes. It waits while
// others have too much.
func (r *reservation) grow(ctx context.Context, n int, ex *middleware.Exchange) error {
	want := MemoryFor(int64(n)) - r.bytes
	if want <= 0 {
		return nil
	}
	if r.bytes+want > r.memory.max {
		return refuse(bodyTooLarge, fmt.Sprintf("the body is over what the memory for all bodies allows, %d bytes", r.memory.max/perBodyByte))
	}
	return r.add(ctx, want, true, ex)
}

// growForSweep makes the reservation large enough for a sweep too, that takes
// work bytes. Its answer is short, so that a part of what its body has is left.
// Who has much already does not wait for more: two could wait for each other.
func (r *reservation) growForSweep(ctx context.Context, work int64, ex *middleware.Exchange) error {
	const left = 3 // of perBodyByte
	want := min(work-r.bytes*left/perBodyByte, r.memory.max-r.bytes)
	if want <= 0 {
		return nil
	}
	const much = 8
	return r.add(ctx, want, r.bytes <= want/much, ex)
}

// add makes the reservation larger. If it may, it waits while others have too
// much.
func (r *reservation) add(ctx context.Context, want int64, wait bool, ex *middleware.Exchange) error {
	m := r.memory
	if !m.room.TryAcquire(want) {
		full := &refusal{reason: memoryFull, index: -1, retryAfter: 1, detail: "other requests have all the memory; try again later"}
		if !wait {
			return full
		}
		defer ex.Clock.Enter(ex.Clock.Enter(middleware.Queue))
		limited, cancel := context.WithTimeout(ctx, m.patience)
		defer cancel()
		if m.room.Acquire(limited, want) != nil {
			if ctx.Err() != nil {
				return ended(ctx)
			}
			return full
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
