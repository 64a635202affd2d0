package handlers

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slots bounds the goroutines that run in the kernel, over all requests, and
// the requests that wait for their turn. A sweep that computes while others wait
// stands aside every now and then, so that a long one does not keep the short
// ones waiting. Those that wait for their first turn and those that stand aside
// are two queues, each in order, which are served in turns: many new sweeps do
// not keep the old ones from their end.
type slots struct {
	total int
	limit int           // most requests that may wait
	bound time.Duration // longest that one may expect to wait; 0 is no bound

	mu    sync.Mutex
	free  int
	queue [2][]*waiter
	last  int     // queue that was served last
	turns []*turn // of all requests that are not done

	// Work and time of the sweeps of late, in bar-combos and seconds of a slot.
	did, took float64

	waiting atomic.Int64 // requests in both queues
	depth   atomic.Int64 // in the first
}

// The queues.
const (
	first = iota // for the first turn
	aside        // for another turn
)

const (
	// quantum is how long a sweep computes before it lets others take turns.
	quantum = 10 * time.Millisecond
	// overhead is what the smallest sweep costs, in bar-combos.
	overhead = 20_000
	// guess is the speed of a slot as long as nothing is known, in bar-combos
	// per second.
	guess = 1e9
)

// waiter is a place in a queue.
type waiter struct {
	least, most int // slots to be got
	got         int
	granted     chan struct{} // closed once they are
}

// turn is the slots that one request has, or waits for.
type turn struct {
	slots *slots
	work  float64
	done  bool // all of it, as who has the turn says
	// These are guarded by slots.mu.
	place int     // among the turns
	delay float64 // work of others that keeps this one waiting, also of those that came later
	held  int
	since time.Time     // the last grant
	spent time.Duration // of all slots until then
	away  time.Duration // time in which the request had no slot at all
}

// newSlots makes slots for n goroutines and a queue of at most limit requests,
// none of which has to expect to wait for longer than bound. n < 1 means
// GOMAXPROCS, and so does more: it could not compute any faster.
func newSlots(n, limit int, bound time.Duration) *slots {
	if most := runtime.GOMAXPROCS(0); n < 1 || n > most {
		n = most
	}
	return &slots{total: n, free: n, limit: limit, bound: bound}
}

// acquire waits for a slot, and takes up to want in all where more are free, so
// that a lone sweep uses every core. The turn must be released. A full queue is
// a refusal at once. work is how much is to be done, in bar-combos.
func (s *slots) acquire(ctx context.Context, want int, work int64) (*turn, error) {
	t := &turn{slots: s, work: float64(work) + overhead}
	s.mu.Lock()
	if s.waiting.Load() == 0 && s.free > 0 {
		s.enter(t)
		t.take(min(want, s.free))
		s.mu.Unlock()
		return t, nil
	}
	if why := s.full(t); why != "" {
		after := s.retryAfter()
		s.mu.Unlock()
		return nil, &refusal{reason: queueFull, index: -1, retryAfter: after, detail: why + "; try again later"}
	}
	s.enter(t)
	s.depth.Add(1)
	w := s.enqueue(first, 1, want)
	s.mu.Unlock()
	err := s.await(ctx, w, t)
	s.depth.Add(-1)
	if err != nil {
		s.mu.Lock()
		s.leave(t)
		s.mu.Unlock()
	}
	return t, err
}

// full says why no further request may wait; "" if it may.
func (s *slots) full(t *turn) string {
	if int(s.waiting.Load()) >= s.limit {
		return "too many requests wait for a compute slot"
	}
	if s.bound == 0 {
		return ""
	}
	// Since sweeps take turns, each of the others delays this one by what it
	// has to compute, but by no more than this one has. What they have computed
	// already does not count in favour: more will have come by then.
	most := s.bound.Seconds() * s.speed() * float64(s.total)
	delay := 0.0
	for _, other := range s.turns {
		delay += min(other.work, t.work)
	}
	if delay > most {
		return fmt.Sprintf("other sweeps would keep this one waiting for about %.0f s, and %v is the limit", s.seconds(delay), s.bound)
	}
	// Nor may this one delay the others by much more than they expected: by half
	// of the bound beyond it, or by as long as they take themselves.
	for _, other := range s.turns {
		if other.delay+min(other.remaining(), t.work) > most+max(most/2, other.work) {
			return "other sweeps have waited for too long already"
		}
	}
	t.delay = delay
	for _, other := range s.turns {
		other.delay += min(other.remaining(), t.work)
	}
	return ""
}

// remaining estimates the work that is left.
func (t *turn) remaining() float64 {
	spent := t.spent
	if t.held > 0 {
		spent += time.Duration(t.held) * time.Since(t.since)
	}
	return max(0, t.work-spent.Seconds()*t.slots.speed())
}

// enter makes t one of the turns.
func (s *slots) enter(t *turn) {
	t.place = len(s.turns)
	s.turns = append(s.turns, t)
}

// leave takes t off the turns.
func (s *slots) leave(t *turn) {
	last := len(s.turns) - 1
	s.turns[t.place] = s.turns[last]
	s.turns[t.place].place = t.place
	s.turns[last] = nil
	s.turns = s.turns[:last]
}

// speed is how many bar-combos a slot computes in a second.
func (s *slots) speed() float64 {
	if s.took == 0 {
		return guess
	}
	return s.did / s.took
}

// seconds is how long all slots together take for the work.
func (s *slots) seconds(work float64) float64 { return work / (s.speed() * float64(s.total)) }

// take gives the turn n free slots.
func (t *turn) take(n int) {
	t.spent += time.Duration(t.held) * time.Since(t.since)
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

func (s *slots) enqueue(queue, least, most int) *waiter {
	w := &waiter{least: least, most: most, granted: make(chan struct{})}
	s.queue[queue] = append(s.queue[queue], w)
	s.waiting.Add(1)
	return w
}

// grant gives free slots to those who wait.
func (s *slots) grant() {
	for {
		next := first + aside - s.last
		if len(s.queue[next]) == 0 {
			next = s.last
		}
		if len(s.queue[next]) == 0 || s.free < s.queue[next][0].least {
			return
		}
		w := s.queue[next][0]
		s.queue[next] = slices.Delete(s.queue[next], 0, 1)
		s.last = next
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
	for q, queue := range s.queue {
		if i := slices.Index(queue, w); i >= 0 { // so the context has ended
			s.queue[q] = slices.Delete(queue, i, i+1)
			s.waiting.Add(-1)
			s.grant() // who is behind may want less
			return ended(ctx)
		}
	}
	s.free += w.got
	t.take(w.got)
	return nil
}

// yield lets others compute if any wait and the turn has lasted long enough: it
// keeps slots for the workers that go on, gives back the others, and returns
// once it has as many as there are workers that pause. If the context ends
// before that, it returns without. On behalf of no worker it does not wait.
//
// A turn that waits keeps no slot that nobody computes on: two that did could
// wait for each other.
func (t *turn) yield(ctx context.Context, pausing, goingOn int) {
	s := t.slots
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	if s.waiting.Load() == 0 || pausing > 0 && time.Since(t.since) < quantum {
		s.mu.Unlock()
		return
	}
	began := time.Now()
	t.drop(max(0, t.held-goingOn))
	alone := t.held == 0
	s.grant() // to the others, before this one waits beside them
	if pausing == 0 {
		s.mu.Unlock()
		return
	}
	w := s.enqueue(aside, pausing, pausing)
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
	if t.done {
		const memory = 1.0 // second of computing
		fade := math.Exp(-t.spent.Seconds() / memory)
		// A series that is hard on the kernel says little of the next one.
		const odd = 20
		seconds := t.spent.Seconds()
		s.did = s.did*fade + min(max(t.work, seconds*guess/odd), seconds*guess*odd)
		s.took = s.took*fade + t.spent.Seconds()
	}
	s.leave(t)
	s.grant()
	return t.away
}

// retryAfter estimates by when all will be computed that is to be computed now,
// in whole seconds.
func (s *slots) retryAfter() int {
	const most = 60
	backlog := 0.0
	for _, t := range s.turns {
		backlog += t.work
	}
	return int(max(1, min(most, math.Ceil(s.seconds(backlog)))))
}

func (s *slots) busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free
}
