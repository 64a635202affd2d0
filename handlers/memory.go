package handlers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"texttax/middleware"
)

// memory bounds what the bodies of all requests in flight take, together with
// what is made of them: numbers, an answer, and the working memory of a sweep.
// Who waits for some of it gets it in order, but that small requests pass a large
// one that does not fit yet: until enough is free for it, they would be done. They
// may do so while it has waited for less than half of the patience, so that many
// of them do not keep it out.
type memory struct {
	max      int64
	limit    int           // most requests that may wait
	patience time.Duration // how long one waits before it is refused

	mu       sync.Mutex
	reserved int64
	waiting  []*claim
}

// claim is a request that waits for memory.
type claim struct {
	bytes   int64
	small   bool
	since   time.Time
	granted chan struct{} // closed once it has it
}

// smallShare is how many requests that count as small have room in the memory at
// least, and tinyShare how many that are so small that they always pass.
const (
	smallShare = 64
	tinyShare  = 1024
)

// perBodyByte is what a byte of a body takes at most, in bytes: two of JSON can
// be a float64 of eight, and the answer is about as long as the body.
const perBodyByte = 8

// MemoryFor returns the memory that a body of n bytes may take.
func MemoryFor(n int64) int64 { return n * perBodyByte }

// newMemory makes a budget of max bytes, for which at most limit bodies wait, for
// a quarter of the time for which sweeps do for slots, bound, and for no more
// than some seconds.
func newMemory(max int64, limit int, bound time.Duration) *memory {
	const most = 5 * time.Second
	if bound == 0 {
		bound = 4 * most
	}
	return &memory{max: max, limit: limit, patience: min(bound/4, most)}
}

// take takes n bytes if there are so many, and nobody is before who asks.
func (m *memory) take(n int64, small bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reserved+n > m.max || len(m.waiting) > 0 && !(small && m.passes(n, m.waiting[0])) {
		return false
	}
	m.reserved += n
	return true
}

// passes tells whether a small request for n bytes may pass the first one that
// waits.
func (m *memory) passes(n int64, head *claim) bool {
	return n <= m.max/tinyShare || time.Since(head.since) < m.patience/2
}

// await waits for n bytes until ctx ends, and tells whether it has them. Where
// too many wait already it does not.
func (m *memory) await(ctx context.Context, n int64, small bool) bool {
	m.mu.Lock()
	if len(m.waiting) >= m.limit {
		m.mu.Unlock()
		return false
	}
	c := &claim{bytes: n, small: small, since: time.Now(), granted: make(chan struct{})}
	m.waiting = append(m.waiting, c)
	m.grant() // some may have come free since it was asked for
	m.mu.Unlock()
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := slices.Index(m.waiting, c)
	if at < 0 { // granted in the meantime
		return true
	}
	m.waiting = slices.Delete(m.waiting, at, at+1)
	m.grant() // who is behind may want less
	return false
}

// grant gives free memory to those who wait: to the first ones as long as they
// fit, then to small ones that may pass.
func (m *memory) grant() {
	var head *claim // that does not fit
	m.waiting = slices.DeleteFunc(m.waiting, func(c *claim) bool {
		if head != nil && !(c.small && m.passes(c.bytes, head)) || m.reserved+c.bytes > m.max {
			if head == nil {
				head = c
			}
			return false
		}
		m.reserved += c.bytes
		close(c.granted)
		return true
	})
}

// giveBack frees n bytes.
func (m *memory) giveBack(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= n
	m.grant()
}

// busy returns how many bytes are reserved.
func (m *memory) busy() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved
}

// reservation is the memory that one request has.
type reservation struct {
	memory *memory
	bytes  int64
	body   int64 // of these, for the body
}

// grow makes the reservation large enough for a body of n bytes. It waits while
// others have too much.
func (r *reservation) grow(ctx context.Context, n int, ex *middleware.Exchange) error {
	want := MemoryFor(int64(n)) - r.body
	if want <= 0 {
		return nil
	}
	if r.bytes+want > r.memory.max {
		return refuse(bodyTooLarge, fmt.Sprintf("the body is over what the memory for all bodies allows, %d bytes", r.memory.max/perBodyByte))
	}
	if err := r.add(ctx, want, true, ex); err != nil {
		return err
	}
	r.body += want
	return nil
}

// growForSweep makes the reservation large enough for a sweep too, that takes
// work bytes. Its answer is short, so that a part of what its body has is left.
// Who has much already does not wait for more: two could wait for each other.
func (r *reservation) growForSweep(ctx context.Context, work int64, ex *middleware.Exchange) error {
	const left = 3 // of perBodyByte
	want := min(work-r.body*left/perBodyByte, r.memory.max-r.bytes)
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
	if r.bytes+want > m.max { // or it would wait in vain, and all others behind it
		return refuse(overLimit, fmt.Sprintf("the request would take %d bytes of memory, and all requests have %d; raw octets take the least", r.bytes+want, m.max))
	}
	small := r.bytes+want <= m.max/smallShare
	if !m.take(want, small) {
		full := &refusal{reason: memoryFull, index: -1, retryAfter: 1, detail: "other requests have all the memory; try again later"}
		if !wait {
			return full
		}
		defer ex.Clock.Enter(ex.Clock.Enter(middleware.Queue))
		limited, cancel := context.WithTimeout(ctx, m.patience)
		defer cancel()
		if !m.await(limited, want, small) {
			if ctx.Err() != nil {
				return ended(ctx)
			}
			return full
		}
	}
	r.bytes += want
	return nil
}

// release gives the memory back.
func (r *reservation) release() {
	if r.bytes > 0 {
		r.memory.giveBack(r.bytes)
		r.bytes, r.body = 0, 0
	}
}
