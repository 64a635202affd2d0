package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"texttax/encoding"
	"texttax/kernel"
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

// A Result is what a run has found. Durations are in seconds.
type Result struct {
	Scenario    string           `json:"scenario"`
	Boundary    string           `json:"boundary"`
	Format      string           `json:"format,omitempty"`
	Granularity Granularity      `json:"granularity"`
	PreEncoded  bool             `json:"pre_encoded"`
	Model       string           `json:"model"` // closed, or the pacer's
	Connections int              `json:"connections"`
	Began       time.Time        `json:"began"`
	Elapsed     float64          `json:"elapsed"` // from the warm-up's end to the last answer
	Warmups     int64            `json:"warmups"` // calls that are not part of the rest
	Outcomes    map[string]int64 `json:"outcomes"`
	Late        int64            `json:"late"`      // calls begun over 1 ms after their intended start
	Dropped     int64            `json:"dropped"`   // calls that were due and never began
	Dials       int64            `json:"dials"`     // connections opened
	Redials     int64            `json:"redials"`   // of which in the place of others
	Latency     Distribution     `json:"latency"`   // of answered calls, from the intended start
	Service     Distribution     `json:"service"`   // of answered calls, from the true start
	Refusals    Distribution     `json:"refusals"`  // of refused calls, from the intended start
	Phases      []PhaseTime      `json:"phases"`    // of answered calls
	BytesOut    int64            `json:"bytes_out"` // of answered calls' bodies
	BytesIn     int64            `json:"bytes_in"`
	Stable      bool             `json:"stable"` // the last three windows are within 10 %
	Windows     []Window         `json:"windows"`
	Failures    []string         `json:"failures,omitempty"` // the first that differ
	Self        SelfCheck        `json:"self"`
}

// PhaseTime is the time of one phase over all answered calls that were in it.
type PhaseTime struct {
	Phase string  `json:"phase"`
	Total float64 `json:"total"` // seconds
	Distribution
}

// Answered is the number of calls that got the right numbers.
func (r *Result) Answered() int64 { return r.Outcomes[Answered.String()] }

// Failed is the number of calls that did not.
func (r *Result) Failed() int64 {
	failed := int64(0)
	for name, n := range r.Outcomes {
		if name != Answered.String() {
			failed += n
		}
	}
	return failed
}

// Phase returns the time of a phase; zero if no call was in it.
func (r *Result) Phase(p Phase) PhaseTime {
	for _, t := range r.Phases {
		if t.Phase == p.String() {
			return t
		}
	}
	return PhaseTime{Phase: p.String()}
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

func (r *run) result(before usage) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := &Result{
		Scenario: r.Scenario.String(), Boundary: r.Boundary.Name(), Format: r.Format.Name, Granularity: r.Job.Granularity,
		PreEncoded: r.PreEncoded, Model: "closed", Connections: r.Connections,
		Elapsed: max(0, r.last-r.Warmup).Seconds(), Warmups: r.warmups, Outcomes: map[string]int64{},
		Late: r.late, Dropped: r.dropped(), Dials: r.dials.Load(), Redials: r.redials.Load(),
		Latency: r.latency.distribution(), Service: r.service.distribution(), Refusals: r.refusals.distribution(),
		BytesOut: r.bytesOut, BytesIn: r.bytesIn, Stable: stable(r.windows), Windows: r.windows, Failures: r.messages,
	}
	if r.Pacer != nil {
		result.Model = r.Pacer.Model()
	}
	for o, n := range r.outcomes {
		result.Outcomes[Outcome(o).String()] = n
	}
	for p := range r.phases {
		if h := &r.phases[p]; h.count() > 0 {
			result.Phases = append(result.Phases, PhaseTime{Phase(p).String(), h.sum.Seconds(), h.distribution()})
		}
	}
	result.Self = selfCheck(before, usageNow(), r.lag.distribution(), result.Service,
		float64(r.late)/float64(max(r.lag.count(), 1)), r.Pacer == nil, r.ownCost)
	warn := func(format string, args ...any) {
		result.Self.Warnings = append(result.Self.Warnings, fmt.Sprintf(format, args...))
	}
	if result.Redials > 0 {
		warn("connections were not all kept: %d were opened for %d callers", result.Dials, result.Connections)
	}
	if r.negative > 0 {
		warn("in %d calls the server claims to have spent more time than they took", r.negative)
	}
	return result
}

// A caller sends calls on one connection, one at a time.
type caller struct {
	*run
	conn    Conn
	mu      sync.Mutex // of conn, against the end of the run
	over    bool       // the run is
	ever    bool       // dialled before
	body    []byte
	reply   Reply
	results kernel.Results
	echo    encoding.Request
}

// dial opens the caller's connection.
func (c *caller) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := c.Boundary.Dial(ctx)
	if err != nil {
		return err
	}
	c.dials.Add(1)
	if c.ever {
		c.redials.Add(1)
	}
	c.ever = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return errors.Join(context.Canceled, conn.Close())
	}
	c.conn = conn
	return nil
}

// drop closes a connection that is of no more use.
func (c *caller) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// hangUp ends the caller, whatever it is waiting for.
func (c *caller) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// A server is gone when a caller has failed so many times in a row to get
// anything from it, so far apart.
const (
	attempts     = 10
	attemptsWait = 100 * time.Millisecond
)

func (c *caller) work(ctx context.Context) {
	failures := 0
	for {
		free := Now() - c.start
		n, scheduled, ok := c.schedule(ctx)
		if !ok {
			return
		}
		rec := Record{Scheduled: scheduled, Free: free, Started: Now() - c.start, Warmup: scheduled < c.Warmup}
		c.attempt(ctx, &rec, n)
		if ctx.Err() != nil && rec.Outcome != Answered && rec.Outcome != WrongReply {
			if !c.gaveUp.Load() {
				return // who has interrupted the run has cut it off
			}
			rec.Outcome, rec.err = TimedOut, errors.New("no answer before the end of the run")
		}
		c.add(&rec)
		switch rec.Outcome {
		case WrongReply:
			c.fail(fmt.Errorf("%w: %w", ErrWrongReply, rec.err))
		case Broken, DialFailed:
			if failures++; failures == attempts {
				c.fail(fmt.Errorf("%w: %w", ErrGone, rec.err))
			} else if failures > 1 {
				time.Sleep(attemptsWait)
			}
		default:
			failures = 0
		}
	}
}

// attempt makes call n of the job, on a new connection if need be.
func (c *caller) attempt(ctx context.Context, rec *Record, n int64) {
	if c.conn == nil {
		if err := c.dial(ctx); err != nil {
			rec.Call = c.Job.Calls[n%int64(len(c.Job.Calls))]
			rec.Outcome, rec.err, rec.Done = DialFailed, err, Now()-c.start
			return
		}
	}
	c.call(rec, n)
}

// call makes call n of the job, and fills in what becomes of it. A connection
// that can't be used again is closed.
func (c *caller) call(rec *Record, n int64) {
	i := int(n % int64(len(c.Job.Calls)))
	call := c.Job.Calls[i]
	rec.Call = call
	m := Message{Call: call, Format: c.Format, Timeout: c.Timeout}
	began := Now()
	switch {
	case c.bodies != nil:
		m.Body = c.bodies[i]
	case c.Format.Codec != nil:
		var err error
		if c.body, err = c.Format.Codec.Append(c.body[:0], call.Request); err != nil {
			rec.Outcome, rec.err = Refused, err
			return
		}
		m.Body = c.body
	}
	rec.BytesOut = len(m.Body)
	c.reply.Timing = ServerTiming{}
	if err := c.conn.Exchange(&m, &c.reply); err != nil {
		rec.Outcome, rec.err, rec.Done = Broken, err, Now()-c.start
		if errors.Is(err, os.ErrDeadlineExceeded) {
			rec.Outcome, rec.err = TimedOut, fmt.Errorf("no answer in %s", c.Timeout)
		}
		c.drop()
		return
	}
	reply := &c.reply
	rec.Status, rec.BytesIn = reply.Status, len(reply.Body)
	rec.Sent, rec.FirstByte, rec.Done = reply.Sent-c.start, reply.FirstByte-c.start, reply.Done-c.start
	if reply.Close {
		c.drop()
	}
	switch {
	case reply.Status == 429 || reply.Status == 503:
		rec.Outcome, rec.err = Throttled, refusal(call, reply)
		return
	case reply.Status != 200:
		rec.Outcome, rec.err = Refused, refusal(call, reply)
		return
	}
	got, err := c.decode(call)
	decoded := Now()
	rec.Decoded = decoded - c.start
	if err == nil {
		err = call.Verify(got, c.echo.Close)
	}
	if err != nil {
		rec.Outcome, rec.err = WrongReply, err
		return
	}
	rec.phases = reply.Timing
	if c.Format.Codec != nil {
		rec.phases.set(ClientEncode, reply.Sent-began)
		rec.phases.set(ClientDecode, decoded-reply.Done)
	}
	// All the rest, down to the time that a new connection took.
	rest := Transit
	if !reply.Timing.Known() {
		rest = Unsplit
	}
	rec.phases.set(rest, rec.Service()-rec.phases.sum())
}

// decode turns the reply into numbers: results, or the echo of a series.
func (c *caller) decode(call *Call) (*kernel.Results, error) {
	if c.Format.Codec == nil {
		c.echo.Close = call.Request.Close
		return c.reply.Results, nil
	}
	if call.Want != nil {
		err := c.Format.Codec.DecodeResults(c.reply.Body, &c.results)
		return &c.results, err
	}
	c.echo.Reset(encoding.Limits{})
	return nil, c.Format.Codec.Decode(c.reply.Body, &c.echo)
}

// refusal says what a server that refuses a call says.
func refusal(call *Call, r *Reply) error {
	return fmt.Errorf("POST /%s is answered with %d: %.300s", call.Endpoint, r.Status, r.Body)
}
