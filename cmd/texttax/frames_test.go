package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/encoding/ring"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// frameClient speaks the frame protocol.
type frameClient struct {
	net.Conn
	replies *encoding.FrameReader
}

func dialFrames(t testing.TB, at string) *frameClient {
	t.Helper()
	network, address, _ := strings.Cut(at, ":")
	var conn net.Conn
	var err error
	if network == "shm" {
		conn, err = ring.Dial(t.Context(), address)
	} else {
		conn, err = net.Dial(network, address)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &frameClient{conn, encoding.NewFrameReader(conn, nil)}
}

// reply reads the body of the next reply.
func (c *frameClient) reply() ([]byte, error) {
	if _, err := c.replies.Next(); err != nil {
		return nil, err
	}
	return c.replies.AppendBody(nil)
}

// ask sends a frame and returns the body of the reply.
func (c *frameClient) ask(t testing.TB, frame []byte) []byte {
	t.Helper()
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	body, err := c.reply()
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// sweep sends a sweep and returns its results.
func (c *frameClient) sweep(t testing.TB, series []float64, combos []kernel.Params) *kernel.Results {
	t.Helper()
	var got kernel.Results
	if err := encoding.Octet.DecodeResults(c.ask(t, frame(t, encoding.OpSweep, series, combos...)), &got); err != nil {
		t.Fatal(err)
	}
	return &got
}

func frame(t testing.TB, op encoding.Op, series []float64, combos ...kernel.Params) []byte {
	t.Helper()
	raw, err := encoding.AppendFrame(nil, &encoding.Request{Op: op, Close: series, Params: combos})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// startFrames starts a server with every transport for frames.
func startFrames(t testing.TB, args ...string) *server {
	t.Helper()
	folder := socketFolder(t)
	for _, at := range frameTransports {
		args = append(args, "--frame-listen", strings.ReplaceAll(at, "FOLDER", folder))
	}
	return start(t, args...)
}

// frameTransports are what --frame-listen takes on this system.
var frameTransports = func() []string {
	all := []string{"unix:FOLDER/u", "tcp:127.0.0.1:0"}
	if runtime.GOOS == "linux" {
		all = append(all, "shm:FOLDER/m")
	}
	return all
}()

// overFrames runs a test over every transport for frames, on a server of its own.
func overFrames(t *testing.T, test func(t *testing.T, s *server, at string), args ...string) {
	for i, transport := range frameTransports {
		name, _, _ := strings.Cut(transport, ":")
		t.Run(name, func(t *testing.T) {
			s := startFrames(t, args...)
			test(t, s, s.frames[i])
		})
	}
}

func TestFramesGiveTheGoldenData(t *testing.T) {
	overFrames(t, func(t *testing.T, s *server, at string) {
		c := dialFrames(t, at)
		for _, g := range goldenCases(t) {
			if g.Fee == kernel.DefaultFee { // frames have no place for another
				g.check(t, c.sweep(t, g.Close, g.Windows))
			}
		}
	})
}

func TestFramesEchoEveryBit(t *testing.T) {
	series := []float64{100, 0, math.Copysign(0, -1), 5e-324, math.NaN(), math.Inf(-1), math.Float64frombits(0x7ff4000000000123)}
	overFrames(t, func(t *testing.T, s *server, at string) {
		c := dialFrames(t, at)
		long := slices.Repeat(series, 100_000)
		for _, n := range []int{0, 1, 7, 500, 509, 510, 511, 600, len(long), 3} {
			sent := encode(t, encoding.Octet, &encoding.Request{Close: long[:n]})
			if got := c.ask(t, frame(t, encoding.OpEcho, long[:n])); !bytes.Equal(got, sent) {
				t.Errorf("%d bars: %d bytes came back, other than the %d sent", n, len(got), len(sent))
			}
			if got := c.ask(t, frame(t, encoding.OpEcho, long[:n], kernel.Expand(6))); !bytes.Equal(got, sent) {
				t.Errorf("%d bars with a combo: %d bytes came back, other than the %d sent", n, len(got), len(sent))
			}
		}
	})
}

func TestPipelinedFramesAreAnsweredInOrder(t *testing.T) {
	overFrames(t, func(t *testing.T, s *server, at string) {
		c := dialFrames(t, at)
		const frames = 2000
		go func() {
			var all []byte
			for i := range frames {
				all = append(all, frame(t, encoding.OpEcho, slices.Repeat([]float64{float64(i)}, i%40))...)
				if i%100 == 0 {
					all = append(all, frame(t, encoding.OpSweep, gbm42.Close()[:1000+i], kernel.Expand(6))...)
				}
			}
			r := rand.New(rand.NewPCG(1, 2))
			for len(all) > 0 { // in pieces that end anywhere
				n := min(len(all), 1+r.IntN(20_000))
				if _, err := c.Write(all[:n]); err != nil {
					t.Error(err)
					return
				}
				all = all[n:]
			}
		}()
		for i := range frames {
			got, err := c.reply()
			if err != nil {
				t.Fatal(err)
			}
			if want := encode(t, encoding.Octet, &encoding.Request{Close: slices.Repeat([]float64{float64(i)}, i%40)}); !bytes.Equal(got, want) {
				t.Fatalf("reply %d is %d bytes %x, not %x", i, len(got), got, want)
			}
			if i%100 == 0 {
				if got, err := c.reply(); err != nil || len(got) != 16 {
					t.Fatalf("the sweep after frame %d: %d bytes, %v", i, len(got), err)
				}
			}
		}
	})
}

// badFrames are frames that no server should answer.
func badFrames(t testing.TB) map[string]struct {
	frame  []byte
	reason string
} {
	good := frame(t, encoding.OpSweep, []float64{100, 101, 102}, kernel.Expand(6))
	change := func(at int, to ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], to)
		return b
	}
	price := func(v float64) []byte {
		return frame(t, encoding.OpSweep, []float64{100, 101, v, 103}, kernel.Expand(6))
	}
	type bad = struct {
		frame  []byte
		reason string
	}
	return map[string]bad{
		"length 0":              {change(0, 0, 0, 0, 0), "malformed-body"},
		"length 1":              {change(0, 1, 0, 0, 0), "malformed-body"},
		"length 2^32-1":         {change(0, 255, 255, 255, 255), "body-too-large"},
		"length 2^32-7":         {change(0, 249, 255, 255, 255), "body-too-large"},
		"one byte short":        {change(0, byte(len(good)-4-1)), "malformed-body"},
		"eight bytes short":     {change(0, byte(len(good)-4-8)), "malformed-body"},
		"opcode 2":              {change(4, 2), "malformed-body"},
		"2^32-1 bars":           {change(5, 255, 255, 255, 255), "malformed-body"},
		"2^32-1 combos":         {change(9, 255, 255, 255, 255), "malformed-body"},
		"both forged":           {change(5, 255, 255, 255, 255, 255, 255, 255, 255), "malformed-body"},
		"a bar for six windows": {change(5, 9, 0, 0, 0, 0), "invalid-value"},
		"NaN":                   {price(math.NaN()), "close[2]"},
		"infinity":              {price(math.Inf(1)), "close[2]"},
		"zero":                  {price(0), "close[2]"},
		"negative":              {price(-1), "close[2]"},
		"no bars":               {frame(t, encoding.OpSweep, nil, kernel.Expand(6)), "close"},
		"no combos":             {frame(t, encoding.OpSweep, []float64{1, 2}), "lengths"},
		"window 0":              {frame(t, encoding.OpSweep, []float64{1, 2}, kernel.Params{1, 1, 1, 0, 1, 1}), "params.hma3_third[0]"},
		"too many bars":         {frame(t, encoding.OpEcho, make([]float64, 5001)), "over-limit"},
		"too many combos":       {frame(t, encoding.OpSweep, []float64{1}, make([]kernel.Params, 101)...), "over-limit"},
		"too much work":         {frame(t, encoding.OpSweep, slices.Repeat([]float64{1}, 2000), slices.Repeat([]kernel.Params{kernel.Expand(6)}, 51)...), "over-limit"},
	}
}

func TestABadFrameClosesItsConnectionWithALineInTheLogAndNothingElse(t *testing.T) {
	overFrames(t, func(t *testing.T, s *server, at string) {
		other := dialFrames(t, at)
		for name, bad := range badFrames(t) {
			t.Run(name, func(t *testing.T) {
				before, refused := len(s.log.String()), total(t, s, "texttax_rejected_total")
				c := dialFrames(t, at)
				echo := frame(t, encoding.OpEcho, []float64{1, 2, 3})
				if got := c.ask(t, echo); len(got) != 24 {
					t.Fatalf("%d bytes", len(got))
				}
				// A frame before it is answered, one after it is not.
				if _, err := c.Write(slices.Concat(echo, bad.frame, echo)); err != nil {
					t.Fatal(err)
				}
				if got, err := c.reply(); err != nil || len(got) != 24 {
					t.Errorf("the frame before got %d bytes, %v", len(got), err)
				}
				if got, err := c.reply(); err == nil {
					t.Errorf("the bad frame got %x", got)
				}
				line := logged(s, before, "frame refused")
				if !strings.Contains(line, bad.reason) || !strings.Contains(line, "frame=3") {
					t.Errorf("the log says %q, not %s", line, bad.reason)
				}
				if got := total(t, s, "texttax_rejected_total"); got != refused+1 {
					t.Errorf("%v rejections have become %v", refused, got)
				}
			})
		}
		if got := other.ask(t, frame(t, encoding.OpEcho, []float64{1})); len(got) != 8 {
			t.Errorf("another connection got %d bytes", len(got))
		}
	}, "--bars-max", "5000", "--combos-max", "100", "--work-max", "100000", "--body-max", "100000")
}

// logged waits for a line in the log, of which so many bytes were there before.
func logged(s *server, before int, what string) string {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for line := range strings.Lines(s.log.String()[before:]) {
			if strings.Contains(line, what) {
				return line
			}
		}
	}
	return ""
}

func TestAForgedLengthCostsNoMemory(t *testing.T) {
	overFrames(t, func(t *testing.T, s *server, at string) {
		before := metric(t, s, "go_memstats_alloc_bytes_total")
		for range 20 {
			c := dialFrames(t, at)
			announced := binary.LittleEndian.AppendUint32(nil, 9+8*100_000_000)
			if _, err := c.Write(append(announced, 1, 0, 225, 245, 5)); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		}
		for total(t, s, "texttax_rejected_total") < 20 {
			time.Sleep(time.Millisecond)
		}
		// Memory comes in steps of what has proved itself, the first of 4 MiB.
		if used := metric(t, s, "go_memstats_alloc_bytes_total") - before; used > 20*(8<<20) { // of the 16 GB announced
			t.Errorf("%v bytes for 20 frames", used)
		}
	}, "--body-max", "1GiB")
}

func TestAClientThatLeavesInTheMiddleOfAFrameIsCounted(t *testing.T) {
	whole := frame(t, encoding.OpEcho, gbm42.Close())
	overFrames(t, func(t *testing.T, s *server, at string) {
		for i, n := range []int{1, 3, 4, 5, 12, 13, 14, 4096, 100_000, len(whole) - 1} {
			c := dialFrames(t, at)
			if _, err := c.Write(whole[:n]); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			for deadline := time.Now().Add(5 * time.Second); metric(t, s, `texttax_rejected_total{reason="client-gone"}`) != float64(i+1); {
				if time.Now().After(deadline) {
					t.Fatalf("leaving after %d bytes was not noticed\n%s", n, s.log)
				}
			}
		}
		if got := metric(t, s, `texttax_requests_total{code="499",endpoint="frame"}`); got != 10 {
			t.Errorf("%v frames of clients that left", got)
		}
	})
}

func TestASweepStopsWithinMillisecondsOfItsClientsLeaving(t *testing.T) {
	slow := frame(t, encoding.OpSweep, gbm42.Close(), slices.Repeat([]kernel.Params{kernel.Expand(20_000)}, 4)...)
	for _, name := range []string{"alone", "frames wait after it"} {
		overFrames(t, func(t *testing.T, s *server, at string) {
			t.Run(name, func(t *testing.T) {
				c, sent := dialFrames(t, at), slow
				if name != "alone" {
					ahead := gbm42.Close()
					if strings.HasPrefix(at, "tcp:") {
						// What does not fit into the buffers of the connection
						// keeps its end from being seen.
						ahead = ahead[:2000]
					}
					echo := frame(t, encoding.OpEcho, ahead)
					sent = slices.Concat(slow, echo, echo, echo[:100])
				}
				go func() { _, _ = c.Write(sent) }()
				waitFor(t, "the sweep to begin", func() bool { return metric(t, s, "texttax_compute_slots_busy") > 0 })
				time.Sleep(20 * time.Millisecond) // for the rest to be sent
				left := time.Now()
				_ = c.Close()
				waitFor(t, "the sweep to stop", func() bool { return metric(t, s, "texttax_compute_slots_busy") == 0 })
				if took := time.Since(left); took > 2*time.Second { // the whole sweep takes minutes; a busy machine and its metrics need some time
					t.Errorf("it took %v", took)
				} else {
					t.Logf("it took %v", took)
				}
				if line := logged(s, 0, "frame refused"); !strings.Contains(line, "client-gone") {
					t.Errorf("the log says %q", line)
				}
			})
		})
	}
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestAClientThatSendsAByteNowAndThenIsCutOff(t *testing.T) {
	for name, length := range map[string]int{"small": 1, "large": 100_000} {
		raw := frame(t, encoding.OpEcho, make([]float64, length))
		overFrames(t, func(t *testing.T, s *server, at string) {
			t.Run(name, func(t *testing.T) {
				c := dialFrames(t, at)
				began := time.Now()
				for i := range raw {
					if _, err := c.Write(raw[i : i+1]); err != nil {
						break
					}
					time.Sleep(20 * time.Millisecond)
					if time.Since(began) > 10*time.Second {
						t.Fatal("it is still served")
					}
				}
				if took := time.Since(began); took < 150*time.Millisecond {
					t.Errorf("it was cut off after %v", took)
				}
				if line := logged(s, 0, "frame refused"); !strings.Contains(line, "body-too-slow") {
					t.Errorf("the log says %q", line)
				}
				if got := metric(t, s, `texttax_requests_total{code="408",endpoint="frame"}`); got != 1 {
					t.Errorf("%v frames were too slow", got)
				}
			})
		}, "--header-timeout", "200ms")
	}
}

func TestALargeFrameThatKeepsComingIsNotCutOff(t *testing.T) {
	raw := frame(t, encoding.OpEcho, gbm42.Close())
	overFrames(t, func(t *testing.T, s *server, at string) {
		c := dialFrames(t, at)
		go func() {
			for piece := range slices.Chunk(raw, 64<<10) { // in all it takes longer than one timeout
				_, _ = c.Write(piece)
				time.Sleep(80 * time.Millisecond)
			}
		}()
		if got, err := c.reply(); err != nil || len(got) != 1_200_000 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}, "--header-timeout", "1300ms")
}

func TestIdleAndDeafConnectionsAreClosed(t *testing.T) {
	overFrames(t, func(t *testing.T, s *server, at string) {
		idle := dialFrames(t, at)
		idle.ask(t, frame(t, encoding.OpEcho, []float64{1}))
		began := time.Now()
		if _, err := idle.reply(); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
			t.Errorf("an idle connection ends with %v", err)
		}
		if took := time.Since(began); took < 150*time.Millisecond {
			t.Errorf("after %v", took)
		}
		deaf := dialFrames(t, at)
		large := frame(t, encoding.OpEcho, make([]float64, 2_000_000))
		go func() {
			for range 10 { // and reads no reply
				if _, err := deaf.Write(large); err != nil {
					return
				}
			}
		}()
		if line := logged(s, 0, "body-too-slow"); line == "" {
			t.Errorf("a client that takes no replies is kept\n%s", s.log)
		}
	}, "--idle-timeout", "200ms")
}

func TestFramesThatHaveBegunFinishWhileTheServerDrains(t *testing.T) {
	overFrames(t, func(t *testing.T, s *server, at string) {
		idle, busy := dialFrames(t, at), dialFrames(t, at)
		idle.ask(t, frame(t, encoding.OpEcho, []float64{1}))
		if _, err := busy.Write(frame(t, encoding.OpSweep, gbm42.Close(), kernel.Expand(6), kernel.Expand(3000))); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the sweep to begin", func() bool { return metric(t, s, "texttax_compute_slots_busy") > 0 })
		stopped := make(chan error, 1)
		go func() { stopped <- s.stop() }()
		if _, err := idle.reply(); err == nil {
			t.Error("the idle connection got something")
		}
		var got kernel.Results
		body, err := busy.reply()
		if err != nil || encoding.Octet.DecodeResults(body, &got) != nil || got.Trades[0] != 57029 {
			t.Errorf("the frame that had begun got %v, %v", got, err)
		}
		if _, err := busy.reply(); err == nil {
			t.Error("the connection goes on")
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestFramesThatDoNotFinishInTimeAreCutOff(t *testing.T) {
	path := filepath.Join(socketFolder(t), "f")
	p := startProcess(t, buildBinary(t), "--frame-listen", "unix:"+path, "--drain-delay", "0s", "--drain-timeout", "100ms")
	waitFor(t, "the socket", func() bool { c, err := net.Dial("unix", path); return err == nil && c.Close() == nil })
	c := dialFrames(t, "unix:"+path)
	if _, err := c.Write(frame(t, encoding.OpSweep, gbm42.Close(), slices.Repeat([]kernel.Params{kernel.Expand(20_000)}, 4)...)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the sweep", func() bool { return metric(t, &server{url: p.url}, "texttax_compute_slots_busy") > 0 })
	p.signal(t, syscall.SIGTERM)
	if err := <-p.ended; err == nil || !strings.Contains(p.stderr.String(), "cut off") {
		t.Errorf("%v\n%s", err, p.stderr)
	}
	if got, err := c.reply(); err == nil {
		t.Errorf("the frame that was cut off got %d bytes", len(got))
	}
}

func TestFramesAreInTheMetricsAndInTheLog(t *testing.T) {
	s := startFrames(t, "--log-level", "debug")
	c := dialFrames(t, s.frames[0])
	sweep := frame(t, encoding.OpSweep, gbm42.Close(), kernel.Expand(6))
	c.ask(t, sweep)
	c.ask(t, frame(t, encoding.OpEcho, []float64{1, 2}))
	_ = c.Close()
	line := logged(s, 0, "frames: connection")
	for _, want := range []string{"level=DEBUG", "frames=2", fmt.Sprintf("bytes_in=%d", len(sweep)-4+9+16), "bytes_out=32", "address="} {
		if !strings.Contains(line, want) {
			t.Errorf("the line of the connection lacks %s: %s", want, line)
		}
	}
	for series, want := range map[string]float64{
		`texttax_requests_total{code="200",endpoint="frame"}`:                                       2,
		`texttax_request_body_bytes_total{endpoint="frame",format="octet"}`:                         float64(len(sweep) - 4 + 9 + 16),
		`texttax_response_body_bytes_total{endpoint="frame",format="octet"}`:                        32,
		`texttax_phase_duration_seconds_count{endpoint="frame",format="octet",phase="transit_in"}`:  2,
		`texttax_phase_duration_seconds_count{endpoint="frame",format="octet",phase="decode"}`:      2,
		`texttax_phase_duration_seconds_count{endpoint="frame",format="octet",phase="queue"}`:       1,
		`texttax_phase_duration_seconds_count{endpoint="frame",format="octet",phase="compute"}`:     1,
		`texttax_phase_duration_seconds_count{endpoint="frame",format="octet",phase="encode"}`:      2,
		`texttax_phase_duration_seconds_count{endpoint="frame",format="octet",phase="transit_out"}`: 2,
		`texttax_request_body_bytes_total{endpoint="frame",format="other"}`:                         0,
	} {
		if got := metric(t, s, series); got != want {
			t.Errorf("%s is %v, not %v", series, got, want)
		}
	}
	if strings.Contains(string(ask(t, "GET", s.url+"/metrics", nil).body), `endpoint="frame",format="json"`) {
		t.Error("there are series for frames in JSON")
	}
}

func TestAFullQueueRefusesFrames(t *testing.T) {
	s := startFrames(t, "--slots", "1", "--queue-max", "0")
	busy, second := dialFrames(t, s.frames[0]), dialFrames(t, s.frames[1])
	if _, err := busy.Write(frame(t, encoding.OpSweep, gbm42.Close(), slices.Repeat([]kernel.Params{kernel.Expand(20_000)}, 4)...)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the sweep to begin", func() bool { return metric(t, s, "texttax_compute_slots_busy") > 0 })
	if _, err := second.Write(frame(t, encoding.OpSweep, []float64{1, 2, 3}, kernel.Expand(6))); err != nil {
		t.Fatal(err)
	}
	if got, err := second.reply(); err == nil {
		t.Errorf("the queue is full, and the frame got %x", got)
	}
	if metric(t, s, `texttax_rejected_total{reason="queue-full"}`) != 1 {
		t.Error("it was not counted")
	}
}

// Each of 64 clients sends its own series again and again, and now and then
// leaves in the middle of one.
func TestSixtyFourClientsEachGetTheirOwnBytes(t *testing.T) {
	s := startFrames(t, "--log-level", "error")
	const rounds = 30
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			at := s.frames[i%len(s.frames)]
			c := dialFrames(t, at)
			for range rounds {
				series := make([]float64, 1+r.IntN(20_000))
				for k := range series {
					series[k] = float64(1+i) + r.Float64()
				}
				switch r.IntN(4) {
				case 0:
					raw := frame(t, encoding.OpEcho, series)
					_, _ = c.Write(raw[:r.IntN(len(raw))])
					_ = c.Close()
					c = dialFrames(t, at)
				case 1:
					var want kernel.Results
					combos := []kernel.Params{kernel.Expand(int64(2 + r.IntN(50)))}
					if err := kernel.Sweep(t.Context(), series, combos, kernel.DefaultFee, 1, &want); err != nil {
						t.Error(err)
					}
					if got := c.sweep(t, series, combos); got.PnL[0] != want.PnL[0] || got.Trades[0] != want.Trades[0] {
						t.Errorf("client %d got %v on %d, not %v on %d", i, got.PnL, got.Trades, want.PnL, want.Trades)
					}
				default:
					raw := frame(t, encoding.OpEcho, series)
					if got := c.ask(t, raw); !bytes.Equal(got, raw[13:]) {
						t.Errorf("client %d got other bytes", i)
					}
				}
			}
		})
	}
	all.Wait()
}

// holdFrames is the variable that makes a process of this test binary a client,
// which sends a slow sweep to the address in it and waits.
const holdFrames = "TEXTTAX_HOLD_FRAMES"

func TestAKilledClientsSweepStops(t *testing.T) {
	if at := os.Getenv(holdFrames); at != "" {
		c := dialFrames(t, at)
		slow := slices.Repeat([]kernel.Params{kernel.Expand(20_000)}, 4)
		c.ask(t, frame(t, encoding.OpSweep, gbm42.Close(), slow...))
		return
	}
	overFrames(t, func(t *testing.T, s *server, at string) {
		child := exec.Command(os.Args[0], "-test.run", "^TestAKilledClientsSweepStops$")
		child.Env = append(os.Environ(), holdFrames+"="+at)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = child.Wait() }()
		waitFor(t, "the sweep to begin", func() bool { return metric(t, s, "texttax_compute_slots_busy") > 0 })
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the sweep to stop", func() bool { return metric(t, s, "texttax_compute_slots_busy") == 0 })
		if line := logged(s, 0, "frame refused"); !strings.Contains(line, "client-gone") {
			t.Errorf("the log says %q", line)
		}
	})
}
