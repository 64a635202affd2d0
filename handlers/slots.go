package handlers

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slots bounds the goroutines that run in the kernel, over all requests, and
// the requests that wait for their turn. Waiters are served in order. A sweep
// that computes while others wait goes to the end of the queue every now and
// then, so that a long one does not keep the short ones waiting.
type slots struct {
	total int
	limit int // most requests that may wait for their first turn

	mu    sync.Mutex
	free  int
	queue []*waiter
	work  float64 // of the requests that wait for their first turn, in bar-combos
	speed float64 // bar-combos per second and slot, of late; 0 is unknown

	waiting atomic.Int64 // length of the queue
	depth   atomic.Int64 // requests among them that wait for their first turn
}

// quantum is how long a sweep computes before it lets others take turns.
const quantum = 10 * time.Millisecond

// waiter is a place in the queue.
type waiter struct {
	least, most int // slots to be got
	got         int
	granted     chan struct{} // closed once they are
}

// turn is the slots that one request has.
type turn struct {
	slots *slots
	work  float64
	// These are guarded by slots.mu.
	held  int
	since time.Time     // the last grant
	spent time.Duration // of all slots until then
	away  time.Duration // time in which the request had no slot at all
}

// newSlots makes slots for n goroutines and a queue of at most limit requests.
// n < 1 means GOMAXPROCS, and so does more: it could not compute any faster.
func newSlots(n, limit int) *slots {
	if most := runtime.GOMAXPROCS(0); n < 1 || n > most {
		n = most
	}
	return &slots{total: n, free: n, limit: limit}
}

// acquire waits for a slot, and takes up to want in all where more are free, so
// that a lone sweep uses every core. The turn must be released. A full queue is
// a refusal at once. work is how much is to be done, in bar-combos.
func (s *slots) acquire(ctx context.Context, want int, work int64) (*turn, error) {
	t := &turn{slots: s, work: float64(work)}
	s.mu.Lock()
	if len(s.queue) == 0 && s.free > 0 {
		t.take(min(want, s.free))
		s.mu.Unlock()
		return t, nil
	}
	if int(s.depth.Load()) >= s.limit {
		after := s.retryAfter()
		s.mu.Unlock()
		return nil, &refusal{reason: queueFull, index: -1, retryAfter: after, detail: "too many requests wait for a compute slot; try again later"}
	}
	s.depth.Add(1)
	s.work += t.work
	w := s.enqueue(1, want)
	s.mu.Unlock()
	err := s.await(ctx, w, t)
	s.mu.Lock()
	s.depth.Add(-1)
	s.work -= t.work
	s.mu.Unlock()
	return t, err
}

// take gives the turn n free slots.
func (t *turn) take(n int) {
	t.slots.free -= n
	t.held += n
	t.since = time.Now()
}

// drop takes n slots from the turn.
func (t *turn) drop(n int) {
	n = min(n, t.held)
	t.spent += time.Duration(t.held) * time.Since(t.since)
	t.since = time.Now()
	t.held -= n
	t.slots.free += n
}

func (s *slots) enqueue(least, most int) *waiter {
	w := &waiter{least: least, most: most, granted: make(chan struct{})}
	s.queue = append(s.queue, w)
	s.waiting.Add(1)
	return w
}

// grant gives free slots to those who wait, in their order.
func (s *slots) grant() {
	for len(s.queue) > 0 && s.free >= s.queue[0].least {
		w := s.queue[0]
		s.queue = slices.Delete(s.queue, 0, 1)
		s.waiting.Add(-1)
		w.got = min(w.most, s.free)
		s.free -= w.got
		close(w.granted)
	}
}

// await waits until w has its slots, and gives them to t.
func (s *slots) await(ctx context.Context, w *waiter, t *turn) error {
	select {
	case <-w.granted:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, w); i >= 0 { // so the context has ended
		s.queue = slices.Delete(s.queue, i, i+1)
		s.waiting.Add(-1)
		s.grant() // who is behind may want less
		return &refusal{reason: clientGone, index: -1, cause: context.Cause(ctx)}
	}
	s.free += w.got
	t.take(w.got)
	return nil
}

// yield lets others compute if any wait and the turn has lasted long enough: it
// gives back n slots, and returns once it has them again. If the context ends
// before that, it returns without.
func (t *turn) yield(ctx context.Context, n int) {
	s := t.slots
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	if len(s.queue) == 0 || time.Since(t.since) < quantum {
		s.mu.Unlock()
		return
	}
	began := time.Now()
	t.drop(n)
	alone := t.held == 0
	w := s.enqueue(n, n)
	s.grant()
	s.mu.Unlock()
	_ = s.await(ctx, w, t) // the sweep itself asks the context
	if alone {
		s.mu.Lock()
		t.away += time.Since(began)
		s.mu.Unlock()
	}
}

// release gives back all slots of the turn, and returns how long it was without
// any.
func (t *turn) release() (away time.Duration) {
	s := t.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	t.drop(t.held)
	if seconds := t.spent.Seconds(); seconds > 0 {
		const memory = 0.9 // of the last ten sweeps or so
		if s.speed == 0 {
			s.speed = t.work / seconds
		}
		s.speed = memory*s.speed + (1-memory)*t.work/seconds
	}
	s.grant()
	return t.away
}

// retryAfter estimates when the queue will be empty, in whole seconds.
func (s *slots) retryAfter() int {
	const most = 60
	if s.speed == 0 {
		return 1
	}
	return int(max(1, min(most, math.Ceil(s.work/(s.speed*float64(s.total))))))
}

func (s *slots) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free
}
