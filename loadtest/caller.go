package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"texttax/encoding"
	"texttax/kernel"
)

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

// A server is gone when a caller has failed so many times in a row to get
// anything from it, so far apart.
const (
	attempts     = 10
	attemptsWait = 100 * time.Millisecond
)

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
