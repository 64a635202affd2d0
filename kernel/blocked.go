package kernel

import (
	"math/bits"
	"runtime"
	"sync/atomic"
)

// implementation is one way to run the inner loops of the filtered sweep. What
// they do is said at their Go versions, in simd_go.go.
type implementation struct {
	name       string
	build      func(sums, closes *float64, rows int, m *maxima)
	filter     func(sums *float64, terms *term, n int, bound *[lanes]float64, up, down *[lanes]uint64)
	accumulate func(acc *[block]float64, x *float64, from, to int64)
	emit       func(dst *float64, acc *[block]float64, divisor float64)
	combine2   func(dst, a, b *float64, n int)
	combine3   func(dst, a, b, c *float64, n int)
	compare    func(hma, hma3 *float64, up, down *[lanes]uint64)
}

// position is the state of one combo's strategy between two tiles.
type position struct {
	outcome
	entry float64
}

// play trades the bars of a lane, whose first bar is first, on the sides that
// are up or down. It is the loop of trade, which only stops where the side
// changes.
func (p *position) play(closes []float64, first int, up, down uint64, fee float64) {
	closes = closes[first:]
	if p.open == 0 {
		word := up | down
		if word == 0 {
			return
		}
		bit := bits.TrailingZeros64(word)
		if p.open = -1; up>>bit&1 != 0 {
			p.open = +1
		}
		p.entry = closes[bit]
		// What comes before that bar is over.
		up, down = up>>bit<<bit, down>>bit<<bit
	}
	pnl, trades, entry := p.pnl, p.trades, p.entry
	// The side that ends the position, and the position's own sign.
	against, other, side := down, up, 1.0
	if p.open < 0 {
		against, other, side = up, down, -1.0
	}
	for against != 0 {
		bit := bits.TrailingZeros64(against)
		price := closes[bit]
		pnl += float64(side*(price/entry-1)*100) - float64(fee*100)
		trades++
		entry = price
		side = -side
		against, other = other>>bit<<bit, against
	}
	p.pnl, p.trades, p.entry = pnl, trades, entry
	p.open = int8(side)
}

// A combo whose tiles have hostileBars uncertain bars or more, hostileTiles
// times in a row, goes without its filter for restTiles.
const (
	hostileBars  = tileBars / 4
	hostileTiles = 2
	restTiles    = 16
)

// patienceFor returns up to how many uncertain bars of a tile are decided one
// by one. Beyond it an exactBlock, which decides all, is cheaper: it does many
// more multiply-adds, but a dozen of them in the time of one of decide's, each
// of which waits for the one before.
func patienceFor(p *Params) int {
	const faster = 12
	second := p[HMASmooth] + p[HMA3Full]
	first := max(p[HMAHalf], p[HMAFull], p[HMA3Third], p[HMA3Half], p[HMA3Full])
	all := tileBars*(first+second) + first*max(p[HMASmooth], p[HMA3Full])
	one := p[HMASmooth]*(p[HMAHalf]+p[HMAFull]) + p[HMA3Full]*(p[HMA3Third]+p[HMA3Half]+p[HMA3Full])
	return int(all / (faster * one))
}

// filtered is a combo on its way through the tiles.
type filtered struct {
	signFilter
	position
	params   *Params
	place    int // of the combo in the sweep
	patience int // uncertain bars of a tile that are decided one by one
	hostile  int // hostile tiles in a row
	rest     int // tiles to go without the filter
}

// decideTile finds the sides of the tile's bars.
func (c *filtered) decideTile(t *tile, lag int, closes []float64, impl *implementation, w *workspace) {
	if c.rest > 0 {
		c.rest--
		w.exact.decideTile(closes, c.params, t.first, impl, &w.up, &w.down)
		return
	}
	for lane := range w.bound {
		w.bound[lane] = c.bound(&t.max, lane)
	}
	impl.filter(&t.sums[lag*lanes], &c.terms[0], c.n, &w.bound, &w.up, &w.down)
	uncertain := 0
	var open [lanes]uint64
	for lane := range open {
		open[lane] = ^(w.up[lane] | w.down[lane]) & w.known[lane]
		uncertain += bits.OnesCount64(open[lane])
	}
	if uncertain < hostileBars {
		c.hostile = 0
	} else if c.hostile++; c.hostile == hostileTiles {
		c.hostile, c.rest = 0, restTiles
	}
	switch {
	case uncertain == 0:
	case uncertain <= c.patience:
		for lane, word := range open {
			for ; word != 0; word &= word - 1 {
				bit := bits.TrailingZeros64(word)
				switch decide(closes, c.params, t.first+lane*laneBars+bit) {
				case +1:
					w.up[lane] |= 1 << bit
				case -1:
					w.down[lane] |= 1 << bit
				}
			}
		}
	default:
		w.exact.decideTile(closes, c.params, t.first, impl, &w.up, &w.down)
	}
}

// barsBetween returns the bits of those of the 64 bars from first on that are
// at least from and below to.
func barsBetween(first, from, to int) uint64 {
	all := ^uint64(0)
	if skip := from - first; skip >= laneBars {
		return 0
	} else if skip > 0 {
		all <<= skip
	}
	if keep := to - first; keep <= 0 {
		return 0
	} else if keep < laneBars {
		all &= 1<<keep - 1
	}
	return all
}

// advance takes the combo through the tile.
func (c *filtered) advance(t *tile, lag int, closes []float64, fee float64, impl *implementation, w *workspace) {
	for lane := range lanes {
		w.known[lane] = barsBetween(t.first+lane*laneBars, c.warm, len(closes))
	}
	c.decideTile(t, lag, closes, impl, w)
	for lane, known := range w.known {
		if known != 0 {
			c.play(closes, t.first+lane*laneBars, w.up[lane]&known, w.down[lane]&known, fee)
		}
	}
}

// Tiles are built a chunk at a time, by all workers together, and then the
// workers take the combos through the chunk, a group of combos at a time.
const (
	chunkTiles = 32
	maxGroup   = 8
	// fewBars is the length below which a tile would be mostly empty, and the
	// reference is as fast.
	fewBars = 256
)

// workspace is what one worker needs for a tile and a combo.
type workspace struct {
	bound    [lanes]float64
	known    [lanes]uint64 // a bit for each bar of a lane at which both averages exist
	up, down [lanes]uint64 // a bit for each bar of a lane whose side is that
	exact    exactBlock
}

// lagClasses is the number of classes of lags: up to 128, 256 and so on.
const lagClasses = 5

// lagClass puts combos together whose lags are alike, since the sums of all
// begin as far back as the longest lag among them asks for.
func lagClass(lag int) int { return max(0, bits.Len(uint(lag-1))-7) }

// filteredPass runs the combos of a lag class, tile by tile.
type filteredPass struct {
	*sweep
	impl  *implementation
	lag   int // the longest of the class
	count int // workers
	size  int // combos of a group

	chosen     []filtered
	tiles      [chunkTiles]tile
	workspaces []*workspace // one a worker

	built   atomic.Int64 // tiles of the chunk that have been taken to be built
	group   atomic.Int64 // groups of combos that have been taken through it
	barrier barrier
}

// What is larger than this is left to the garbage collector: the tiles
// together, in floats, and the combos.
const (
	keptTiles  = 1 << 20
	keptCombos = 1 << 12
)

func (p *filteredPass) giveBack() {
	total := 0
	for i := range p.tiles {
		total += len(p.tiles[i].sums)
	}
	if total > keptTiles {
		p.tiles = [chunkTiles]tile{}
	}
	clear(p.chosen[:cap(p.chosen)]) // which point to the caller's combos
	if p.chosen = p.chosen[:0]; cap(p.chosen) > keptCombos {
		p.chosen = nil
	}
}

// run runs all combos that have a filter, class by class, and leaves the
// others to the reference.
func (p *filteredPass) run(impl *implementation, workers int) {
	var combos [lagClasses]int
	for c := range p.combos {
		if fitsFilter(&p.combos[c]) {
			combos[lagClass(filterLag(&p.combos[c]))]++
		} else {
			p.reference.places = append(p.reference.places, c)
		}
	}
	p.impl = impl
	for class, n := range combos {
		if n == 0 {
			continue
		}
		p.prepare(class, min(workers, n))
		p.each(p.count, p)
		if p.stop.Load() {
			return
		}
		for i := range p.chosen {
			c := &p.chosen[i]
			p.out.PnL[c.place], p.out.Trades[c.place], p.out.Open[c.place] = c.pnl, c.trades, c.open
		}
	}
}

// prepare takes the combos of a class, for so many workers.
func (p *filteredPass) prepare(class, workers int) {
	p.chosen, p.lag, p.count = p.chosen[:0], 0, workers
	for c := range p.combos {
		params := &p.combos[c]
		if !fitsFilter(params) || lagClass(filterLag(params)) != class {
			continue
		}
		p.lag = max(p.lag, filterLag(params))
		p.chosen = append(p.chosen, filtered{signFilter: newSignFilter(params), params: params, place: c, patience: patienceFor(params)})
	}
	p.size = min(maxGroup, max(1, len(p.chosen)/(2*workers)))
	tiles := min(chunkTiles, (len(p.close)+tileBars-1)/tileBars)
	for i := range tiles {
		if need := (p.lag + laneBars) * lanes; len(p.tiles[i].sums) < need {
			p.tiles[i].sums = alignedFloats(need)
		}
	}
	for len(p.workspaces) < workers {
		p.workspaces = append(p.workspaces, new(workspace))
	}
	p.built.Store(0)
	p.group.Store(0)
	p.barrier.arrived.Store(0)
}

// work takes part in building the tiles, and in taking the combos through
// them, until the series ends or the sweep stops.
func (p *filteredPass) work(number int, m *meter) {
	w := p.workspaces[number]
	for begin := 0; begin < len(p.close); begin += chunkTiles * tileBars {
		tiles := min(chunkTiles, (len(p.close)-begin+tileBars-1)/tileBars)
		for !m.poll() {
			i := int(p.built.Add(1) - 1)
			if i >= tiles {
				break
			}
			p.tiles[i].build(p.close, begin+i*tileBars, p.lag, p.impl)
		}
		p.barrier.wait(p.count, &p.stop, &p.group)
		for {
			g := int(p.group.Add(1)-1) * p.size
			if g >= len(p.chosen) {
				break
			}
			group := p.chosen[g:min(g+p.size, len(p.chosen))]
			for i := range tiles {
				for c := range group {
					if m.poll() { // a tile of one combo can take a millisecond
						return
					}
					group[c].advance(&p.tiles[i], p.lag, p.close, p.fee, p.impl, w)
				}
			}
		}
		p.barrier.wait(p.count, &p.stop, &p.built)
		if p.stop.Load() {
			return
		}
	}
}

// barrier lets workers wait for each other. Waiting is spinning: it lasts no
// longer than a worker needs for a last tile or group.
type barrier struct {
	arrived atomic.Int64
	round   atomic.Int64
}

// wait returns when count workers have come, or the sweep has stopped. The
// last to come sets next to 0 before any goes on.
func (b *barrier) wait(count int, stop *atomic.Bool, next *atomic.Int64) {
	round := b.round.Load()
	if int(b.arrived.Add(1)) == count {
		b.arrived.Store(0)
		next.Store(0)
		b.round.Add(1)
		return
	}
	for b.round.Load() == round && !stop.Load() {
		runtime.Gosched()
	}
}
