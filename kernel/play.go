package kernel

import "math/bits"

// position is the state of one combo's strategy between two tiles.
type position struct {
	outcome
	entry float64
}

// flips are the bars of a tile at which the side changes, with room to write
// more than there are.
type flips [tileBars + 3]uint16

// play trades the bars of a tile, the first of which is that of closes, on
// their sides. It is the loop of trade, which only stops where the side
// changes. It changes s.
func (p *position) play(closes []float64, s *sides, fee float64, f *flips, impl *implementation) {
	decided := ^uint64(0)
	for lane := range lanes {
		decided &= s.up[lane] | s.down[lane]
	}
	if decided != ^uint64(0) || p.open == 0 {
		if p.open == 0 {
			p.enter(closes, s)
		}
		if p.open == 0 {
			return
		}
		s.fill(p.open > 0)
	}
	n := impl.find(f, &s.up, bit(p.open > 0))

	pnl, entry, side := p.pnl, p.entry, float64(p.open)
	for _, bar := range f[:n] {
		price := closes[bar]
		pnl += float64(side*(price/entry-1)*100) - float64(fee*100)
		entry, side = price, -side
	}
	p.pnl, p.entry, p.open = pnl, entry, int8(side)
	p.trades += int64(n)
}

// enter opens the first position where the first side is, if there is one.
func (p *position) enter(closes []float64, s *sides) {
	for lane := range lanes {
		if sided := s.up[lane] | s.down[lane]; sided != 0 {
			bit := bits.TrailingZeros64(sided)
			p.open, p.entry = -1, closes[lane*laneBars+bit]
			if s.up[lane]>>bit&1 != 0 {
				p.open = +1
			}
			return
		}
	}
}

// fill gives the bars without a side, which change nothing, the side before
// them. up tells that of the bar before the tile.
func (s *sides) fill(up bool) {
	before := bit(up)
	for lane := range lanes {
		up, gaps := s.up[lane], ^(s.up[lane] | s.down[lane])
		// A carry that comes into a gap runs through to its end.
		through := gaps + (up<<1|before)&gaps
		up |= gaps &^ through
		s.up[lane] = up
		before = up >> (laneBars - 1)
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
