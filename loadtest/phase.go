package loadtest

import (
	"strconv"
	"strings"
	"time"
)

// Phase is what a call's time goes into, as its caller sees it. At each moment
// a call is in just one.
type Phase uint8

// The phases, in the order in which a call goes through them. Transit is in
// two parts, before and after the server's.
const (
	ClientEncode Phase = iota // from numbers to the bytes of the request
	Transit                   // the wire and both its ends: what neither side calls its own
	Decompress                // the server's: undoing the Content-Encoding
	Decode                    // the server's: from bytes to numbers
	Queue                     // the server's: waiting for a compute slot
	Compute                   // the server's kernel, or ours in process
	Encode                    // the server's: from results to bytes
	Compress                  // the server's: doing the Content-Encoding
	ClientDecode              // from the bytes of the answer to numbers
	Unsplit                   // transit and server in one, where the server does not tell its phases
	numPhases
)

var phaseNames = [numPhases]string{
	"client_encode", "transit", "decompress", "decode", "queue", "compute", "encode", "compress", "client_decode", "unsplit",
}

// String returns the phase's name in reports and metrics.
func (p Phase) String() string { return phaseNames[p] }

// Phases returns all phases in order.
func Phases() []Phase {
	all := make([]Phase, numPhases)
	for i := range all {
		all[i] = Phase(i)
	}
	return all
}

// ServerTiming is what a server says of its phases, Decompress to Compress.
type ServerTiming struct {
	spent [numPhases]time.Duration
	known [numPhases]bool
}

func (t *ServerTiming) set(p Phase, d time.Duration) { t.spent[p], t.known[p] = t.spent[p]+d, true }

// Of returns the time of a phase, and whether the server told it.
func (t *ServerTiming) Of(p Phase) (time.Duration, bool) { return t.spent[p], t.known[p] }

// Known tells whether the server told any phase.
func (t *ServerTiming) Known() bool {
	for _, k := range t.known {
		if k {
			return true
		}
	}
	return false
}

// sum is the time of all phases.
func (t *ServerTiming) sum() time.Duration {
	total := time.Duration(0)
	for _, d := range t.spent {
		total += d
	}
	return total
}

// parse adds what a Server-Timing header says of phases that we know. What it
// says of others, and what is no duration, is left out: the server's own
// transit is a part of ours.
func (t *ServerTiming) parse(header string) {
	for header != "" {
		var metric string
		metric, header, _ = strings.Cut(header, ",")
		name, parameters, _ := strings.Cut(strings.TrimSpace(metric), ";")
		for p := Decompress; p <= Compress; p++ {
			if phaseNames[p] != name {
				continue
			}
			for parameters != "" {
				var parameter string
				parameter, parameters, _ = strings.Cut(parameters, ";")
				if text, ok := strings.CutPrefix(strings.TrimSpace(parameter), "dur="); ok {
					if ms, err := strconv.ParseFloat(text, 64); err == nil && ms >= 0 && ms < 1e9 {
						t.set(p, time.Duration(ms*1e6+0.5))
					}
				}
			}
		}
	}
}
