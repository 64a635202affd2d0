package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkLoad opens a directory of 100 datasets of 1.2 MB, and reads the same
// files into memory by os.ReadFile one after the other, in turns. It reports the
// medians in milliseconds and their ratio.
func BenchmarkLoad(b *testing.B) {
	const sets, bars = 100, 150_000
	dir := b.TempDir()
	s := open(b, dir, DefaultMax)
	for i := range sets {
		put(b, s, fmt.Sprint("set", i), series(i+1, bars))
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	names := files(b, dir)
	var times [2][]time.Duration
	for b.Loop() {
		began := time.Now()
		held := make([][]byte, 0, sets)
		for _, name := range names {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				b.Fatal(err)
			}
			held = append(held, raw)
		}
		times[0] = append(times[0], time.Since(began))
		if len(held) != sets {
			b.Fatalf("%d files", len(held))
		}

		began = time.Now()
		s, err := Open(Config{Max: DefaultMax, Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		times[1] = append(times[1], time.Since(began))
		if s.Count() != sets {
			b.Fatalf("%d datasets", s.Count())
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	median := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)/2]
	}
	read, load := median(times[0]), median(times[1])
	b.ReportMetric(float64(read.Microseconds())/1e3, "read-ms")
	b.ReportMetric(float64(load.Microseconds())/1e3, "load-ms")
	b.ReportMetric(float64(load)/float64(read), "ratio")
}
