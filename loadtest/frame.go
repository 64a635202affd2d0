package loadtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"texttax/encoding"
	"texttax/encoding/ring"
)

// Frames is the frame protocol over TCP, a Unix socket, or rings in shared
// memory: the octet format's body after its length, a little-endian uint32, in
// both directions. There is nothing else: no header, no refusals, no phases of
// the server's.
type Frames struct {
	Network string // tcp, unix or shm
	Address string // host:port, or the path of the socket, which shm has too
}

// Name implements Boundary.
func (f *Frames) Name() string { return "frame-" + f.Network }

// Check implements Boundary.
func (f *Frames) Check(c *Call, format Format) error { return checkFrame(c, format) }

// checkFrame tells whether a call can go as a frame: that has room for a
// series and combos, and for nothing by name.
func checkFrame(c *Call, f Format) error {
	switch {
	case f.Codec != encoding.Octet:
		return fmt.Errorf("frames are in the format octet, not %q", f.Name)
	case c.Query != "":
		return errors.New("a frame carries its series: it can't name a preloaded one")
	}
	return nil
}

// Dial implements Boundary.
func (f *Frames) Dial(ctx context.Context) (Conn, error) {
	conn, err := f.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &frameConn{Conn: conn, in: encoding.NewFrameReader(conn, nil)}, nil
}

func (f *Frames) dial(ctx context.Context) (net.Conn, error) {
	if f.Network == "shm" {
		return ring.Dial(ctx, f.Address)
	}
	return new(net.Dialer).DialContext(ctx, f.Network, f.Address)
}

type frameConn struct {
	net.Conn
	in   *encoding.FrameReader
	head []byte
}

// Exchange implements Conn.
func (c *frameConn) Exchange(m *Message, r *Reply) error {
	r.reset()
	if err := c.SetDeadline(time.Now().Add(m.Timeout)); err != nil {
		return err
	}
	c.head = appendFrameHead(c.head[:0], m)
	r.Sent = Now()
	pieces := net.Buffers{c.head, m.Body}
	if len(m.Body) <= maxJoined {
		c.head = append(c.head, m.Body...)
		pieces = net.Buffers{c.head}
	}
	if _, err := pieces.WriteTo(c.Conn); err != nil {
		return err
	}
	return readFrame(c.in, r)
}

// appendFrameHead appends what comes before a message's body: its length, and
// the header that bare closes lack.
func appendFrameHead(dst []byte, m *Message) []byte {
	length := len(m.Body)
	if encoding.IsFrameBody(int64(length)) {
		return binary.LittleEndian.AppendUint32(dst, uint32(length))
	}
	op := encoding.OpSweep
	if m.Call.Endpoint == "echo" {
		op = encoding.OpEcho
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(encoding.MinFrameBody+length))
	return encoding.AppendFrameHeader(dst, op, length/8, 0)
}

// readFrame reads a reply and notes its times.
func readFrame(in *encoding.FrameReader, r *Reply) error {
	if err := in.Await(); err != nil {
		return fmt.Errorf("there is no reply: %w", err)
	}
	r.FirstByte = Now()
	n, err := in.Next()
	if err != nil {
		return fmt.Errorf("the reply broke off in its length: %w", err)
	}
	if n > maxAnswer {
		return fmt.Errorf("the reply claims to have %d bytes", n)
	}
	if r.Body, err = in.AppendBody(r.Body); err != nil {
		return fmt.Errorf("the reply broke off after %d of %d bytes: %w", len(r.Body), n, err)
	}
	r.Done = Now()
	return nil
}

// Spawn is a process per call: it reads one frame from standard input, as
// Frames sends it, and writes one reply to standard output.
type Spawn struct {
	Command []string // with its arguments
	Env     []string // added to this process's environment
}

// Name implements Boundary.
func (s *Spawn) Name() string { return "spawn" }

// Check implements Boundary.
func (s *Spawn) Check(c *Call, f Format) error { return checkFrame(c, f) }

// Dial implements Boundary. There is nothing to dial before the first call.
func (s *Spawn) Dial(context.Context) (Conn, error) {
	if len(s.Command) == 0 {
		return nil, errors.New("there is no command to spawn")
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &spawnConn{spawn: s, ctx: ctx, cancel: cancel}, nil
}

type spawnConn struct {
	spawn  *Spawn
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	head   []byte
}

// Exchange implements Conn.
func (c *spawnConn) Exchange(m *Message, r *Reply) error {
	r.reset()
	c.head = appendFrameHead(c.head[:0], m)
	ctx, cancel := context.WithTimeout(c.ctx, m.Timeout)
	defer cancel()
	process := exec.CommandContext(ctx, c.spawn.Command[0], c.spawn.Command[1:]...)
	process.Env = append(os.Environ(), c.spawn.Env...)
	process.Stdin = io.MultiReader(bytes.NewReader(c.head), bytes.NewReader(m.Body))
	var complaint strings.Builder
	process.Stderr = &complaint
	stdout, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	r.Sent = Now()
	if err := process.Start(); err != nil {
		return err
	}
	reading := readFrame(encoding.NewFrameReader(stdout, nil), r)
	err = process.Wait()
	r.Done = Now() // a call is over when its process is
	switch {
	case ctx.Err() != nil:
		return os.ErrDeadlineExceeded
	case err != nil:
		return fmt.Errorf("%s: %w: %.200s", strings.Join(c.spawn.Command, " "), err, strings.TrimSpace(complaint.String()))
	}
	return reading
}

func (c *spawnConn) Close() error {
	c.cancel()
	return nil
}
