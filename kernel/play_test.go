package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// someWord returns bits in runs, all, none, or at random.
func someWord(r *rand.Rand) uint64 {
	switch r.IntN(5) {
	case 0:
		return 0
	case 1:
		return ^uint64(0)
	case 2:
		return r.Uint64()
	case 3:
		return r.Uint64() & r.Uint64() & r.Uint64() & r.Uint64()
	}
	return ^uint64(0) << r.IntN(64) >> r.IntN(64)
}

func TestFind(t *testing.T) {
	eachSIMD(t, func(t *testing.T, s *implementation) {
		r := rand.New(rand.NewPCG(31, 32))
		for round := range 5000 {
			var up [lanes]uint64
			for l := range up {
				up[l] = someWord(r)
				if round%100 == 0 {
					up[l] = 0x5555555555555555 // every bar is a change
				}
			}
			before := r.Uint64N(2)
			var want []uint16
			last := before
			for bar := range tileBars {
				now := up[bar/64] >> (bar % 64) & 1
				if now != last {
					want = append(want, uint16(bar))
				}
				last = now
			}
			const canary = 0x5a5a
			var got struct{ before, bars, after flips }
			for i := range got.before {
				got.before[i], got.after[i] = canary, canary
			}
			beside := got
			n := s.find(&got.bars, &up, before)
			if !slices.Equal(got.bars[:n], want) {
				t.Fatalf("%x after %d: %v, want %v", up, before, got.bars[:n], want)
			}
			if got.before != beside.before || got.after != beside.after {
				t.Fatal("wrote beside the bars")
			}
		}
	})
}

func TestBarsWithoutASideHaveTheSideBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	for range 20000 {
		var s sides
		for l := range lanes {
			s.up[l] = someWord(r)
			s.down[l] = someWord(r) &^ s.up[l]
		}
		before := r.IntN(2) == 1
		want, last := s.up, before
		for bar := range tileBars {
			bit := uint64(1) << (bar % 64)
			if s.up[bar/64]&bit != 0 {
				last = true
			} else if s.down[bar/64]&bit != 0 {
				last = false
			}
			if last {
				want[bar/64] |= bit
			}
		}
		given := s
		s.fill(before)
		if s.up != want {
			t.Fatalf("%x filled after %t: %x, want %x", given, before, s.up, want)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	r := rand.New(rand.NewPCG(35, 36))
	var up [lanes]uint64
	for l := range up { // a change in 16 bars
		for range 4 {
			up[l] ^= ^uint64(0) << r.IntN(64)
		}
	}
	var f flips
	for _, s := range implementations {
		b.Run(s.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = s.find(&f, &up, 0)
			}
			b.ReportMetric(float64(n), "changes")
		})
	}
}
