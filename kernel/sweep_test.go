package kernel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"texttax/kernel/gbm42"
)

// A probe is a context that shows which goroutines compute: each of them asks
// it for its error before every combo.
type probe struct {
	context.Context
	asked func(stack string)
}

func (p probe) Err() error {
	buf := make([]byte, 64<<10)
	p.asked(string(buf[:runtime.Stack(buf, false)]))
	return p.Context.Err()
}

// inCaller tells the goroutine that runs the test from the ones that Sweep
// started: at its root is the testing package.
func inCaller(stack string) bool { return strings.Contains(stack, "testing.tRunner(") }

func goroutineOf(stack string) string {
	id, _, _ := strings.Cut(stack, " [")
	return id
}

func setGOMAXPROCS(t *testing.T, n int) {
	old := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// endless is a sweep of many minutes. Its combos are alike, so that whichever
// of them a worker has, it is at work for long.
func endless() ([]float64, []Params) {
	n := int64(gbm42.Bars)
	return gbm42.Close(), slices.Repeat([]Params{{n / 2, n / 2, n / 2, n / 2, n / 2, n / 2}}, 64)
}

const ceiling = 5 * time.Second // for what should take milliseconds

func TestBitsDoNotDependOnTheNumberOfWorkers(t *testing.T) {
	closes, combos := gbm42.Close()[:4_000], combosOf(goldenGrid(t))
	want := sweep1(t, closes, combos, DefaultFee)
	for _, procs := range []int{1, 2} {
		for _, workers := range []int{-1, 0, 1, 2, 8, math.MaxInt} {
			t.Run(fmt.Sprintf("GOMAXPROCS=%d,workers=%d", procs, workers), func(t *testing.T) {
				setGOMAXPROCS(t, procs)
				var out Results
				if err := Sweep(t.Context(), closes, combos, DefaultFee, workers, &out); err != nil {
					t.Fatal(err)
				}
				wantSame(t, &out, want)
			})
		}
	}
}

func TestWorkersAreAsManyAsAllowed(t *testing.T) {
	for _, bars := range []int{100, 16 * tileBars} { // by the reference, and by tiles
		testWorkersAreAsManyAsAllowed(t, bars)
	}
}

func testWorkersAreAsManyAsAllowed(t *testing.T, bars int) {
	for _, tc := range []struct {
		name                         string
		workers, procs, combos, want int
	}{
		{"the caller alone", 1, 4, 100, 1},
		{"as many as asked for", 2, 4, 100, 2},
		{"no more than GOMAXPROCS", 8, 3, 100, 3},
		{"no more than there is work for", 8, 4, 2, map[int]int{100: 2, 16 * tileBars: 1}[bars]},
		{"0 means GOMAXPROCS", 0, 3, 100, 3},
		{"negative means GOMAXPROCS", -7, 3, 100, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setGOMAXPROCS(t, tc.procs)
			var (
				mu      sync.Mutex
				seen    = map[string]bool{}
				callers = map[string]bool{}
				all     = make(chan struct{})
			)
			// Each worker waits in its first combo for the others, or else the
			// fast ones might do everything.
			ctx := probe{t.Context(), func(stack string) {
				if !strings.Contains(stack, "Pass).work(") {
					return
				}
				mu.Lock()
				first := !seen[goroutineOf(stack)]
				seen[goroutineOf(stack)] = true
				if inCaller(stack) {
					callers[goroutineOf(stack)] = true
				}
				if first && len(seen) == tc.want {
					close(all)
				}
				mu.Unlock()
				select {
				case <-all:
				case <-time.After(ceiling):
				}
			}}
			combos := slices.Repeat([]Params{Expand(6)}, tc.combos)
			if err := Sweep(ctx, gbm42.Close()[:bars], combos, 0, tc.workers, new(Results)); err != nil {
				t.Fatal(err)
			}
			if len(seen) != tc.want || len(callers) != 1 {
				t.Errorf("%d goroutines computed, %d of them the caller; want %d and 1", len(seen), len(callers), tc.want)
			}
		})
	}
}

func TestACancelledSweepReturnsTheCause(t *testing.T) {
	cause := errors.New("the client has gone")
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			setGOMAXPROCS(t, 2)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancelled := make(chan time.Time, 1)
			time.AfterFunc(20*time.Millisecond, func() {
				cancelled <- time.Now()
				cancel(cause)
			})
			closes, combos := endless()
			if err := Sweep(ctx, closes, combos, 0, workers, new(Results)); err != cause {
				t.Fatalf("error %v, want %v", err, cause)
			}
			late := time.Since(<-cancelled)
			t.Logf("returned %v after the cancel", late)
			if late > ceiling {
				t.Errorf("returned %v after the cancel", late)
			}
		})
	}
}

func TestASweepCancelledBeforeItStartsComputesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := Results{[]float64{42}, []int64{43}, []int8{44}}
	closes, combos := endless()
	if err := Sweep(ctx, closes, combos, 0, 2, &out); err != context.Canceled {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	wantSame(t, &out, &Results{[]float64{42}, []int64{43}, []int8{44}})
}

// Counts instead of a clock: how much a worker does between two looks at the
// context bounds how late it can be.
func TestTheContextIsAskedOftenEnough(t *testing.T) {
	const bars = 20_000
	for _, tc := range []struct {
		name string
		p    Params
	}{
		{"short windows", Params{100, 100, 100, 100, 100, 100}},
		{"huge windows", Params{bars / 2, 1, 1, 1, 1, 1}},
		{"windows beyond the series", Params{bars + 1, 1, 1, 1, 1, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked := 0
			ctx := probe{t.Context(), func(string) { asked++ }}
			combos := slices.Repeat([]Params{tc.p}, 3)
			if err := Sweep(ctx, gbm42.Close()[:bars], combos, 0, 1, new(Results)); err != nil {
				t.Fatal(err)
			}
			work := 0
			for _, w := range append(tc.p[:], tc.p[HMA3Full]) { // seven passes
				work += len(combos) * max(0, bars-int(w)+1) * int(w)
			}
			if least := work/(pollEvery+bars) + len(combos); asked < least {
				t.Errorf("asked %d times in %d multiply-adds, want at least %d", asked, work, least)
			}
		})
	}
}

func TestAPanicInAWorkerIsRaisedInTheCaller(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name     string
		workers  int
		inCaller bool
	}{
		{"of the caller's goroutine, alone", 1, true},
		{"of the caller's goroutine, beside another", 2, true},
		{"of another goroutine", 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setGOMAXPROCS(t, 2)
			before := runtime.NumGoroutine()
			ctx := probe{t.Context(), func(stack string) {
				if strings.Contains(stack, "Pass).work(") && inCaller(stack) == tc.inCaller {
					panic(boom)
				}
			}}
			start := time.Now()
			defer func() {
				p, ok := recover().(*WorkerPanic)
				if !ok || p.Value != boom || !errors.Is(p, boom) {
					t.Fatalf("recovered %v, want a *WorkerPanic of %v", p, boom)
				}
				if text := p.Error(); !strings.Contains(text, "boom") || !strings.Contains(text, "kernel.probe.Err(") {
					t.Errorf("the text lacks the value or the worker's stack:\n%s", text)
				}
				if took := time.Since(start); took > ceiling {
					t.Errorf("the other workers went on for %v", took)
				}
				wantNoMoreGoroutines(t, before)
			}()
			closes, combos := endless()
			_ = Sweep(ctx, closes, combos, 0, tc.workers, new(Results))
			t.Error("Sweep returned")
		})
	}
}

// wantNoMoreGoroutines allows those that are done a moment to leave.
func wantNoMoreGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(ceiling); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before the sweep", runtime.NumGoroutine(), before)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	for _, tc := range []struct {
		name   string
		closes []float64
		combos []Params
	}{
		{"no series", nil, []Params{Expand(6), Expand(8)}},
		{"an empty series", []float64{}, []Params{{1, 1, 1, 1, 1, 1}}},
		{"no combos", []float64{1, 2, 3}, nil},
		{"neither", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := Results{[]float64{1, 2, 3}, []int64{1, 2, 3}, []int8{1, 1, 1}} // left from before
			if err := Sweep(t.Context(), tc.closes, tc.combos, DefaultFee, 0, &out); err != nil {
				t.Fatal(err)
			}
			n := len(tc.combos)
			wantSame(t, &out, &Results{make([]float64, n), make([]int64, n), make([]int8, n)})
		})
	}
}

func TestInputsStayAsTheyAre(t *testing.T) {
	closes := slices.Clone(gbm42.Close()[:5_000])
	closes[1_000], closes[2_000] = nan, inf
	combos := combosOf(goldenGrid(t))
	closesBefore, combosBefore := slices.Clone(closes), slices.Clone(combos)
	sweep1(t, closes, combos, DefaultFee)
	if !slices.EqualFunc(closes, closesBefore, sameBits) {
		t.Error("the series was written to")
	}
	if !slices.Equal(combos, combosBefore) {
		t.Error("the combos were written to")
	}
}

// A scratch comes back with what the last series left in it.
func TestASeriesLeavesNothingForTheNextOne(t *testing.T) {
	combos := combosOf(goldenGrid(t))
	series := [][]float64{gbm42.Close()[:600], gbm42.Close()[50_000:50_100], gbm42.Close()[90_000:90_400]}
	var out Results
	for i, closes := range slices.Concat(series, series) {
		if err := Sweep(t.Context(), closes, combos[:80-10*i], DefaultFee, 1, &out); err != nil {
			t.Fatal(err)
		}
		wantSame(t, &out, oracleSweep(closes, combos[:80-10*i], DefaultFee))
	}
}

func TestResizeKeepsMemoryThatIsLargeEnough(t *testing.T) {
	var r Results
	r.Resize(10)
	pnl, trades, open := &r.PnL[0], &r.Trades[0], &r.Open[0]
	for _, n := range []int{3, 0, 10} {
		r.Resize(n)
		if len(r.PnL) != n || len(r.Trades) != n || len(r.Open) != n {
			t.Errorf("columns of %d, %d and %d elements, want %d", len(r.PnL), len(r.Trades), len(r.Open), n)
		}
	}
	if &r.PnL[0] != pnl || &r.Trades[0] != trades || &r.Open[0] != open {
		t.Error("a column was allocated again")
	}
	r.Resize(11)
	if len(r.PnL) != 11 || len(r.Trades) != 11 || len(r.Open) != 11 {
		t.Error("not every column grew")
	}
}

func TestAHugeScratchIsNotKept(t *testing.T) {
	small, huge := takeScratch(), new(scratch)
	small.resize(gbm42.Bars)
	huge.resize(keptScratch / 8 / len(huge.columns) * 2)
	if !small.giveBack() || huge.giveBack() {
		t.Errorf("of %d and %d bytes, want only the first kept", small.bytes(), huge.bytes())
	}
}

func TestWorkCountsLongWindowsByTheirSums(t *testing.T) {
	for _, tc := range []struct {
		bars   int
		combos []Params
		want   int64
	}{
		{1000, []Params{Expand(6), Expand(200)}, 2000},
		{100, []Params{{1, 51, 1, 1, 1, 1}}, (50*51 + 6*100) / 2},      // too few for a filter
		{1000, []Params{{1, 1, 1, 1, 1, math.MaxInt64}}, 5 * 1000 / 2}, // of which no sum is ever whole
		// 5,000 sums of 5,001 terms, and 10,000 sums of 1 for each other window.
		{10000, []Params{{1, 5001, 1, 1, 1, 1}}, (5000*5001 + 6*10000) / 2},
		// The last window has two levels.
		{10000, []Params{{1, 1, 1, 1, 1, 5001}}, (2*5000*5001 + 5*10000) / 2},
	} {
		if got := Work(tc.bars, tc.combos); got != tc.want {
			t.Errorf("%d bars, %v: %d, want %d", tc.bars, tc.combos, got, tc.want)
		}
	}
}

// Yield is asked on behalf of all workers where they wait for each other, and
// by each of those that don't.
func TestASweepYieldsWithinMilliseconds(t *testing.T) {
	for _, tc := range []struct {
		name   string
		combos []Params
		want   int
	}{
		{"by tiles", slices.Repeat([]Params{Expand(50)}, 500), 2},
		{"by the reference", slices.Repeat([]Params{{3000, 1, 1, 1, 1, 1}}, 4), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setGOMAXPROCS(t, 2)
			var mu sync.Mutex
			calls := 0
			s := Sweeper{Workers: 2, Yield: func(pausing, goingOn int) {
				mu.Lock()
				defer mu.Unlock()
				if goingOn < 0 || pausing+goingOn > 2 {
					t.Errorf("of 2 workers %d pause and %d go on", pausing, goingOn)
				}
				if pausing == 0 {
					return // one has ended
				}
				calls++
				if pausing != tc.want {
					t.Errorf("yields for %d workers", pausing)
				}
			}}
			closes := gbm42.Close()[:20000]
			if err := s.Sweep(t.Context(), closes, tc.combos, 0, new(Results)); err != nil {
				t.Fatal(err)
			}
			// A call for each 8,192 bar-combos by tiles, or for a million additions.
			least := len(closes) * len(tc.combos) / tileBars / chunkSides
			if tc.want == 1 {
				least = len(tc.combos) * 3000 * 17000 / pollEvery
			}
			if calls < least {
				t.Errorf("%d calls, not %d", calls, least)
			}
		})
	}
}

func TestMemoryIsThatOfThePassesThatASweepTakes(t *testing.T) {
	short, long := []Params{Expand(50)}, []Params{Expand(20_000)}
	tiles, reference, both := Memory(150_000, short, 2), Memory(150_000, long, 2), Memory(150_000, append(short, long...), 2)
	if reference != 2*5*8*150_000 || tiles <= 0 || both != tiles+reference {
		t.Errorf("%d by tiles, %d by the reference, %d together", tiles, reference, both)
	}
	if most := Memory(10_000_000, slices.Repeat(short, 100_000), 2); most > 4<<20 {
		t.Errorf("%d for many bars and combos", most)
	}
}
