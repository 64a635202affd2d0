package kernel

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// DefaultFee is the round-trip fee, as a fraction of the position, that a
// sweep pays when it names none.
const DefaultFee = 0.0009

// Implementation names the kernel that Sweep runs.
const Implementation = "reference"

// Results are the outcomes of a sweep, one element per combo, in the order of
// the combos.
type Results struct {
	PnL    []float64 // closed trades' profit in percentage points, fees taken off
	Trades []int64   // closed trades
	Open   []int8    // side still open after the last bar: +1, -1, or 0 for none
}

// Resize makes all three columns n long. It keeps their memory where that is
// large enough; their contents are then undefined.
func (r *Results) Resize(n int) {
	r.PnL = resize(r.PnL, n)
	r.Trades = resize(r.Trades, n)
	r.Open = resize(r.Open, n)
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// Sweep runs every combo over the close series and writes one element per
// combo into out, which it resizes. See the package comment for the
// arithmetic.
//
// It computes on at most workers goroutines, the caller's own included, and
// never on more than GOMAXPROCS or than there are combos; workers < 1 means
// GOMAXPROCS. The results do not depend on their number.
//
// Sweep returns a *WindowError, before it computes anything, if a window is
// below 1, and the cause of ctx within a few milliseconds of its end; out is
// then undefined. A panic in a worker stops the others and is raised again in
// the caller, as a *WorkerPanic. No goroutine outlives the call.
func Sweep(ctx context.Context, close []float64, combos []Params, fee float64, workers int, out *Results) error {
	if err := CheckParams(combos); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out.Resize(len(combos))
	if len(combos) == 0 {
		return nil
	}

	allowed := min(runtime.GOMAXPROCS(0), len(combos))
	if workers < 1 || workers > allowed {
		workers = allowed
	}
	s := &sweep{ctx: ctx, close: close, combos: combos, fee: fee, out: out}
	for range workers - 1 { // the caller is the last of them
		s.helpers.Go(s.work)
	}
	s.work()
	s.helpers.Wait()

	if p := s.panicked.Load(); p != nil {
		panic(p)
	}
	if s.stop.Load() {
		return context.Cause(ctx)
	}
	return nil
}

// A sweep is what the workers of one call of Sweep share.
type sweep struct {
	ctx    context.Context
	close  []float64
	combos []Params
	fee    float64
	out    *Results

	taken    atomic.Int64 // combos handed out
	stop     atomic.Bool  // ctx has ended or a worker has panicked
	panicked atomic.Pointer[WorkerPanic]
	helpers  sync.WaitGroup
}

// work computes combos until none is left or the sweep stops.
func (s *sweep) work() {
	defer func() {
		if v := recover(); v != nil {
			s.panicked.CompareAndSwap(nil, &WorkerPanic{Value: v, Stack: debug.Stack()})
			s.stop.Store(true)
		}
	}()
	scratch := takeScratch()
	defer scratch.giveBack()
	m := meter{sweep: s}
	for !m.poll() {
		c := int(s.taken.Add(1) - 1)
		if c >= len(s.combos) {
			return
		}
		o := sweepReference(s.close, &s.combos[c], s.fee, scratch, &m)
		s.out.PnL[c], s.out.Trades[c], s.out.Open[c] = o.pnl, o.trades, o.open
	}
}

// pollEvery is how many multiply-adds a worker does between two looks at
// whether the sweep has to stop: about a millisecond's worth.
const pollEvery = 1 << 20

// A meter counts the work of one worker, because to ask a context at every bar
// would cost more than many a bar does.
type meter struct {
	sweep *sweep
	left  int // multiply-adds until the next poll
}

// spend counts work that is about to be done and reports whether to leave it
// undone. Once it has said so, it says so again.
func (m *meter) spend(multiplyAdds int) bool {
	m.left -= multiplyAdds
	return m.left < 0 && m.poll()
}

// poll reports whether the sweep has to stop.
func (m *meter) poll() bool {
	if m.sweep.ctx.Err() != nil {
		m.sweep.stop.Store(true)
	}
	if m.sweep.stop.Load() {
		m.left = 0 // and not less: it must not wrap around
		return true
	}
	m.left = pollEvery
	return false
}

// A WorkerPanic is the value with which Sweep panics if one of its workers
// did. The stack is the worker's, since the caller's says nothing of the cause.
type WorkerPanic struct {
	Value any    // what the worker panicked with
	Stack []byte // as of runtime/debug.Stack
}

func (p *WorkerPanic) Error() string {
	return fmt.Sprintf("kernel: panic in a sweep: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value that the worker panicked with if it is an error.
func (p *WorkerPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}
