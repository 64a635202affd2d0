package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"texttax/encoding"
	"texttax/encoding/ring"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// leaveRings is a peer in shared memory that sends a frame, a mutated one or a
// part of one, and goes away, or first takes some of the reply.
func leaveRings(t testing.TB, at string, rng *rand.Rand, good []byte) error {
	c, err := ring.Dial(t.Context(), at)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(hang(t)))
	sent := good
	switch rng.IntN(3) {
	case 0:
		sent = mutate(rng, good, good)
	case 1:
		sent = good[:rng.IntN(len(good))]
	}
	if _, err := c.Write(sent); err != nil || rng.IntN(2) == 0 {
		return nil // the server may have closed what is malformed
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(5)) * time.Millisecond)) // a part of a frame has no reply
	_, _ = io.CopyN(io.Discard, c, int64(rng.IntN(4000)))
	return nil
}

// scribbleRings is a peer that keeps to no rule of the rings: it writes whatever
// it likes anywhere in the memory that both share, and rings the bell.
func scribbleRings(at string, rng *rand.Rand, good []byte) error {
	sock, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return err
	}
	defer sock.Close()
	hello, rights := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	n, rightsLen, _, _, err := sock.ReadMsgUnix(hello, rights)
	if err != nil || n != len(hello) {
		return fmt.Errorf("no rings are offered: %d bytes, %v", n, err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rightsLen])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("%d descriptors, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	var stat unix.Stat_t
	if err := unix.Fstat(fds[0], &stat); err != nil {
		return err
	}
	memory, err := unix.Mmap(fds[0], 0, int(stat.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(memory) }()
	const positions, rings = 1024, 4096 // where the bytes of the first ring begin
	copy(memory[rings:], good)
	for range 1 + rng.IntN(20) {
		switch word := memory[8*rng.IntN(positions/8):]; rng.IntN(5) {
		case 0: // as if some of a frame had been written, or read
			binary.LittleEndian.PutUint64(word, uint64(rng.IntN(2*len(good))))
		case 1:
			binary.LittleEndian.PutUint64(word, rng.Uint64())
		case 2:
			binary.LittleEndian.PutUint64(word, binary.LittleEndian.Uint64(word)+uint64(rng.IntN(7))-3)
		case 3:
			memory[rings+rng.IntN(len(memory)-rings)] = byte(rng.Uint32())
		case 4: // the first ring is the one to the server
			binary.LittleEndian.PutUint64(memory, uint64(rng.IntN(len(good)+1)))
		}
		_, _ = sock.Write([]byte{0})
		if rng.IntN(4) == 0 {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
		}
	}
	return nil
}

func TestFaultsPeersInSharedMemoryHarmNobodyElse(t *testing.T) {
	at := filepath.Join(t.TempDir(), "rings")
	x := startTarget(t, "--work-max", "20000000", "--frame-listen", "shm:"+at, "--log-level", "error")
	series := gbm42.Close()[:300]
	combos := []kernel.Params{kernel.Expand(6), kernel.Expand(9)}
	var res kernel.Results
	if err := kernel.Sweep(t.Context(), series, combos, kernel.DefaultFee, 1, &res); err != nil {
		t.Fatal(err)
	}
	want, err := encoding.Octet.AppendResults(nil, &res)
	if err != nil {
		t.Fatal(err)
	}
	sweep := frame(t, encoding.OpSweep, series, combos...)

	n := times(t, 1000, 100_000)
	const workers = 4
	var all sync.WaitGroup
	var done atomic.Bool
	var answered atomic.Int64
	good := dialFrames(t, "shm:"+at)
	all.Go(func() {
		for !done.Load() {
			_ = good.SetDeadline(time.Now().Add(time.Minute))
			if _, err := good.Write(sweep); err != nil {
				t.Error(err)
				return
			}
			if got, err := good.reply(); err != nil || !bytes.Equal(got, want) {
				t.Errorf("a good peer gets %x, %v", got, err)
				return
			}
			answered.Add(1)
		}
	})
	atATime(t, workers, n, 9, func(rng *rand.Rand) error {
		if rng.IntN(2) == 0 {
			return leaveRings(t, at, rng, sweep)
		}
		return scribbleRings(at, rng, sweep)
	})
	done.Store(true)
	all.Wait()
	_ = good.Close()
	t.Logf("%d peers that broke the rules; %d good sweeps beside", n, answered.Load())
	if answered.Load() == 0 {
		t.Error("no good peer was answered")
	}
	x.recovers(t)
}
