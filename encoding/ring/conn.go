//go:build linux

package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one end of a connection. It is a net.Conn: reads and writes may go on
// at the same time, have deadlines, and are ended by Close. What has been
// written before a Close can be read by the peer after it.
type Conn struct {
	path string
	sock *net.UnixConn
	raw  syscall.RawConn // of sock

	// Whoever holds a mutex may use the memory, unless closed is set.
	reading, writing sync.Mutex
	memory           []byte
	in               reader
	out              writer
	inSpin, outSpin  spin

	spinners                    int32         // that may spin at a time, with this one
	readable, writable          chan struct{} // one token: look again
	readDeadline, writeDeadline *deadline

	isGone   atomic.Bool
	gone     chan struct{} // closed when the peer has gone, or we have
	isClosed atomic.Bool
	closed   chan struct{}
}

var _ net.Conn = (*Conn)(nil)

// hello is the message that carries the descriptor.
var hello = [8]byte{'t', 'e', 'x', 't', 't', 'a', 'x', 1}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Addr is the address of a ring: the path of the socket where it is offered.
type Addr string

// Network is shm.
func (Addr) Network() string  { return "shm" }
func (a Addr) String() string { return string(a) }

// listener offers rings to those who connect to a socket.
type listener struct {
	net.Listener
	size int
}

// NewListener returns a listener whose connections are rings of so many bytes,
// a power of two of at least a page. They are offered to everybody who connects
// to sockets, which must be a listener for a Unix socket.
func NewListener(sockets net.Listener, size int) (net.Listener, error) {
	if size < page || size > maxSize || size&(size-1) != 0 {
		return nil, fmt.Errorf("ring: a ring has a power of two of bytes, from %d to %d, not %d", page, maxSize, size)
	}
	return &listener{sockets, size}, nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return Addr(l.Listener.Addr().String()) }

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		sock, ok := accepted.(*net.UnixConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("ring: a connection by %T is not one over a Unix socket", accepted), accepted.Close())
		}
		c, err := offer(sock, l.Addr().String(), l.size)
		if err == nil {
			return c, nil
		}
		_ = sock.Close()
		if !errors.Is(err, errPeer) {
			return nil, err
		}
	}
}

// errPeer marks failures that are those of one connection.
var errPeer = errors.New("the peer has gone")

// offer makes the memory for a connection, and sends its descriptor.
func offer(sock *net.UnixConn, path string, size int) (*Conn, error) {
	fd, err := unix.MemfdCreate("texttax-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(total(size))); err != nil {
		return nil, os.NewSyscallError("ftruncate", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	c, err := newConn(sock, path, fd, size, 1)
	if err != nil {
		return nil, err
	}
	message := binary.LittleEndian.AppendUint64(hello[:], uint64(size))
	_ = sock.SetWriteDeadline(time.Now().Add(patience)) // a new socket has room
	if _, _, err := sock.WriteMsgUnix(message, unix.UnixRights(fd), nil); err != nil {
		_ = unix.Munmap(c.memory)
		return nil, fmt.Errorf("%w: %w", errPeer, err)
	}
	_ = sock.SetWriteDeadline(time.Time{})
	go c.listen()
	return c, nil
}

// patience is how long a peer may take to offer memory.
const patience = 5 * time.Second

// Dial connects to the rings that are offered at path.
func Dial(ctx context.Context, path string) (*Conn, error) {
	dialed, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	sock := dialed.(*net.UnixConn)
	c, err := take(sock, path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ring: %s: %w", path, err), sock.Close())
	}
	go c.listen()
	return c, nil
}

// take receives the descriptor of the memory, and maps it.
func take(sock *net.UnixConn, path string) (*Conn, error) {
	message, rights := make([]byte, len(hello)+8), make([]byte, unix.CmsgSpace(4))
	_ = sock.SetReadDeadline(time.Now().Add(patience))
	n, rightsLen, _, _, err := sock.ReadMsgUnix(message, rights)
	if err != nil {
		return nil, err
	}
	_ = sock.SetReadDeadline(time.Time{})
	fd, err := descriptor(rights[:rightsLen])
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	size := binary.LittleEndian.Uint64(message[len(hello):])
	if n != len(message) || [8]byte(message) != hello || size < page || size > maxSize || size&(size-1) != 0 {
		return nil, fmt.Errorf("what is offered there are no rings: %x", message[:n])
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	sealed, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || sealed&seals != seals || stat.Size != int64(total(int(size))) {
		return nil, errors.New("the memory that is offered there is not sealed, or has another size than announced")
	}
	return newConn(sock, path, fd, int(size), 0)
}

// descriptor returns the one descriptor in a control message.
func descriptor(rights []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return 0, errors.New("no memory is offered there")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	if len(fds) != 1 {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		return 0, fmt.Errorf("%d descriptors are offered there, not one", len(fds))
	}
	return fds[0], nil
}

// newConn maps the memory. Of its two rings, in is the one to read from.
func newConn(sock *net.UnixConn, path string, fd, size, side int) (*Conn, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(fd, 0, total(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	in, out := 1-side, side
	return &Conn{
		path: path, sock: sock, raw: raw, memory: memory,
		in:       reader{shared: positionsAt(memory, in), bytes: bytesAt(memory, in, size)},
		out:      writer{shared: positionsAt(memory, out), bytes: bytesAt(memory, out, size)},
		spinners: mostSpinners(),
		inSpin:   spin{length: spinMost}, outSpin: spin{length: spinMost},
		readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
		readDeadline: newDeadline(), writeDeadline: newDeadline(),
		gone: make(chan struct{}), closed: make(chan struct{}),
	}, nil
}

// listen waits on the socket for wake-ups and for its end.
func (c *Conn) listen() {
	var bells [64]byte
	for {
		_, err := c.sock.Read(bells[:])
		if err != nil {
			c.isGone.Store(true)
			close(c.gone)
			return
		}
		// A byte does not say whom it wakes: where the socket is full of them,
		// the one that is left out would be missed.
		for _, sleeper := range []chan struct{}{c.readable, c.writable} {
			select {
			case sleeper <- struct{}{}:
			default:
			}
		}
	}
}

// wake rings at the peer if it sleeps, as its flag says.
func (c *Conn) wake(sleeps *atomic.Uint32) {
	if sleeps.Load() == 0 {
		return
	}
	sleeps.Store(0)
	// Without waiting: if there is no room for a byte, others wake the peer.
	_ = c.raw.Write(func(fd uintptr) bool {
		_ = unix.Sendto(int(fd), hello[:1], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		return true
	})
}

// Read implements net.Conn. At the end of a peer it returns io.EOF, once
// everything that the peer has written is read.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		switch {
		case c.isClosed.Load():
			return 0, c.failure("read", net.ErrClosed)
		case c.readDeadline.past.Load():
			return 0, c.failure("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		}
		gone := c.isGone.Load() // before the look: it wrote before it went
		n, err := c.in.read(p)
		switch {
		case err != nil:
			return 0, c.abort("read", err)
		case n > 0:
			c.wake(&c.in.shared.writerSleeps)
			return n, nil
		case gone:
			return 0, io.EOF
		}
		c.await(c.in.arrived, &c.inSpin, &c.in.shared.readerSleeps, c.readable, c.readDeadline)
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	written := 0
	for {
		switch {
		case c.isClosed.Load():
			return written, c.failure("write", net.ErrClosed)
		case c.writeDeadline.past.Load():
			return written, c.failure("write", os.ErrDeadlineExceeded)
		case c.isGone.Load():
			return written, c.failure("write", syscall.EPIPE)
		case written == len(p):
			return written, nil
		}
		n, err := c.out.write(p[written:])
		if err != nil {
			return written, c.abort("write", err)
		}
		if n > 0 {
			written += n
			c.wake(&c.out.shared.readerSleeps)
			if written == len(p) {
				return written, nil
			}
			continue
		}
		c.await(c.out.freed, &c.outSpin, &c.out.shared.writerSleeps, c.writable, c.writeDeadline)
	}
}

// arrived tells whether the writer has published anything new.
func (r *reader) arrived() bool { return r.shared.tail.Load() != r.tail }

// freed tells whether the reader has published anything new.
func (w *writer) freed() bool { return w.shared.head.Load() != w.head }

// spin is how long a side looks for its peer's next move before it sleeps. It
// learns: a look in vain halves the next one, down to next to nothing, and one
// that was not makes it whole again. So a core is spun on only while peers
// answer each other at once, and not where they share it, and one can't answer
// while the other looks.
type spin struct {
	length time.Duration
	count  uint
}

const (
	// spinMost must be more than it takes to wake a peer, 10 to 100 us: or two
	// sides that have once slept would wait for each other's waking, and sleep
	// at every message from then.
	spinMost  = 200 * time.Microsecond
	spinLeast = 2 * time.Microsecond
	// spinProbe is the number of looks of which one is of full length: it finds
	// out whether the peer has got a core of its own.
	spinProbe = 16
	// yieldAfter is how long a look keeps its core to itself. Then it gives it up
	// once: on a busy machine the peer may be waiting for this very core. To do so
	// again and again makes Linux put the thread behind all others, by a time slice
	// each.
	yieldAfter = 4 * time.Microsecond
	// looks is how many times it looks between two looks at the clock.
	looks = 64
)

// next returns the length of the next look.
func (s *spin) next() time.Duration {
	if s.count++; s.count%spinProbe == 0 {
		return spinMost
	}
	return s.length
}

// learn notes how the look ended.
func (s *spin) learn(moved bool) {
	if moved {
		s.length = spinMost
	} else {
		s.length = max(s.length/2, spinLeast)
	}
}

// spinners counts those who spin in this process.
var spinners atomic.Int32

// mostSpinners leaves a processor to everybody else in this process where it
// has two.
func mostSpinners() int32 { return max(1, int32(runtime.GOMAXPROCS(0))-1) }

// await returns when there is a reason to look again: the peer has moved, or
// the connection or its deadline is over, or there is none.
func (c *Conn) await(moved func() bool, spin *spin, sleeps *atomic.Uint32, bell <-chan struct{}, d *deadline) {
	if spinners.Add(1) <= c.spinners {
		began, length, yielded := time.Now(), spin.next(), false
		for spun := time.Duration(0); spun < length && !c.isGone.Load() && !c.isClosed.Load(); spun = time.Since(began) {
			for range looks {
				if moved() {
					spinners.Add(-1)
					spin.learn(true)
					return
				}
			}
			if spun > yieldAfter && !yielded {
				yielded = true
				_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
			}
		}
		spin.learn(false)
	}
	spinners.Add(-1)
	// The peer publishes first and looks at the flag then, we the other way
	// around: one of the two sees the other. It takes Swap here and there: under
	// the race detector a Store into memory that is not Go's only releases, and
	// the look that follows may overtake it.
	sleeps.Swap(1)
	if !moved() && !c.isGone.Load() {
		select {
		case <-bell:
		case <-c.gone:
		case <-c.closed:
		case <-d.wait():
		}
	}
	sleeps.Store(0)
}

// PeerGone returns a channel that is closed when the peer has gone, whatever is
// still to be read of it.
func (c *Conn) PeerGone() <-chan struct{} { return c.gone }

// abort ends the connection with a peer that breaks its rules.
func (c *Conn) abort(op string, err error) error {
	_ = c.sock.Close()
	return c.failure(op, err)
}

func (c *Conn) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "shm", Addr: Addr(c.path), Err: err}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.isClosed.Swap(true) {
		return c.failure("close", net.ErrClosed)
	}
	close(c.closed)
	err := c.sock.Close()
	// Nobody uses the memory any more once both have left.
	c.reading.Lock()
	defer c.reading.Unlock()
	c.writing.Lock()
	defer c.writing.Unlock()
	return errors.Join(err, unix.Munmap(c.memory))
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return Addr(c.path) }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return Addr(c.path) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(c.readDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(c.writeDeadline, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	if c.isClosed.Load() {
		return c.failure("set", net.ErrClosed)
	}
	d.set(t)
	return nil
}
