package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"texttax/encoding"
	"texttax/middleware"
)

// standing is what a connection is doing. It waits for its peer in all but the
// second.
type standing uint64

const (
	idle    standing = iota // no byte of a frame has come
	working                 // on a frame
	reading                 // the rest of a frame
	writing                 // a reply
	numStandings
)

// closed is the state of a connection that the server has closed while it was
// idle.
const closed = math.MaxUint64

// frameConn is a connection. It belongs to the goroutine in serve, but for its
// state.
type frameConn struct {
	server *FrameServer
	conn   net.Conn
	frames *encoding.FrameReader
	buffer *buffer // of frames
	log    *slog.Logger

	// The standing, and above it the number of moves: a state that has not
	// changed means that nothing has come or gone.
	state atomic.Uint64
	moves uint64
	cut   atomic.Bool // the patrol has closed it

	// These belong to the patrol.
	seen      uint64
	seenSince time.Time

	exchange middleware.Exchange // of the current frame
	began    time.Time
	count    int64 // of frames
	in, out  int64 // body bytes
}

// next returns the connection's next state.
func (c *frameConn) next(to standing) uint64 {
	c.moves++
	return c.moves*uint64(numStandings) + uint64(to)
}

// move notes that the connection gets on.
func (c *frameConn) move(to standing) { c.state.Store(c.next(to)) }

// closeIfIdle closes the connection if no frame has begun.
func (c *frameConn) closeIfIdle() {
	state := c.state.Load()
	if state != closed && standing(state%uint64(numStandings)) == idle && c.state.CompareAndSwap(state, closed) {
		_ = c.conn.Close()
	}
}

// inspect closes the connection if its peer keeps it waiting for too long.
func (c *frameConn) inspect(now time.Time) {
	state := c.state.Load()
	if state != c.seen || c.seenSince.IsZero() {
		c.seen, c.seenSince = state, now
		return
	}
	waited := now.Sub(c.seenSince)
	switch standing(state % uint64(numStandings)) {
	case idle:
		if waited >= c.server.timeouts.Idle && c.state.CompareAndSwap(state, closed) {
			_ = c.conn.Close()
		}
	case reading:
		if waited >= c.server.timeouts.Frame {
			c.cutOff()
		}
	case writing:
		if waited >= c.server.timeouts.Idle {
			c.cutOff()
		}
	}
}

func (c *frameConn) cutOff() {
	c.cut.Store(true)
	_ = c.conn.Close()
}

// serve answers one frame after the other, so that the replies come in order.
func (c *frameConn) serve() {
	defer func() {
		if cause := recover(); cause != nil {
			c.panicked(cause)
		}
		c.buffer.release()
		s := c.server
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		c.log.Debug("frames: connection", "frames", c.count, "bytes_in", c.in, "bytes_out", c.out, "seconds", time.Since(c.began).Seconds())
	}()
	for c.await() {
		if err := c.frame(); err != nil {
			c.refuse(err)
			return
		}
	}
	_ = c.conn.Close()
}

// panicked notes a panic outside of a frame. One within is seen to by frame.
func (c *frameConn) panicked(cause any) {
	c.log.Error("panic", "frames", c.count, "cause", cause, "stack", string(debug.Stack()))
	ex := &middleware.Exchange{Route: frameRoute, Panicked: true, Rejection: string(internal), Status: reasons[internal].status}
	ex.Clock.Start(middleware.TransitIn)
	c.server.observer.Begin(ex)
	ex.Clock.Stop()
	c.server.observer.End(ex)
	_ = c.conn.Close()
}

// await waits for the next frame to begin, and tells whether one has.
func (c *frameConn) await() bool {
	if c.frames.Buffered() > 0 {
		c.move(reading)
		return true
	}
	state := c.next(idle)
	c.state.Store(state)
	// After that, or Shutdown may miss both.
	return !c.server.draining.Load() && c.frames.Await() == nil && c.state.CompareAndSwap(state, c.next(reading))
}

// frame answers the next frame. An error is why it did not.
func (c *frameConn) frame() (err error) {
	c.exchange = middleware.Exchange{Route: frameRoute, RequestFormat: encoding.Octet.Name(), AnswerFormat: encoding.Octet.Name()}
	ex := &c.exchange
	ex.Clock.Start(middleware.TransitIn)
	c.server.observer.Begin(ex)
	c.count++
	k := c.server.api.newCall(c.server.ctx, ex)
	defer func() {
		if cause := recover(); cause != nil {
			ex.Panicked = true
			c.log.Error("panic", "frame", c.count, "cause", cause, "stack", string(debug.Stack()))
			err = refuse(internal, "a panic")
		}
		k.release()
		if err != nil {
			why := toRefusal(err)
			ex.Rejection, ex.Status, ex.AnswerFormat = string(why.reason), reasons[why.reason].status, ""
			err = why
		}
		ex.Clock.Stop()
		c.server.observer.End(ex)
	}()

	body, err := c.read(k)
	c.in += ex.BytesIn
	if err != nil {
		return err
	}
	ex.Clock.Enter(middleware.Decode)
	c.move(working)
	if err := encoding.Octet.Decode(body, &k.request); err != nil {
		return err
	}
	var reply []byte
	if k.request.Op == encoding.OpEcho {
		ex.Clock.Enter(middleware.Encode)
		reply = encoding.EchoReply(body, len(k.request.Close))
	} else if reply, err = c.sweep(k); err != nil {
		return err
	}
	ex.Clock.Enter(middleware.TransitOut)
	if err := c.write(reply); err != nil {
		return c.gone(err)
	}
	ex.Status, ex.BytesOut = http.StatusOK, int64(len(reply)-encoding.FramePrefix)
	c.out += ex.BytesOut
	return nil
}

// read returns the body of the next frame. It lies in the buffer of the
// connection, or in that of the call.
func (c *frameConn) read(k *call) ([]byte, error) {
	length, err := c.frames.Next()
	if err != nil {
		return nil, c.gone(err)
	}
	limit := c.server.api.config.Limits.BodyBytes
	switch {
	case length > limit:
		return nil, refuse(bodyTooLarge, fmt.Sprintf("the frame announces %d bytes, over the limit of %d", length, limit))
	case !encoding.IsFrameBody(length):
		return nil, refuse(malformedBody, fmt.Sprintf("the frame announces %d bytes; a body has %d, and 8 for each number", length, encoding.MinFrameBody))
	}
	if body, ok := c.frames.Whole(); ok {
		c.exchange.BytesIn = length
		return body, nil
	}
	k.in = newBuffer(smallestBuffer)
	rest := &frameBody{conn: c}
	if err := k.in.read(rest, length, limit, encoding.BodyOffset(encoding.Octet, length), func(n int) error {
		// It is not the peer that keeps the connection waiting.
		c.move(working)
		defer c.move(reading)
		return k.reserved.grow(c.server.ctx, n, &c.exchange)
	}); err != nil {
		return nil, c.gone(err)
	}
	return k.in.bytes, nil
}

// frameBody reads the body of a large frame, and notes how it gets on.
type frameBody struct {
	conn *frameConn
	came int // since the last move
}

// frameStep is how much of a frame must come within the time for one step.
const frameStep = 64 << 10

func (b *frameBody) Read(p []byte) (int, error) {
	n, err := b.conn.frames.Read(p)
	b.conn.exchange.BytesIn += int64(n)
	if b.came += n; b.came >= frameStep {
		b.came = 0
		b.conn.move(reading)
	}
	return n, err
}

// sweep runs the sweep that the call has decoded, and returns the reply.
func (c *frameConn) sweep(k *call) ([]byte, error) {
	p, err := c.server.api.plan(k, nil)
	if err != nil {
		return nil, err
	}
	if err := c.compute(k, p); err != nil {
		return nil, err
	}
	c.exchange.Clock.Enter(middleware.Encode)
	k.out = newBuffer(smallestBuffer)
	k.out.set(encoding.AppendFrameResults(k.out.empty(), &k.results))
	return k.out.bytes, nil
}

// compute runs the plan as long as the peer is there.
func (c *frameConn) compute(k *call, p plan) error {
	ctx, release := c.watched()
	defer release()
	if limit := c.server.api.config.Deadlines.Request; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errDeadline)
		defer cancel()
	}
	return c.server.api.run(ctx, &c.exchange, p, k)
}

// write hands the reply to the operating system.
func (c *frameConn) write(reply []byte) error {
	const step = 1 << 20
	for len(reply) > 0 {
		c.move(writing)
		n, err := c.conn.Write(reply[:min(len(reply), step)])
		if err != nil {
			return err
		}
		reply = reply[n:]
	}
	return nil
}

// gone is the refusal of a frame whose connection has failed.
func (c *frameConn) gone(err error) error {
	var refused *refusal
	if errors.As(err, &refused) { // for want of memory
		return refused
	}
	if c.cut.Load() {
		return &refusal{reason: bodyTooSlow, detail: "the client kept the connection waiting in the middle of a frame", index: -1, cause: err}
	}
	return &refusal{reason: clientGone, detail: "the client went away in the middle of a frame", index: -1, cause: err}
}

// refuse says in the log why the last frame was not served, and closes the
// connection.
func (c *frameConn) refuse(err error) {
	why := toRefusal(err)
	level := slog.LevelInfo // a client's mistake, which only the log can tell of
	if reasons[why.reason].status == http.StatusInternalServerError {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.Int64("frame", c.count), slog.String("rejection", string(why.reason)), slog.String("detail", why.detail)}
	if why.cause != nil {
		attrs = append(attrs, slog.String("cause", why.cause.Error()))
	}
	c.log.LogAttrs(context.Background(), level, "frame refused", attrs...)
	if t, ok := c.conn.(*net.TCPConn); ok && why.reason != clientGone && t.CloseWrite() == nil {
		// To close with bytes unread resets the connection, and that can
		// overtake replies that are still on their way.
		c.move(reading)
		_ = t.SetReadDeadline(time.Now().Add(patience))
		_, _ = io.Copy(io.Discard, t)
	}
	_ = c.conn.Close()
}

// errPeerGone is the cause of the end of a sweep that nobody waits for.
var errPeerGone = errors.New("the client closed the connection")

// watched returns a context that ends with the peer's connection, whatever the
// peer has sent ahead, and a function that ends the watch, after which the
// connection can be read again.
func (c *frameConn) watched() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(c.server.ctx)
	done := make(chan struct{})
	switch conn := c.conn.(type) {
	case interface{ PeerGone() <-chan struct{} }:
		go func() {
			defer close(done)
			select {
			case <-conn.PeerGone():
				cancel(errPeerGone)
			case <-ctx.Done():
			}
		}()
		return ctx, func() { cancel(nil); <-done }
	case syscall.Conn:
		raw, err := conn.SyscallConn()
		if err != nil {
			break
		}
		_, halves := c.conn.(*net.TCPConn)
		go func() {
			defer close(done)
			// Nothing is read: the function is asked again whenever something
			// has happened to the connection.
			err := raw.Read(func(fd uintptr) bool { return hungUp(fd, halves) })
			if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
				cancel(errPeerGone)
			}
		}()
		return ctx, func() {
			_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // ends the read
			<-done
			_ = c.conn.SetReadDeadline(time.Time{})
			cancel(nil)
		}
	}
	return ctx, func() { cancel(nil) }
}
