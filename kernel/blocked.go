package kernel

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// implementation is one way to run the inner loops of the filtered sweep. What
// they do is said at their Go versions, in simd_go.go.
type implementation struct {
	name     string
	build    func(sums, closes *float64, rows int, m *maxima)
	filter   func(sums *float64, f *signFilter, m *maxima, s *sides)
	prefix   func(dst, x *float64, steps *prefixStep, n, at int)
	combine2 func(dst, a, b *float64, n int)
	combine3 func(dst, a, b, c *float64, n int)
	compare  func(hma, hma3 *float64, s *sides)
	find     func(f *flips, up *[lanes]uint64, before uint64) int
}

// sides are what the bars of a tile say: a word of each lane, in which a bit of
// each bar tells that its side is up, or down.
type sides struct {
	up, down [lanes]uint64
}

// filtered is a combo on its way through the series.
type filtered struct {
	signFilter
	position
	params   *Params
	place    int // among the combos of the pass
	patience int // uncertain bars of a tile that are decided one by one

	// hostility counts the chunk's hostile tiles less those that were not. From
	// restAt on, the combo goes without its filter until the chunk ends.
	hostility atomic.Int32
}

// hostileBars is the number of uncertain bars from which on a tile is hostile.
const (
	hostileBars = tileBars / 4
	restAt      = 4
)

// patienceFor returns up to how many uncertain bars of a tile are decided one
// by one. Beyond it an exactBlock, which decides all, is cheaper: it does many
// more multiply-adds, but a dozen of them in the time of one of decide's, each
// of which waits for the one before.
func patienceFor(p *Params) int {
	const faster = 12
	one := p[HMASmooth]*(p[HMAHalf]+p[HMAFull]) + p[HMA3Full]*(p[HMA3Third]+p[HMA3Half]+p[HMA3Full])
	return int(exactCost(p) / (faster * one))
}

// exactCost is what an exactBlock of the combo alone costs, in multiply-adds.
func exactCost(p *Params) int64 {
	second := p[HMASmooth] + p[HMA3Full]
	first := max(p[HMAHalf], p[HMAFull], p[HMA3Third], p[HMA3Half], p[HMA3Full])
	return tileBars*(first+second) + first*max(p[HMASmooth], p[HMA3Full])
}

// filterCost is what a filter of a tile costs, in multiply-adds.
const filterCost = tileBars * maxTerms

// filterTile finds the sides of the tile's bars by the filter, and tells
// whether all are found that the combo needs.
func (c *filtered) filterTile(t *tile, lag int, closes []float64, s *sides, impl *implementation) bool {
	impl.filter(&t.sums[lag*lanes], &c.signFilter, &t.max, s)
	all := ^uint64(0)
	for lane := range lanes {
		all &= s.up[lane] | s.down[lane]
	}
	if all == ^uint64(0) {
		c.calm()
		return true
	}
	uncertain := 0
	var open [lanes]uint64
	for lane := range open {
		open[lane] = barsBetween(t.first+lane*laneBars, c.warm, len(closes)) &^ (s.up[lane] | s.down[lane])
		uncertain += bits.OnesCount64(open[lane])
	}
	if uncertain >= hostileBars {
		c.hostility.Add(1)
	} else {
		c.calm()
	}
	if uncertain > c.patience {
		return false
	}
	for lane, word := range open {
		for ; word != 0; word &= word - 1 {
			bit := bits.TrailingZeros64(word)
			switch decide(closes, c.params, t.first+lane*laneBars+bit) {
			case +1:
				s.up[lane] |= 1 << bit
			case -1:
				s.down[lane] |= 1 << bit
			}
		}
	}
	return true
}

// calm counts a tile that was not hostile.
func (c *filtered) calm() {
	if c.hostility.Load() > 0 { // or many workers would write to it all the time
		c.hostility.Add(-1)
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

// The series is taken a chunk of tiles at a time, all combos together. First
// the workers find the sides of the tiles, each of a tile at a time: its sums
// stay in the worker's cache for all combos. Then they play the combos, each of
// a group of combos at a time: a position needs the sides in their order.
const (
	chunkTiles  = 64
	chunkCombos = 1 << 10 // of a pass over the series; more take further passes
	chunkSides  = 1 << 12 // of a chunk
	// A tile is shared out if there are too few for all workers to have work
	// until the end. Its sums cost as much as a few combos.
	tasksAWorker = 4
	leastShare   = 16
	// shareCost bounds a task whose combos must all be decided by exact blocks, in
	// their multiply-adds: in between no other sweep has its turn.
	shareCost = 50 << 20
	// worthAWorker is the number of tiles of a combo for which one more worker
	// is woken.
	worthAWorker = 256
	// fewBars is the length below which a tile would be mostly empty, and the
	// reference is as fast.
	fewBars = 256
)

// workspace is what one worker needs for a tile.
type workspace struct {
	tile  tile
	hard  []*filtered // combos that the filter has not decided
	exact exactBlock
	flips flips
}

// lagClasses is the number of classes of lags: up to 256, 512 and so on.
const lagClasses = 4

// lagClass puts combos together whose lags are alike, since the sums of all
// begin as far back as the longest lag among them asks for.
func lagClass(lag int) int { return max(0, bits.Len(uint(lag-1))-8) }

// filteredPass runs combos of a lag class, chunk by chunk.
type filteredPass struct {
	*sweep
	impl *implementation

	places []int // of the combos in the sweep
	chosen []filtered
	lag    int // the longest of the combos
	count  int // workers
	chunk  int // tiles of a chunk
	share  int // combos whose sides at a tile are found together
	group  int // combos that are played together

	sides      []sides      // of the chunk: of the combos of its first tile, of its second and so on
	workspaces []*workspace // one a worker

	taken   atomic.Int64 // shares of the chunk's tiles that have been taken
	tiles   atomic.Int64 // of the chunk; fewer once its turn is over
	began   time.Time    // the chunk
	played  atomic.Int64 // groups of combos that have been taken
	barrier barrier
}

// giveBack lets go of the caller's combos. The rest is bounded by the lag, the
// combos and the sides of a pass, but for the places.
func (p *filteredPass) giveBack() {
	chosen := p.chosen[:cap(p.chosen)]
	for i := range chosen {
		chosen[i].params = nil
	}
	if cap(p.places) > keptCombos {
		p.places = nil
	}
}

// run runs all combos that have a filter, class by class, and leaves the
// others to the reference.
func (p *filteredPass) run(impl *implementation, workers int) {
	p.impl = impl
	for class := range lagClasses {
		p.places = p.places[:0]
		for c := range p.combos {
			if !fitsFilter(&p.combos[c]) {
				if class == 0 {
					p.reference.places = append(p.reference.places, c)
				}
			} else if lagClass(filterLag(&p.combos[c])) == class {
				p.places = append(p.places, c)
			}
		}
		for rest := p.places; len(rest) > 0; rest = rest[min(len(rest), chunkCombos):] {
			places := rest[:min(len(rest), chunkCombos)]
			p.prepare(places, workers)
			p.each(p.count, p)
			if p.stop.Load() {
				return
			}
			for i, place := range places {
				c := &p.chosen[i]
				p.out.PnL[place], p.out.Trades[place], p.out.Open[place] = c.pnl, c.trades, c.open
			}
		}
	}
}

// prepare takes combos of a class, for at most so many workers.
func (p *filteredPass) prepare(places []int, workers int) {
	p.chosen, p.lag = resize(p.chosen, len(places)), 0
	worst := int64(0)
	for i, place := range places {
		params := &p.combos[place]
		p.lag = max(p.lag, filterLag(params))
		worst += exactCost(params)
		p.chosen[i] = filtered{signFilter: newSignFilter(params), params: params, place: i, patience: patienceFor(params)}
	}
	tiles := tilesOf(len(p.close))
	p.count = min(workers, Workers(len(p.close), len(places)))
	p.chunk = min(chunkTiles, chunkSides/len(places), tiles)
	p.share = len(places)
	if least := tasksAWorker * p.count; p.chunk < least {
		p.share = max(leastShare, (len(places)*p.chunk+least-1)/least)
	}
	if most := int(shareCost * int64(len(places)) / worst); p.share > most {
		p.share = max(leastShare, most)
	}
	p.group = max(1, min(8, len(places)/(2*p.count)))
	p.sides = resize(p.sides, p.chunk*len(places))
	for len(p.workspaces) < p.count {
		p.workspaces = append(p.workspaces, new(workspace))
	}
	for _, w := range p.workspaces[:p.count] {
		if need := (p.lag + laneBars) * lanes; len(w.tile.sums) < need {
			w.tile.sums = alignedFloats(need)
		}
	}
	p.beginChunk()
	p.played.Store(0)
	p.barrier.arrived.Store(0)
}

func (p *filteredPass) beginChunk() {
	p.taken.Store(0)
	p.tiles.Store(int64(p.chunk))
	if p.turn > 0 {
		p.began = time.Now()
	}
}

// endTurn leaves tiles of which no share is taken to the next chunk if the turn
// is over. A share that somebody takes meanwhile is found again then.
func (p *filteredPass) endTurn(shares int) {
	if p.turn == 0 || time.Since(p.began) < p.turn {
		return
	}
	begun := (p.taken.Load() + int64(shares) - 1) / int64(shares)
	for {
		tiles := p.tiles.Load()
		if begun >= tiles || p.tiles.CompareAndSwap(tiles, begun) {
			return
		}
	}
}

// work takes part in finding the sides of each chunk, and in playing them,
// until the series ends or the sweep stops.
func (p *filteredPass) work(number int, m *meter) {
	w := p.workspaces[number]
	shares := (len(p.chosen) + p.share - 1) / p.share
	for begin, tiles := 0, 0; begin < len(p.close); begin += tiles * tileBars {
		left := tilesOf(len(p.close) - begin)
		for !m.poll() {
			task := int(p.taken.Add(1) - 1)
			if task >= min(int(p.tiles.Load()), left)*shares {
				break
			}
			p.findSides(w, begin, task/shares, task%shares*p.share, m)
			p.endTurn(shares)
		}
		p.barrier.wait(p.count, &p.stop, func() { p.played.Store(0) })
		if p.stop.Load() {
			return
		}
		tiles = min(int(p.tiles.Load()), left)
		for !m.poll() {
			from := int(p.played.Add(1)-1) * p.group
			if from >= len(p.chosen) {
				break
			}
			for i := from; i < min(from+p.group, len(p.chosen)); i++ {
				p.play(&p.chosen[i], w, begin, tiles)
			}
		}
		p.barrier.wait(p.count, &p.stop, func() {
			p.pause(p.count)
			p.beginChunk()
		})
		if p.stop.Load() {
			return
		}
	}
}

// findSides finds the sides of a share of the combos, from one on, at tile i of
// the chunk that begins at bar begin.
func (p *filteredPass) findSides(w *workspace, begin, i, from int, m *meter) {
	first := begin + i*tileBars
	w.tile.build(p.close, first, p.lag, p.impl)
	sides := p.sides[i*len(p.chosen):][:len(p.chosen)]
	w.hard = w.hard[:0]
	for k := from; k < min(from+p.share, len(p.chosen)); k++ {
		c := &p.chosen[k]
		if c.hostility.Load() >= restAt || !c.filterTile(&w.tile, p.lag, p.close, &sides[k], p.impl) {
			w.hard = append(w.hard, c)
		}
		if m.spend(filterCost) {
			return
		}
	}
	w.exact.decideTile(p.close, first, w.hard, sides, p.impl, m)
}

// play trades a combo through the chunk.
func (p *filteredPass) play(c *filtered, w *workspace, begin, tiles int) {
	for i := range tiles {
		first := begin + i*tileBars
		s := &p.sides[i*len(p.chosen)+c.place]
		if first < c.warm || first+tileBars > len(p.close) {
			for lane := range lanes {
				known := barsBetween(first+lane*laneBars, c.warm, len(p.close))
				s.up[lane] &= known
				s.down[lane] &= known
			}
		}
		c.position.play(p.close[first:], s, p.fee, &w.flips, p.impl)
	}
	// The next chunk's first tile tells whether it goes on like this.
	c.hostility.Store(min(c.hostility.Load(), restAt-1))
}

// barrier lets workers wait for each other. They spin at first, since a wait is
// no longer than another's last tile as long as all of them run; then they
// sleep.
type barrier struct {
	arrived atomic.Int64
	round   atomic.Int64

	mu   sync.Mutex
	turn sync.Cond // the round has changed, or a worker has left
}

const spins = 200

// wait returns when count workers have come, or the sweep has stopped. The
// last to come calls last before any goes on.
func (b *barrier) wait(count int, stop *atomic.Bool, last func()) {
	round := b.round.Load()
	if int(b.arrived.Add(1)) == count {
		b.arrived.Store(0)
		if !stop.Load() { // or not all may have come
			last()
		}
		b.mu.Lock()
		b.round.Add(1)
		b.turn.Broadcast()
		b.mu.Unlock()
		return
	}
	for range spins {
		if b.round.Load() != round || stop.Load() {
			return
		}
		runtime.Gosched()
	}
	b.mu.Lock()
	for b.round.Load() == round && !stop.Load() {
		b.turn.Wait()
	}
	b.mu.Unlock()
}

// leave wakes those who wait for a worker that has ended. If it did so before
// the last round, the sweep has stopped.
func (b *barrier) leave() {
	b.mu.Lock() // so that nobody is between looking at stop and sleeping
	b.turn.Broadcast()
	b.mu.Unlock()
}
