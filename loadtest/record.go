package loadtest

import (
	"sync"
	"time"
)

// Outcome is how a call ended.
type Outcome uint8

// The outcomes.
const (
	Answered   Outcome = iota // with the right numbers
	Throttled                 // refused with 429 or 503: too much to do
	Refused                   // refused with another status
	WrongReply                // the numbers are wrong, or can't be read
	Broken                    // the connection broke
	TimedOut                  // no answer in time
	DialFailed                // there was no connection to send it on
	numOutcomes
)

var outcomeNames = [numOutcomes]string{"answered", "throttled", "refused", "wrong", "broken", "timed_out", "dial_failed"}

// String returns the outcome's name in reports and metrics.
func (o Outcome) String() string { return outcomeNames[o] }

// A Record is one call of a run. Times are since the start of the run, its
// warm-up included; those that a failed call did not reach are 0.
type Record struct {
	Call      *Call
	Outcome   Outcome
	Status    int           // as of HTTP
	Scheduled time.Duration // when it was meant to begin; in the closed model, when it began
	Free      time.Duration // when its connection was free for it
	Started   time.Duration // when it began
	Sent      time.Duration // when its first byte was handed over
	FirstByte time.Duration // when the first byte of the answer was there
	Done      time.Duration // when the last one was
	Decoded   time.Duration // when the caller had its numbers
	BytesOut  int           // of the request's body
	BytesIn   int           // of the answer's
	Warmup    bool          // it is not part of the results

	phases ServerTiming // all phases, the client's too
	err    error
}

// Latency is the time from the intended start to the numbers in hand.
func (r *Record) Latency() time.Duration { return r.Decoded - r.Scheduled }

// Service is the time from the start to the numbers in hand: what the caller
// would see if nobody had been before it.
func (r *Record) Service() time.Duration { return r.Decoded - r.Started }

// Lag is how much later the call began than it could have: what the load
// generator itself is to blame for.
func (r *Record) Lag() time.Duration { return r.Started - max(r.Scheduled, r.Free) }

// Phase returns the time of a phase, and whether the call was in it.
func (r *Record) Phase(p Phase) (time.Duration, bool) { return r.phases.Of(p) }

// Err is why the call failed; nil if it was answered.
func (r *Record) Err() error { return r.err }

// lateness is how much later than intended a call may begin and still count
// as punctual.
const lateness = time.Millisecond

// recorder adds up the records of a run.
type recorder struct {
	mu       sync.Mutex
	observe  func(*Record)
	progress func(Window)

	outcomes [numOutcomes]int64
	warmups  int64
	latency  histogram
	service  histogram
	refusals histogram
	lag      histogram
	phases   [numPhases]histogram
	late     int64
	bytesOut int64
	bytesIn  int64
	last     time.Duration // when the last measured call was over
	negative int64         // server phases longer than the call itself
	messages []string

	current histogram // latencies of the window that is being filled
	errors  int64     // and its failures
	windows []Window
}

// A Window is a part of a run, for those who look on.
type Window struct {
	Start  float64 `json:"start"` // seconds since the warm-up's end; below 0 during it
	Length float64 `json:"length"`
	Calls  int64   `json:"calls"` // answered
	Errors int64   `json:"errors"`
	P50    float64 `json:"p50"` // seconds of latency
	P99    float64 `json:"p99"`
}

// Rate is the number of answered calls a second.
func (w Window) Rate() float64 {
	if w.Length == 0 {
		return 0
	}
	return float64(w.Calls) / w.Length
}

const maxMessages = 5

func (r *recorder) add(rec *Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.observe != nil {
		r.observe(rec)
	}
	if rec.Outcome == Answered {
		r.current.add(rec.Latency())
	} else {
		r.errors++
	}
	if rec.err != nil && len(r.messages) < maxMessages && !seen(r.messages, rec.err.Error()) {
		r.messages = append(r.messages, rec.err.Error())
	}
	if rec.Warmup {
		r.warmups++
		return
	}
	r.outcomes[rec.Outcome]++
	r.last = max(r.last, rec.Decoded, rec.Done)
	r.lag.add(rec.Lag())
	if rec.Started-rec.Scheduled > lateness {
		r.late++
	}
	switch rec.Outcome {
	case Answered:
	case Throttled, Refused:
		r.refusals.add(rec.Done - rec.Scheduled)
		return
	default:
		return
	}
	r.latency.add(rec.Latency())
	r.service.add(rec.Service())
	r.bytesOut += int64(rec.BytesOut)
	r.bytesIn += int64(rec.BytesIn)
	for p := range numPhases {
		if spent, ok := rec.Phase(p); ok {
			if spent < 0 {
				r.negative++
				spent = 0
			}
			r.phases[p].add(spent)
		}
	}
}

func seen(messages []string, m string) bool {
	for _, s := range messages {
		if s == m {
			return true
		}
	}
	return false
}

// endWindow closes the current window, which began at start since the
// warm-up's end, and returns all that have begun since then.
func (r *recorder) endWindow(start, length time.Duration) []Window {
	r.mu.Lock()
	w := Window{Start: start.Seconds(), Length: length.Seconds(), Calls: r.current.count(), Errors: r.errors,
		P50: r.current.quantile(.5), P99: r.current.quantile(.99)}
	r.current.reset()
	r.errors = 0
	if start >= 0 {
		r.windows = append(r.windows, w)
	}
	windows := r.windows
	r.mu.Unlock()
	if r.progress != nil {
		r.progress(w)
	}
	return windows
}
