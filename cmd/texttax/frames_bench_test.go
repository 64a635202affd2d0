package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// bareEchoes is the least that an echo on a stream takes: each connection says
// in its first byte which of the two sizes its messages have, and gets every
// message back once it is whole.
func bareEchoes(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var size [1]byte
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			message := make([]byte, bareSizes[size[0]])
			for {
				if _, err := io.ReadFull(c, message); err != nil {
					return
				}
				if _, err := c.Write(message); err != nil {
					return
				}
			}
		}()
	}
}

// bareSizes are those of one number, and of the demo series.
var bareSizes = [...]int{8, 8 * gbm42.Bars}

// roundTrip sends the message and reads the answer, whose length is known.
func roundTrip(tb testing.TB, c net.Conn, message, answer []byte) {
	if _, err := c.Write(message); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		tb.Fatal(err)
	}
}

// socketFolder is for sockets, whose paths must be short.
func socketFolder(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "tt")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// BenchmarkFrameEcho compares echoes by the frame protocol over a Unix socket
// with a bare loop that reads a message of the same numbers and writes it back,
// in turns, each over one connection. The servers are goroutines of the
// client's process, or processes of their own.
func BenchmarkFrameEcho(b *testing.B) {
	for _, where := range []string{"goroutines", "processes"} {
		for size, bytes := range bareSizes {
			b.Run(fmt.Sprintf("servers=%s/bytes=%d", where, bytes), func(b *testing.B) {
				folder := socketFolder(b)
				bare, frames := filepath.Join(folder, "bare"), filepath.Join(folder, "frames")
				if where == "processes" {
					startBenchServer(b, "bare-echo", bare)
					startBenchServer(b, "texttax", "--frame-listen", "unix:"+frames)
				} else {
					l, err := net.Listen("unix", bare)
					if err != nil {
						b.Fatal(err)
					}
					defer l.Close()
					go bareEchoes(l)
					start(b, "--frame-listen", "unix:"+frames)
				}
				series := gbm42.Close()[:bytes/8]
				message := encode(b, encoding.Octet, &encoding.Request{Close: series})
				framed := frame(b, encoding.OpEcho, series)
				var conns [2]net.Conn
				for i, path := range []string{bare, frames} {
					conn, err := net.Dial("unix", path)
					if err != nil {
						b.Fatal(err)
					}
					defer conn.Close()
					conns[i] = conn
				}
				if _, err := conns[0].Write([]byte{byte(size)}); err != nil {
					b.Fatal(err)
				}
				answers := [2][]byte{make([]byte, bytes), make([]byte, 4+bytes)}
				turn := 500
				if bytes > 1000 {
					turn = 10
				}
				var times [2][]time.Duration
				for b.Loop() {
					for i, sent := range [2][]byte{message, framed} {
						for range turn {
							began := time.Now()
							roundTrip(b, conns[i], sent, answers[i])
							times[i] = append(times[i], time.Since(began))
						}
					}
				}
				if string(answers[1][4:]) != string(message) {
					b.Fatal("the echo is another")
				}
				without, with := median(times[0]), median(times[1])
				b.ReportMetric(float64(without.Nanoseconds())/1e3, "bare-us")
				b.ReportMetric(float64(with.Nanoseconds())/1e3, "frame-us")
				b.ReportMetric(float64(with)/float64(without), "ratio")
			})
		}
	}
}

// BenchmarkSpawn starts the program for each call, with a small frame on its
// standard input.
func BenchmarkSpawn(b *testing.B) {
	binary := buildBinary(b)
	sent := frame(b, encoding.OpSweep, gbm42.Close()[:50], kernel.Expand(6))
	var times []time.Duration
	for b.Loop() {
		command := exec.Command(binary, "sweep", "--frame")
		command.Stdin = strings.NewReader(string(sent))
		began := time.Now()
		out, err := command.Output()
		times = append(times, time.Since(began))
		if err != nil || len(out) != 4+16 {
			b.Fatalf("%d bytes, %v", len(out), err)
		}
	}
	b.ReportMetric(float64(median(times).Nanoseconds())/1e6, "p50-ms")
}
