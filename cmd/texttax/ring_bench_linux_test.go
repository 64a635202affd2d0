package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"texttax/encoding"
	"texttax/encoding/ring"
	"texttax/kernel/gbm42"
)

// cores are those that the tests may run on.
var cores = func() (all []int) {
	var set unix.CPUSet
	_ = unix.SchedGetaffinity(0, &set) // an error leaves it empty
	for cpu := range 64 * len(set) {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}()

// pin holds the calling thread, and the processes that it starts, to a core.
func pin(tb testing.TB, core int) {
	tb.Helper()
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		tb.Fatal(err)
	}
}

// percentile returns a percentile of the durations, which must be sorted.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

// BenchmarkSharedMemoryEcho echoes over rings in shared memory, between two
// processes that are held to a core each.
func BenchmarkSharedMemoryEcho(b *testing.B) {
	for _, bytes := range bareSizes {
		b.Run(fmt.Sprintf("bytes=%d", bytes), func(b *testing.B) {
			path := filepath.Join(socketFolder(b), "ring")
			if len(cores) < 2 {
				b.Skip("two processes need two cores")
			}
			runtime.LockOSThread() // for good: the thread ends with the benchmark
			pin(b, cores[1])
			startBenchServer(b, "texttax", "--frame-listen", "shm:"+path)
			pin(b, cores[0])
			conn, err := ring.Dial(b.Context(), path)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			series := gbm42.Close()[:bytes/8]
			sent, answer := frame(b, encoding.OpEcho, series), make([]byte, 4+bytes)
			var times []time.Duration
			for b.Loop() {
				began := time.Now()
				roundTrip(b, conn, sent, answer)
				times = append(times, time.Since(began))
			}
			if !slices.Equal(answer[4:], encode(b, encoding.Octet, &encoding.Request{Close: series})) {
				b.Fatal("the echo is another")
			}
			slices.Sort(times)
			b.ReportMetric(float64(percentile(times, 0.5).Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(percentile(times, 0.99).Nanoseconds()), "p99-ns")
		})
	}
}
