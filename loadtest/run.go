package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Scenario is what is measured: the same work across one boundary, in one
// format, in one granularity.
type Scenario struct {
	Boundary    Boundary
	Format      Format // of no use in process
	Granularity Granularity
	PreEncoded  bool // encode each request once, before the run, and not per call
}

// String returns the scenario's name.
func (s Scenario) String() string {
	name := s.Boundary.Name() + " " + string(s.Granularity)
	if s.Format.Codec != nil {
		name += " " + s.Format.Name
	}
	if s.PreEncoded {
		name += " pre-encoded"
	}
	return name
}

// A Plan is a run: a scenario, how hard it is driven, and when it is over.
type Plan struct {
	Scenario
	Work        Work
	Job         *Job          // the work's calls, if they have been cut before
	Connections int           // 0 means 1
	Pacer       Pacer         // nil means the closed model: each connection sends as soon as it has its answer
	Warmup      time.Duration // before the results begin
	Timeout     time.Duration // of each call, and of what is left at the end; 0 means 30 s

	// The run is over at the first of these; at least one is needed.
	Duration time.Duration // of calls' intended starts, after the warm-up
	Count    int64         // calls after the warm-up
	Stable   bool          // three windows in a row have medians within 10 %

	Window   time.Duration // of progress and stability; 0 means 1 s
	Observe  func(*Record) // sees each call, one at a time, and must be quick
	Progress func(Window)  // sees each window
}

// Errors that end a run before its time. The Result that comes with them is
// what had been found till then.
var (
	ErrWrongReply = errors.New("the server's answers are wrong")
	ErrGone       = errors.New("the server is gone")
)

const defaultTimeout = 30 * time.Second

// Run executes the plan. Before it begins, one call must be answered; if it is
// not, there is no result. A wrong answer ends the run with ErrWrongReply, and
// a server that can't be reached any more with ErrGone; then, and when ctx
// ends, there are both a result and an error.
func Run(ctx context.Context, p Plan) (*Result, error) {
	r, err := prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	return r.run(ctx)
}

type run struct {
	Plan
	bodies  [][]byte // of the job's calls, if they are encoded before
	callers []*caller
	ownCost time.Duration
	recorder

	start    time.Duration // on the clock of Now
	turn     sync.Mutex    // held while waiting for the next intended start
	next     int64         // call, under turn; in the closed model the atomic
	previous time.Duration // its intended start, under turn
	taken    atomic.Int64  // calls, in the closed model
	measured atomic.Int64  // calls after the warm-up, if they are counted
	stop     atomic.Bool
	gaveUp   atomic.Bool // on calls that have no answer long after the end

	dials, redials atomic.Int64
	fatal          atomic.Pointer[error]
	end            context.CancelFunc
}

func prepare(ctx context.Context, p Plan) (*run, error) {
	if p.Duration <= 0 && p.Count <= 0 && !p.Stable {
		return nil, errors.New("the run would never end: it needs a duration, a count, or stability")
	}
	if p.Connections == 0 {
		p.Connections = 1
	}
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	if p.Window == 0 {
		p.Window = time.Second
	}
	if p.Boundary == InProcess {
		p.Format = Format{}
	}
	if p.Job == nil {
		var err error
		if p.Job, err = p.Work.Cut(p.Granularity, p.Format); err != nil {
			return nil, err
		}
	}
	r := &run{Plan: p}
	r.recorder.observe, r.recorder.progress = p.Observe, p.Progress
	for _, c := range p.Job.Calls {
		if err := p.Boundary.Check(c, p.Format); err != nil {
			return nil, err
		}
		if p.PreEncoded && p.Format.Codec != nil {
			body, err := p.Format.Codec.Append(nil, c.Request)
			if err != nil {
				return nil, err
			}
			r.bodies = append(r.bodies, body)
		}
	}
	for range p.Connections {
		c := &caller{run: r}
		r.callers = append(r.callers, c)
		if err := c.dial(ctx); err != nil {
			r.hangUp()
			return nil, err
		}
	}
	var first Record
	r.callers[0].call(&first, 0)
	if first.err != nil {
		r.hangUp()
		if first.Outcome == WrongReply {
			return nil, fmt.Errorf("%w: %w", ErrWrongReply, first.err)
		}
		return nil, first.err
	}
	r.ownCost = ownCost()
	return r, nil
}

func (r *run) hangUp() {
	for _, c := range r.callers {
		c.hangUp()
	}
}

func (r *run) run(ctx context.Context) (*Result, error) {
	ctx, r.end = context.WithCancel(ctx)
	defer r.end()
	began := time.Now()
	before := usageNow()
	r.start = Now()
	var calling sync.WaitGroup
	for _, c := range r.callers {
		calling.Go(func() { c.work(ctx) })
	}
	answered := make(chan struct{})
	go func() {
		calling.Wait()
		close(answered)
	}()
	err := r.watch(ctx, answered)
	r.stop.Store(true)
	r.end()
	r.hangUp()
	<-answered
	if fatal := r.fatal.Load(); fatal != nil {
		err = *fatal
	}
	result := r.result(before)
	result.Began = began
	return result, err
}

// watch closes windows until all callers are done or must be. What was sent
// in time may take as long as a call may.
func (r *run) watch(ctx context.Context, answered <-chan struct{}) error {
	ticks := time.NewTicker(r.Window)
	defer ticks.Stop()
	opened := Now()
	var giveUp <-chan time.Time
	if r.Duration > 0 {
		timer := time.NewTimer(r.Warmup + r.Duration + r.Timeout)
		defer timer.Stop()
		giveUp = timer.C
	}
	var windows []Window
	shut := func() {
		closed := Now()
		windows = r.endWindow(opened-r.start-r.Warmup, closed-opened)
		opened = closed
	}
	for {
		select {
		case <-answered:
			if Now()-opened > r.Window/2 || len(windows) == 0 {
				shut()
			}
			return nil
		case <-giveUp:
			r.gaveUp.Store(true)
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the run was interrupted: %w", context.Cause(ctx))
		case <-ticks.C:
			shut()
			if r.Plan.Stable && stable(windows) {
				r.stop.Store(true)
			}
		}
	}
}

// stable tells whether the medians of the last three windows are within 10 %.
func stable(windows []Window) bool {
	const needed, within = 3, 1.1
	if len(windows) < needed {
		return false
	}
	low, high := windows[len(windows)-1].P50, 0.0
	for _, w := range windows[len(windows)-needed:] {
		low, high = min(low, w.P50), max(high, w.P50)
	}
	return low > 0 && high <= within*low
}

// fail ends the run because of err.
func (r *run) fail(err error) {
	r.fatal.CompareAndSwap(nil, &err)
	r.stop.Store(true)
	r.end()
}

// schedule waits until the next call is due. It returns its number and its
// intended start since the start of the run, and false if there is none.
func (r *run) schedule(ctx context.Context) (n int64, scheduled time.Duration, ok bool) {
	if r.stop.Load() || ctx.Err() != nil {
		return 0, 0, false
	}
	if r.Pacer == nil {
		n, scheduled = r.taken.Add(1)-1, Now()-r.start
		return n, scheduled, r.due(n, scheduled)
	}
	// One caller at a time waits for the clock, and then sends itself: no
	// time goes into waking another.
	r.turn.Lock()
	defer r.turn.Unlock()
	n, scheduled = r.next, r.Pacer.Next(r.next, r.previous)
	if !r.due(n, scheduled) {
		return 0, 0, false
	}
	if !r.sleepUntil(ctx, r.start+scheduled) {
		return 0, 0, false
	}
	r.next, r.previous = n+1, scheduled
	return n, scheduled, true
}

// due tells whether a call that is meant to begin then is still part of the
// run. A count counts what comes after the warm-up.
func (r *run) due(n int64, scheduled time.Duration) bool {
	if r.Duration > 0 && scheduled >= r.Warmup+r.Duration {
		return false
	}
	if r.Count <= 0 || scheduled < r.Warmup {
		return true
	}
	return r.measured.Add(1) <= r.Count
}

// sleepUntil returns false if the run ends before.
func (r *run) sleepUntil(ctx context.Context, at time.Duration) bool {
	// exact is what the exact sleep is good for: it can't be woken.
	const exact = 2 * time.Millisecond
	for {
		left := at - Now()
		switch {
		case left <= 0:
			return true
		case r.stop.Load():
			return false
		case left <= exact:
			sleepExact(left)
			continue
		}
		timer := time.NewTimer(left - exact)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// dropped counts the calls that were due and have not begun.
func (r *run) dropped() int64 {
	if r.Pacer == nil || r.Duration == 0 {
		return 0
	}
	// A run that was ended before its time drops nothing that was yet to come.
	until := min(r.Warmup+r.Duration, Now()-r.start)
	dropped := int64(0)
	for n, at := r.next, r.previous; ; n++ {
		if at = r.Pacer.Next(n, at); at >= until || r.Count > 0 && n >= r.Count {
			return dropped
		}
		dropped++
	}
}
