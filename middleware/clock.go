package middleware

import (
	"strconv"
	"time"
)

// Phase is what a request's time goes into. At each moment a request is in
// just one.
type Phase uint8

// The phases, in the order in which a request goes through them.
const (
	TransitIn  Phase = iota // blocked on the bytes of the body
	Decompress              // undoing the Content-Encoding
	Decode                  // from routing and negotiation to a checked request
	Queue                   // waiting for a compute slot
	Compute                 // in the kernel
	Encode                  // from results to the bytes of the answer
	Compress                // doing the Content-Encoding
	TransitOut              // handing the answer to the operating system
	numPhases
)

var phaseNames = [numPhases]string{
	"transit_in", "decompress", "decode", "queue", "compute", "encode", "compress", "transit_out",
}

// String returns the phase's name in metrics and in Server-Timing.
func (p Phase) String() string { return phaseNames[p] }

// Phases returns all phases in order.
func Phases() []Phase {
	all := make([]Phase, numPhases)
	for i := range all {
		all[i] = Phase(i)
	}
	return all
}

// Clock splits one request's time into phases. It always runs in exactly one
// phase, from Start to Stop, so that the phases never overlap and leave no
// gap: what belongs to no other phase counts as part of the one around it.
//
// A Clock belongs to the goroutine that serves the request.
type Clock struct {
	spent   [numPhases]time.Duration
	entered [numPhases]bool
	current Phase
	since   time.Duration // these two since epoch
	started time.Duration
	wall    time.Duration
}

// epoch is when the clocks' time begins. Time since then costs half of what
// time.Now does, which also reads the time of day.
var epoch = time.Now()

// Start starts the clock in a phase, with nothing spent.
func (c *Clock) Start(p Phase) {
	now := time.Since(epoch)
	*c = Clock{current: p, since: now, started: now}
	c.entered[p] = true
}

// Enter ends the current phase, begins p, and returns the phase that ended.
func (c *Clock) Enter(p Phase) Phase {
	now := time.Since(epoch)
	ended := c.current
	c.spent[ended] += now - c.since
	c.current, c.since = p, now
	c.entered[p] = true
	return ended
}

// Move counts d of the time spent in one phase, the current one included, as
// spent in another.
func (c *Clock) Move(from, to Phase, d time.Duration) {
	c.Enter(c.current)
	d = min(d, c.spent[from])
	c.spent[from] -= d
	c.spent[to] += d
}

// Stop ends the current phase and the request.
func (c *Clock) Stop() {
	c.Enter(c.current)
	c.wall = c.since - c.started
}

// Spent returns the time spent in a phase until its last end, and whether the
// request has been in it at all.
func (c *Clock) Spent(p Phase) (time.Duration, bool) { return c.spent[p], c.entered[p] }

// Wall returns the time from Start to Stop: the sum of all phases.
func (c *Clock) Wall() time.Duration { return c.wall }

// ServerTiming returns the value of the Server-Timing header: the phases that
// the request has been in, in milliseconds, without transit_out, which has no
// end before the header is sent. The current phase counts up to now.
func (c *Clock) ServerTiming() string {
	c.Enter(c.current)
	var room [256]byte
	out := room[:0]
	for p := range TransitOut {
		if !c.entered[p] {
			continue
		}
		if len(out) > 0 {
			out = append(out, ", "...)
		}
		out = append(out, phaseNames[p]...)
		out = append(out, ";dur="...)
		out = appendMilliseconds(out, c.spent[p])
	}
	return string(out)
}

// appendMilliseconds appends d in milliseconds with six decimals: to the
// nanosecond.
func appendMilliseconds(out []byte, d time.Duration) []byte {
	const millisecond = int64(time.Millisecond)
	out = strconv.AppendInt(out, int64(d)/millisecond, 10)
	// A leading 1 keeps the zeros, and gives its place to the point.
	out = strconv.AppendInt(out, millisecond+int64(d)%millisecond, 10)
	out[len(out)-7] = '.'
	return out
}
