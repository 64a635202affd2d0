package ring

import (
	"sync"
	"sync/atomic"
	"time"
)

// deadline is the moment at which reads or writes give up.
type deadline struct {
	past atomic.Bool

	mu      sync.Mutex
	timer   *time.Timer   // running or done, nil without a deadline to come
	expired chan struct{} // closed once the deadline is past
}

func newDeadline() *deadline { return &deadline{expired: make(chan struct{})} }

// set moves the deadline, for those too who wait already. Zero is never.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.expired // by the timer, which can't be stopped any more
	}
	d.timer = nil
	left := time.Until(t)
	if !t.IsZero() && left <= 0 {
		if !d.past.Swap(true) {
			close(d.expired)
		}
		return
	}
	if d.past.Swap(false) {
		d.expired = make(chan struct{})
	}
	if !t.IsZero() {
		expired := d.expired
		d.timer = time.AfterFunc(left, func() {
			d.past.Store(true)
			close(expired)
		})
	}
}

// wait returns a channel that is closed once the deadline is past.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expired
}
