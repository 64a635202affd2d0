//go:build linux

package ring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"golang.org/x/sys/unix"
)

// sockets listens on a socket of its own.
func sockets(t testing.TB) net.Listener {
	t.Helper()
	folder, err := os.MkdirTemp("", "ring") // t's own name may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		_ = os.RemoveAll(folder)
	})
	return l
}

func connect(t testing.TB, size int) (client, server *Conn) {
	t.Helper()
	l, err := NewListener(sockets(t), size)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err = Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server = (<-accepted).(*Conn)
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

func TestARingIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		client, server := connect(t, page)
		return client, server, func() { _, _ = client.Close(), server.Close() }, nil
	})
}

func TestLongStreamsPassBothWaysAtOnce(t *testing.T) {
	client, server := connect(t, page)
	const length = 3_000_000
	var all sync.WaitGroup
	send := func(c *Conn, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		for sent := 0; sent < length; {
			piece := make([]byte, min(length-sent, 1+r.IntN(20_000)))
			for i := range piece {
				piece[i] = byte((sent + i) * int(seed) >> 3)
			}
			if _, err := c.Write(piece); err != nil {
				t.Error(err)
				return
			}
			sent += len(piece)
			if r.IntN(50) == 0 {
				time.Sleep(time.Millisecond) // long enough for the peer to sleep
			}
		}
	}
	receive := func(c *Conn, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		for got := 0; got < length; {
			piece := make([]byte, 1+r.IntN(20_000))
			n, err := c.Read(piece)
			if err != nil {
				t.Error(err)
				return
			}
			for i, b := range piece[:n] {
				if want := byte((got + i) * int(seed) >> 3); b != want {
					t.Errorf("byte %d is %d, not %d", got+i, b, want)
					return
				}
			}
			got += n
			if r.IntN(50) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	all.Go(func() { send(client, 3) })
	all.Go(func() { send(server, 5) })
	all.Go(func() { receive(client, 5) })
	all.Go(func() { receive(server, 3) })
	all.Wait()
}

func TestWhatWasWrittenBeforeTheEndIsReadAfterIt(t *testing.T) {
	client, server := connect(t, page)
	if _, err := server.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	<-client.PeerGone()
	if got, err := io.ReadAll(client); err != nil || string(got) != "last words" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := client.Write([]byte("?")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("writing to nobody: %v", err)
	}
}

func TestADeadPeerEndsWhatWaitsForIt(t *testing.T) {
	client, server := connect(t, page)
	ended := make(chan error, 2)
	go func() {
		_, err := server.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		_, err := server.Write(make([]byte, 2*page))
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond) // until both sleep
	_ = client.sock.Close()           // as the system does for a process that dies
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, io.EOF) && !errors.Is(err, unix.EPIPE) {
				t.Errorf("%v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it waits on")
		}
	}
}

func TestAPeerThatForgesPositionsLosesItsConnection(t *testing.T) {
	for _, forged := range []uint64{1 << 20, 1 << 63, ^uint64(2 * page)} {
		client, server := connect(t, page)
		client.out.shared.tail.Store(forged)
		if n, err := server.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errCorrupt) {
			t.Errorf("%d bytes, %v", n, err)
		}
		<-client.PeerGone()
		client, server = connect(t, page)
		client.in.shared.head.Store(forged)
		if n, err := server.Write(make([]byte, 2*page)); n > page || !errors.Is(err, errCorrupt) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// A peer that changes positions and flags without end must do no harm, under
// whatever the server is doing.
func TestAPeerThatScribblesDoesNoHarm(t *testing.T) {
	for seed := range uint64(20) {
		client, server := connect(t, page)
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, p := range []*positions{client.in.shared, client.out.shared} {
					switch r.IntN(5) {
					case 0:
						p.tail.Store(r.Uint64() >> r.IntN(64))
					case 1:
						p.head.Store(r.Uint64() >> r.IntN(64))
					case 2:
						p.readerSleeps.Store(r.Uint32())
					case 3:
						p.writerSleeps.Store(r.Uint32())
					case 4:
						_, _ = client.sock.Write(make([]byte, 100))
					}
				}
			}
		})
		deadline := time.Now().Add(20 * time.Millisecond)
		_ = server.SetDeadline(deadline)
		all.Go(func() { _, _ = io.Copy(io.Discard, server) })
		all.Go(func() {
			for {
				if _, err := server.Write(make([]byte, 777)); err != nil {
					return
				}
			}
		})
		time.Sleep(time.Until(deadline) + 10*time.Millisecond)
		_ = server.Close()
		close(stop)
		all.Wait()
	}
}

func TestTheMemoryCannotBeResized(t *testing.T) {
	l, err := NewListener(sockets(t), page)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = l.Accept() }()
	sock, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := sock.(*net.UnixConn).ReadMsgUnix(make([]byte, 16), rights)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := descriptor(rights[:n])
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, size := range []int64{0, page, 1 << 30} {
		if err := unix.Ftruncate(fd, size); err == nil {
			t.Errorf("its size became %d", size)
		}
	}
}

func TestWhatIsNoRingIsRefused(t *testing.T) {
	valid := binary.LittleEndian.AppendUint64(hello[:], page)
	memory := func(size int64, sealed int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sealed); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for name, c := range map[string]struct {
		message []byte
		fds     []int
	}{
		"no descriptor":     {valid, nil},
		"two":               {valid, []int{memory(int64(total(page)), seals), memory(int64(total(page)), seals)}},
		"not sealed":        {valid, []int{memory(int64(total(page)), 0)}},
		"too small":         {valid, []int{memory(page, seals)}},
		"another greeting":  {append([]byte("HTTP/1.1"), valid[8:]...), []int{memory(int64(total(page)), seals)}},
		"a size of 2^63":    {binary.LittleEndian.AppendUint64(hello[:], 1<<63), []int{memory(int64(total(page)), seals)}},
		"a size of 5000":    {binary.LittleEndian.AppendUint64(hello[:], 5000), []int{memory(int64(total(5000)), seals)}},
		"a short greeting":  {valid[:10], []int{memory(int64(total(page)), seals)}},
		"a pipe for memory": {valid, []int{0}},
	} {
		l := sockets(t)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _, _ = conn.(*net.UnixConn).WriteMsgUnix(c.message, unix.UnixRights(c.fds...), nil)
			_ = conn.Close()
		}()
		if _, err := Dial(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
			t.Errorf("%s: %v", name, err)
		}
		for _, fd := range c.fds {
			if fd > 2 {
				_ = unix.Close(fd)
			}
		}
	}
}

func TestAListenerSurvivesPeersThatLeaveAtOnce(t *testing.T) {
	l, err := NewListener(sockets(t), page)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		sock, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = sock.Close()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			if n, err := c.Read(make([]byte, 1)); n == 1 && err == nil {
				_ = c.Close()
				return
			}
			_ = c.Close()
		}
	}()
	c, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestConnectionsLeaveNothingBehind(t *testing.T) {
	open := func() (int, int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds), bytes.Count(maps, []byte("texttax-ring"))
	}
	fds, maps := open()
	goroutines := runtime.NumGoroutine()
	for range 20 {
		t.Run("", func(t *testing.T) {
			client, server := connect(t, Size)
			if _, err := client.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			_, _ = client.Close(), server.Close()
		})
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if f, m := open(); f > fds || m > maps || runtime.NumGoroutine() > goroutines {
		t.Errorf("%d descriptors have become %d, %d mappings %d, %d goroutines %d", fds, f, maps, m, goroutines, runtime.NumGoroutine())
	}
}

func TestOnlySizesThatWorkAreTaken(t *testing.T) {
	for _, size := range []int{-1, 0, 1, 2048, 5000, 3 * page, 2 * maxSize} {
		if _, err := NewListener(nil, size); err == nil {
			t.Errorf("%d bytes are a ring", size)
		}
	}
	if _, err := Dial(context.Background(), filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}

// A look in vain makes the next one shorter, but for one in sixteen, and a look
// that is not makes it whole again.
func TestASideLearnsHowLongToLook(t *testing.T) {
	s := spin{length: spinMost}
	var got []time.Duration
	for range 2 * spinProbe {
		got = append(got, s.next())
		s.learn(false)
	}
	us := time.Microsecond
	if want := []time.Duration{200 * us, 100 * us, 50 * us, 25 * us, 12500, 6250, 3125, 2 * us, 2 * us}; !slices.Equal(got[:len(want)], want) {
		t.Errorf("in vain it looks for %v", got)
	}
	for i, length := range got[9:] {
		if full := (9+i)%spinProbe == spinProbe-1; (length == spinMost) != full {
			t.Errorf("look %d is one of %v", 9+i, length)
		}
	}
	s.learn(true)
	if got := s.next(); got != spinMost {
		t.Errorf("after the peer has moved it looks for %v", got)
	}
}
