package kernel

import "sync"

// A scratch holds the intermediate series of one combo. A worker keeps it from
// combo to combo.
type scratch struct {
	columns [5][]float64
}

func (s *scratch) resize(bars int) {
	for c := range s.columns {
		s.columns[c] = resize(s.columns[c], bars)
	}
}

func (s *scratch) bytes() int {
	total := 0
	for _, c := range s.columns {
		total += 8 * cap(c)
	}
	return total
}

// keptScratch is the size in bytes above which a scratch is left to the
// garbage collector, so that one huge series does not stay in memory for the
// sake of the small ones after it. It is room for 800,000 bars.
const keptScratch = 32 << 20

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// giveBack reports whether the scratch was small enough to be kept.
func (s *scratch) giveBack() bool {
	if s.bytes() > keptScratch {
		return false
	}
	scratches.Put(s)
	return true
}
