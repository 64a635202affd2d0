package handlers

import (
	"context"
	"runtime"
	"sync/atomic"
)

// slots bounds the goroutines that run in the kernel, over all requests, and
// the requests that wait for their turn. Waiters are served in order.
type slots struct {
	free    chan struct{} // one token for each free slot
	waiting atomic.Int64
	queue   int64 // most requests that may wait
}

// newSlots makes slots for n goroutines and a queue of at most queue waiting
// requests. n < 1 means GOMAXPROCS, and so does more: it could not compute any
// faster.
func newSlots(n, queue int) *slots {
	if most := runtime.GOMAXPROCS(0); n < 1 || n > most {
		n = most
	}
	s := &slots{free: make(chan struct{}, n), queue: int64(queue)}
	for range n {
		s.free <- struct{}{}
	}
	return s
}

// acquire waits for a slot, and takes up to want in all where more are free, so
// that a lone sweep uses every core. It keeps them to its end: whoever comes
// later waits. It returns how many it got, which must be released. A full queue is a refusal at once.
func (s *slots) acquire(ctx context.Context, want int) (int, error) {
	select {
	case <-s.free:
	default:
		if s.waiting.Add(1) > s.queue {
			s.waiting.Add(-1)
			return 0, refuse(queueFull, "too many requests wait for a compute slot; try again later")
		}
		defer s.waiting.Add(-1)
		select {
		case <-s.free:
		case <-ctx.Done():
			return 0, &refusal{reason: clientGone, index: -1, cause: context.Cause(ctx)}
		}
	}
	got := 1
	for got < want {
		select {
		case <-s.free:
			got++
		default:
			return got, nil
		}
	}
	return got, nil
}

// release gives n slots back.
func (s *slots) release(n int) {
	for range n {
		s.free <- struct{}{}
	}
}

func (s *slots) total() int { return cap(s.free) }
func (s *slots) busy() int  { return cap(s.free) - len(s.free) }
