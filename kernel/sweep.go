package kernel

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// DefaultFee is the round-trip fee, as a fraction of the position, that a
// sweep pays when it names none.
const DefaultFee = 0.0009

// Implementation names the variant that Sweep runs unless told otherwise: avx512,
// avx2 or go, of which all have the reference's bits.
var Implementation = best.name

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

// Identical tells whether both have the same outcomes to the last bit.
func (r *Results) Identical(other *Results) bool {
	same := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
	return slices.EqualFunc(r.PnL, other.PnL, same) && slices.Equal(r.Trades, other.Trades) && slices.Equal(r.Open, other.Open)
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// yieldAfter is how long the workers of a sweep compute before they come
// together and yield, give or take a task.
const yieldAfter = 10 * time.Millisecond

// A Sweeper says what a sweep may take of the machine.
type Sweeper struct {
	// Workers is the number of goroutines to compute on, the caller's own
	// included. There are never more than GOMAXPROCS, or than there is work for;
	// below 1 it means GOMAXPROCS.
	Workers int
	// Yield, if not nil, is called every few milliseconds on behalf of so many
	// workers, one or all of them, while those do nothing else and so many others
	// go on. It may block, to let other sweeps compute. When a worker has ended
	// while others are held up in Yield, it is called on behalf of none, and must
	// not block.
	Yield func(pausing, goingOn int)
	// Variant is the way to compute; the zero value is the fastest.
	Variant Variant
}

// Sweep runs every combo over the close series and writes one element per
// combo into out, which it resizes, on at most so many goroutines. See Sweeper,
// and the package comment for the arithmetic.
func Sweep(ctx context.Context, close []float64, combos []Params, fee float64, workers int, out *Results) error {
	return Sweeper{Workers: workers}.Sweep(ctx, close, combos, fee, out)
}

// Sweep runs every combo over the close series and writes one element per
// combo into out, which it resizes. See the package comment for the
// arithmetic. The results do not depend on the number of workers.
//
// Sweep returns a *WindowError, before it computes anything, if a window is
// below 1, and the cause of ctx within a few milliseconds of its end; out is
// then undefined. A panic in a worker stops the others and is raised again in
// the caller, as a *WorkerPanic. No goroutine outlives the call.
func (sweeper Sweeper) Sweep(ctx context.Context, close []float64, combos []Params, fee float64, out *Results) error {
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
	s := takeSweep(ctx, close, combos, fee, out)
	if s.yield = sweeper.Yield; s.yield != nil {
		s.turn = yieldAfter
	}
	s.run(sweeper.Variant.orBest(), sweeper.Workers)
	panicked, stopped := s.panicked.Load(), s.stop.Load()
	s.giveBack()
	if panicked != nil {
		panic(panicked)
	}
	if stopped {
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
	yield  func(pausing, goingOn int) // nil if nobody asks
	turn   time.Duration              // after which workers come together to yield; 0 for none

	active, paused atomic.Int64 // workers that have not ended, and those of them that are in yield

	stop     atomic.Bool // ctx has ended or a worker has panicked
	panicked atomic.Pointer[WorkerPanic]
	helpers  sync.WaitGroup
	meters   []meter // one a worker

	filtered  filteredPass
	reference referencePass
}

var sweeps = sync.Pool{New: func() any { return new(sweep) }}

// takeSweep returns a sweep that has its working memory from an earlier one.
func takeSweep(ctx context.Context, close []float64, combos []Params, fee float64, out *Results) *sweep {
	s := sweeps.Get().(*sweep)
	s.ctx, s.close, s.combos, s.fee, s.out = ctx, close, combos, fee, out
	s.stop.Store(false)
	s.panicked.Store(nil)
	s.filtered.sweep, s.reference.sweep = s, s
	s.filtered.barrier.turn.L = &s.filtered.barrier.mu
	return s
}

// keptCombos is the number of combos above which lists of them are left to the
// garbage collector.
const keptCombos = 1 << 12

// giveBack lets go of everything that belongs to the caller, and of working
// memory that is too large to keep.
func (s *sweep) giveBack() {
	s.ctx, s.close, s.combos, s.out, s.yield, s.turn = nil, nil, nil, nil, nil, 0
	s.filtered.giveBack()
	if cap(s.reference.places) > keptCombos {
		s.reference.places = nil
	}
	sweeps.Put(s)
}

// A worker runs on several goroutines at a time, each with a number and a
// meter of its own.
type worker interface{ work(number int, m *meter) }

// Workers returns on how many goroutines a sweep of so many bars can be worth
// computing. Sweep takes no more itself.
func Workers(bars, combos int) int {
	if bars < fewBars {
		return combos
	}
	return max(1, tilesOf(bars)*combos/worthAWorker)
}

// Work returns how much a sweep is to compute, in bar-combos: bars x combos,
// where a combo counts for many if its windows are so long that the reference
// has to sum them up.
func Work(bars int, combos []Params) int64 {
	const additions = 2 // of the reference take no longer than a bar of a filter
	sum := 0.0
	for c := range combos {
		each := float64(bars)
		if p := &combos[c]; bars < fewBars || !fitsFilter(p) {
			long := 0.0
			for w, n := range p {
				once := float64(n) * float64(max(0, int64(bars)-n+1))
				if long += once; w == HMA3Full {
					long += once // on both levels
				}
			}
			each = max(each, long/additions)
		}
		sum += each
	}
	return int64(min(sum, math.MaxInt64/2))
}

// Memory returns about how many bytes of working memory a sweep takes on so many
// goroutines, beside the series, the combos and the results.
func Memory(bars int, combos []Params, workers int) int64 {
	const workspace = 512 << 10 // tile and exact blocks
	var fit int
	for c := range combos {
		if bars >= fewBars && fitsFilter(&combos[c]) {
			fit++
		}
	}
	sum := int64(0)
	if fit > 0 {
		n := min(fit, chunkCombos)
		chunk := min(chunkTiles, chunkSides/n, tilesOf(bars))
		sum += int64(n)*int64(unsafe.Sizeof(filtered{})) + int64(n*chunk)*int64(unsafe.Sizeof(sides{})) + int64(workers)*workspace
	}
	if fit < len(combos) {
		sum += int64(workers) * int64(len(scratch{}.columns)) * 8 * int64(bars)
	}
	return sum
}

// run computes the sweep by a variant.
func (s *sweep) run(v Variant, workers int) {
	if most := runtime.GOMAXPROCS(0); workers < 1 || workers > most {
		workers = most
	}
	for len(s.meters) < workers {
		s.meters = append(s.meters, meter{})
	}
	s.reference.begin(v.average)
	if v.inner != nil && len(s.close) >= fewBars {
		s.filtered.run(v.inner, workers)
	} else {
		s.reference.addAll()
	}
	if !s.stop.Load() {
		s.each(min(workers, len(s.reference.places)), &s.reference)
	}
}

// each runs w on so many goroutines, of which the caller's is the last, and
// returns when all are done. A panic of one stops the sweep.
func (s *sweep) each(workers int, w worker) {
	if workers == 0 {
		return
	}
	s.active.Store(int64(workers))
	for number := range workers - 1 {
		s.helpers.Go(func() { s.guard(number, w) })
	}
	s.guard(workers-1, w)
	s.helpers.Wait()
}

func (s *sweep) guard(number int, w worker) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked.CompareAndSwap(nil, &WorkerPanic{Value: v, Stack: debug.Stack()})
			s.stop.Store(true)
		}
		s.filtered.barrier.leave()
		active := s.active.Add(-1)
		if paused := s.paused.Load(); paused > 0 {
			s.yield(0, int(active-paused))
		}
	}()
	m := &s.meters[number]
	*m = meter{sweep: s}
	w.work(number, m)
}

// referencePass runs combos by the reference kernel, one at a time.
type referencePass struct {
	*sweep
	average averager
	places  []int        // of the combos in the sweep
	taken   atomic.Int64 // combos handed out
}

func (p *referencePass) begin(average averager) {
	p.average = average
	p.places = p.places[:0]
	p.taken.Store(0)
}

func (p *referencePass) addAll() {
	for c := range p.combos {
		p.places = append(p.places, c)
	}
}

// work computes combos until none is left or the sweep stops.
func (p *referencePass) work(_ int, m *meter) {
	scratch := takeScratch()
	defer scratch.giveBack()
	m.alone = true
	for !m.poll() {
		i := int(p.taken.Add(1) - 1)
		if i >= len(p.places) {
			return
		}
		c := p.places[i]
		o := sweepReference(p.close, &p.combos[c], p.fee, p.average, scratch, m)
		p.out.PnL[c], p.out.Trades[c], p.out.Open[c] = o.pnl, o.trades, o.open
	}
}

// pollEvery is how many multiply-adds a worker does between two looks at
// whether the sweep has to stop: about a millisecond's worth.
const pollEvery = 1 << 20

// A meter counts the work of one worker, because to ask a context at every bar
// would cost more than many a bar does.
type meter struct {
	sweep *sweep
	left  int  // multiply-adds until the next poll
	alone bool // no other worker waits for this one
}

// spend counts work that is about to be done and reports whether to leave it
// undone. Once it has said so, it says so again.
func (m *meter) spend(multiplyAdds int) bool {
	m.left -= multiplyAdds
	return m.left < 0 && m.poll()
}

// pause lets other sweeps compute in place of so many workers.
func (s *sweep) pause(workers int) {
	if s.yield == nil {
		return
	}
	paused := s.paused.Add(int64(workers))
	defer s.paused.Add(-int64(workers))
	s.yield(workers, int(s.active.Load()-paused))
}

// poll reports whether the sweep has to stop.
func (m *meter) poll() bool {
	if m.alone {
		m.sweep.pause(1)
	}
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
