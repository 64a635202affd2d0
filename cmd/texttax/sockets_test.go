//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"texttax/encoding"
)

// overSocket returns a client that reaches every host by the socket at path.
func overSocket(t testing.TB, path string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// servesOver checks that HTTP is served on the socket at path.
func servesOver(t testing.TB, path string) {
	t.Helper()
	r, err := overSocket(t, path).Post("http://localhost/sweep?dataset=gbm42&lengths=6", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || !strings.HasPrefix(string(body), `{"pnl":[-5165.584357716994]`) {
		t.Errorf("status %d, %v: %.200s", r.StatusCode, err, body)
	}
}

// leaveStale makes a socket at path that nobody listens on.
func leaveStale(t testing.TB, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func serveError(args ...string) string {
	if err := run(context.Background(), append([]string{"serve"}, args...), io.Discard, io.Discard); err != nil {
		return err.Error()
	}
	return ""
}

func TestUnixSocketsServeBesideTCPAndAreRemovedAtTheEnd(t *testing.T) {
	folder := socketFolder(t)
	public, second, admin := filepath.Join(folder, "public"), filepath.Join(folder, "second"), filepath.Join(folder, "admin")
	s := start(t, "--listen", "unix:"+public, "--listen", "unix:"+second, "--admin-listen", "unix:"+admin, "--socket-mode", "0620")
	servesOver(t, public)
	servesOver(t, second)
	if !strings.HasPrefix(s.admin, "unix:"+admin+" (curl --unix-socket "+admin+" ") {
		t.Errorf("the printed address is %s", s.admin)
	}
	r, err := overSocket(t, admin).Get("http://localhost/readyz")
	if err != nil || r.StatusCode != 200 {
		t.Fatal(r, err)
	}
	_ = r.Body.Close()
	if r := ask(t, "GET", s.url+"/version", nil); r.status != 200 {
		t.Errorf("status %d over TCP", r.status)
	}
	for _, path := range []string{public, second, admin} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o620 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestASocketIsPrivateByDefault(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	s := start(t, "--listen", "unix:"+path)
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if strings.Contains(s.log.String(), "no authentication") {
		t.Errorf("nobody else can connect, and yet the log warns:\n%s", s.log)
	}
	if s := start(t, "--listen", "unix:"+path+"2", "--socket-mode", "0666"); !strings.Contains(s.log.String(), "no authentication") {
		t.Error("anybody can connect, and nobody is warned")
	}
}

func TestALiveSocketIsRefusedAndUnharmed(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	start(t, "--listen", "unix:"+path)
	for _, flag := range []string{"--listen", "--admin-listen"} {
		if err := serveError("--listen", "127.0.0.1:0", flag, "unix:"+path); !strings.Contains(err, path) || !strings.Contains(err, "another process serves there") {
			t.Errorf("%s: %s", flag, err)
		}
	}
	servesOver(t, path)
}

func TestWhatIsNoStaleSocketIsLeftAlone(t *testing.T) {
	folder := socketFolder(t)
	file, dir, link := filepath.Join(folder, "file"), filepath.Join(folder, "dir"), filepath.Join(folder, "link")
	stale := filepath.Join(folder, "stale")
	leaveStale(t, stale)
	for _, err := range []error{os.WriteFile(file, []byte("precious"), 0o400), os.Mkdir(dir, 0o700), os.Symlink(stale, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{file, dir, link} {
		before, _ := os.Lstat(path)
		if err := serveError("--listen", "unix:"+path); !strings.Contains(err, "no socket") {
			t.Errorf("%s: %s", path, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || before.ModTime() != after.ModTime() {
			t.Errorf("%s has changed: %v", path, err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	for _, path := range []string{filepath.Join(folder, "none", "s"), filepath.Join(folder, strings.Repeat("x", 200))} {
		if err := serveError("--listen", "unix:"+path); err == "" {
			t.Errorf("%s was taken", path)
		}
	}
	for _, wrong := range []string{"unix:", "unix:@abstract", "shm:" + stale} {
		err := run(context.Background(), []string{"serve", "--listen", wrong}, io.Discard, io.Discard)
		if exitStatus(err) != 2 {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestAFailedStartRemovesWhatItHasMade(t *testing.T) {
	folder := socketFolder(t)
	busy := start(t)
	err := serveError("--listen", "unix:"+filepath.Join(folder, "s"), "--listen", strings.TrimPrefix(busy.url, "http://"))
	if !strings.Contains(err, "address already in use") {
		t.Errorf("%s", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestOfManyStartersOnAStaleSocketOneWins(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	for range 20 {
		leaveStale(t, path)
		var winner atomic.Pointer[net.Listener]
		var starters sync.WaitGroup
		for range 8 {
			starters.Go(func() {
				l, err := listenUnix(t.Context(), path, 0o600)
				if errors.Is(err, errLive) {
					return
				}
				if err != nil || !winner.CompareAndSwap(nil, &l) {
					t.Errorf("another winner, or another error: %v", err)
				}
			})
		}
		starters.Wait()
		l := *winner.Load()
		accepted := make(chan error, 1)
		go func() {
			c, err := l.Accept()
			for err == nil { // those who looked whether it lives come first
				if n, _ := c.Read(make([]byte, 1)); n == 1 {
					break
				}
				_ = c.Close()
				c, err = l.Accept()
			}
			accepted <- err
		}()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheEndDoesNotRemoveTheSocketOfASuccessor(t *testing.T) {
	path := filepath.Join(socketFolder(t), "s")
	first := start(t, "--listen", "unix:"+path)
	if err := os.Remove(path); err != nil { // somebody tidies up
		t.Fatal(err)
	}
	start(t, "--listen", "unix:"+path)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	servesOver(t, path)
}

func TestAKilledServerStartsAgainOnItsSocket(t *testing.T) {
	binary, path := buildBinary(t), filepath.Join(socketFolder(t), "s")
	for range 3 {
		p := startProcess(t, binary, "--listen", "unix:"+path)
		servesOver(t, path)
		p.signal(t, syscall.SIGKILL)
		if err := <-p.ended; err == nil {
			t.Fatal("it ended well")
		}
		if _, err := os.Lstat(path); err != nil {
			t.Fatalf("there is no stale socket to test with: %v", err)
		}
	}
	p := startProcess(t, binary, "--listen", "unix:"+path, "--drain-delay", "0s")
	servesOver(t, path)
	p.signal(t, syscall.SIGTERM)
	if err := <-p.ended; err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// A connection that is beyond the limit waits while the others are in use, and
// is served when there is room.
func TestOnlySoManyConnectionsAreTaken(t *testing.T) {
	frames := filepath.Join(t.TempDir(), "frames")
	s := start(t, "--connections-max", "3", "--frame-listen", "unix:"+frames)
	const (
		post  = "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n"
		goOn  = "HTTP/1.1 100 Continue\r\n\r\n"
		reply = 4 + 8 // bytes
	)
	request := frame(t, encoding.OpEcho, []float64{1})
	take := func(c net.Conn, n int) error {
		_, err := io.ReadFull(c, make([]byte, n))
		return err
	}
	for _, of := range []struct {
		network, at string
		begin, end  string // of a request
		begun       func(net.Conn) error
		answer      func(net.Conn) error
	}{
		{"tcp", strings.TrimPrefix(s.url, "http://"), post, "12345678",
			func(c net.Conn) error { return take(c, len(goOn)) },
			func(c net.Conn) error {
				r, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err == nil {
					_, err = io.Copy(io.Discard, r.Body)
				}
				return err
			}},
		{"unix", frames, string(request[:8]), string(request[8:]),
			func(net.Conn) error { return nil },
			func(c net.Conn) error { return take(c, reply) }},
	} {
		send := func(c net.Conn, text string) {
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
		}
		connect := func() net.Conn {
			c, err := net.Dial(of.network, of.at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			send(c, of.begin)
			return c
		}
		var taken []net.Conn
		for range 3 {
			c := connect()
			if err := of.begun(c); err != nil {
				t.Fatal(err)
			}
			taken = append(taken, c)
		}
		for range 3 { // places come free again and again
			next := connect()
			_ = next.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if err := take(next, 1); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: one too many: %v", of.network, err)
			}
			_ = next.SetReadDeadline(time.Time{})
			send(taken[0], of.end)
			if err := of.answer(taken[0]); err != nil {
				t.Errorf("%s: who was in: %v", of.network, err)
			}
			_ = taken[0].Close()
			if err := of.begun(next); err != nil {
				t.Errorf("%s: when there is room: %v", of.network, err)
			}
			taken = append(taken[1:], next)
		}
		for _, c := range taken {
			send(c, of.end)
			if err := of.answer(c); err != nil {
				t.Errorf("%s: in the end: %v", of.network, err)
			}
		}
	}
	if log := s.log.String(); strings.Count(log, "further ones wait") != 2 {
		t.Errorf("the log says\n%s", log)
	}
}

// The connection that has been idle for longest makes room first, and one after
// the other does.
func TestTheLongestIdleConnectionIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &httpServer{idle: map[net.Conn]time.Time{}, places: make(chan struct{}, 5)}
		conns, ended := make([]net.Conn, 5), make([]bool, 5)
		for i := range conns {
			conn, peer := net.Pipe()
			conns[i] = conn
			go func() {
				_, _ = peer.Read(make([]byte, 1))
				ended[i] = true
			}()
			s.places <- struct{}{}
			s.track(conn, http.StateNew)
			s.track(conn, http.StateActive)
		}
		evict := func(want ...bool) {
			t.Helper()
			s.evict(time.Now())
			synctest.Wait()
			if !slices.Equal(ended, want) {
				t.Errorf("ended are %v, not %v", ended, want)
			}
		}
		for _, i := range []int{2, 0, 4, 1} {
			time.Sleep(time.Millisecond)
			s.track(conns[i], http.StateIdle)
		}
		s.track(conns[0], http.StateActive)
		evict(false, false, false, false, false) // none has been idle for long enough
		time.Sleep(idleBefore + time.Millisecond)
		evict(false, false, true, false, false)
		evict(false, false, true, false, false) // the server has yet to see it
		s.track(conns[2], http.StateClosed)
		evict(false, false, true, false, true)
		s.track(conns[4], http.StateClosed)
		evict(false, true, true, false, true)
		s.track(conns[1], http.StateClosed)
		evict(false, true, true, false, true) // the others are in use
		if len(s.places) != 2 {
			t.Errorf("%d places are taken", len(s.places))
		}
		s.track(conns[0], http.StateClosed)
		s.track(conns[3], http.StateClosed)
		_, _ = conns[0].Close(), conns[3].Close()
	})
}

// An idle connection makes room for a new one; and a server that is full stops
// as any other.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	s := start(t, "--connections-max", "3")
	use := func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		return err
	}
	var conns []*net.TCPConn
	for range 5 {
		c := dial(t, s.url)
		if err := use(c); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	var left []*net.TCPConn
	for _, c := range conns {
		if use(c) == nil {
			left = append(left, c)
		}
	}
	if len(left) != 3 || left[2] != conns[4] {
		t.Errorf("%d of 5 connections are left", len(left))
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	for _, c := range left {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an idle connection ends with %v", err)
		}
	}
	// Full of requests that go on, with one more at the door.
	s = start(t, "--connections-max", "2")
	held := []*heldRequest{hold(t, s.url), hold(t, s.url)}
	waiting := dial(t, s.url)
	waitFor(t, "the third to wait", func() bool { return strings.Contains(s.log.String(), "further ones wait") })
	stopped := make(chan error)
	go func() { stopped <- s.stop() }()
	if _, err := waiting.Read(make([]byte, 1)); err == nil {
		t.Error("the third got an answer")
	}
	for _, h := range held {
		h.finish(t)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
