package loadtest

import (
	"fmt"
	"time"
)

// A Result is what a run has found. Durations are in seconds.
type Result struct {
	Scenario    string           `json:"scenario"`
	Boundary    string           `json:"boundary"`
	Format      string           `json:"format,omitempty"`
	Granularity Granularity      `json:"granularity"`
	PreEncoded  bool             `json:"pre_encoded"`
	Model       string           `json:"model"` // closed, or the pacer's
	Connections int              `json:"connections"`
	Began       time.Time        `json:"began"`
	Elapsed     float64          `json:"elapsed"` // from the warm-up's end to the last answer
	Warmups     int64            `json:"warmups"` // calls that are not part of the rest
	Outcomes    map[string]int64 `json:"outcomes"`
	Late        int64            `json:"late"`      // calls begun over 1 ms after their intended start
	Dropped     int64            `json:"dropped"`   // calls that were due and never began
	Dials       int64            `json:"dials"`     // connections opened
	Redials     int64            `json:"redials"`   // of which in the place of others
	Latency     Distribution     `json:"latency"`   // of answered calls, from the intended start
	Service     Distribution     `json:"service"`   // of answered calls, from the true start
	Refusals    Distribution     `json:"refusals"`  // of refused calls, from the intended start
	Phases      []PhaseTime      `json:"phases"`    // of answered calls
	BytesOut    int64            `json:"bytes_out"` // of answered calls' bodies
	BytesIn     int64            `json:"bytes_in"`
	Stable      bool             `json:"stable"` // the last three windows are within 10 %
	Windows     []Window         `json:"windows"`
	Failures    []string         `json:"failures,omitempty"` // the first that differ
	Self        SelfCheck        `json:"self"`
}

// PhaseTime is the time of one phase over all answered calls that were in it.
type PhaseTime struct {
	Phase string  `json:"phase"`
	Total float64 `json:"total"` // seconds
	Distribution
}

// Answered is the number of calls that got the right numbers.
func (r *Result) Answered() int64 { return r.Outcomes[Answered.String()] }

// Failed is the number of calls that did not.
func (r *Result) Failed() int64 {
	failed := int64(0)
	for name, n := range r.Outcomes {
		if name != Answered.String() {
			failed += n
		}
	}
	return failed
}

// Phase returns the time of a phase; zero if no call was in it.
func (r *Result) Phase(p Phase) PhaseTime {
	for _, t := range r.Phases {
		if t.Phase == p.String() {
			return t
		}
	}
	return PhaseTime{Phase: p.String()}
}

func (r *run) result(before usage) *Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := &Result{
		Scenario: r.Scenario.String(), Boundary: r.Boundary.Name(), Format: r.Format.Name, Granularity: r.Job.Granularity,
		PreEncoded: r.PreEncoded, Model: "closed", Connections: r.Connections,
		Elapsed: max(0, r.last-r.Warmup).Seconds(), Warmups: r.warmups, Outcomes: map[string]int64{},
		Late: r.late, Dropped: r.dropped(), Dials: r.dials.Load(), Redials: r.redials.Load(),
		Latency: r.latency.distribution(), Service: r.service.distribution(), Refusals: r.refusals.distribution(),
		BytesOut: r.bytesOut, BytesIn: r.bytesIn, Stable: stable(r.windows), Windows: r.windows, Failures: r.messages,
	}
	if r.Pacer != nil {
		result.Model = r.Pacer.Model()
	}
	for o, n := range r.outcomes {
		result.Outcomes[Outcome(o).String()] = n
	}
	for p := range r.phases {
		if h := &r.phases[p]; h.count() > 0 {
			result.Phases = append(result.Phases, PhaseTime{Phase(p).String(), h.sum.Seconds(), h.distribution()})
		}
	}
	result.Self = selfCheck(before, usageNow(), r.lag.distribution(), result.Service,
		float64(r.late)/float64(max(r.lag.count(), 1)), r.Pacer == nil, r.ownCost)
	warn := func(format string, args ...any) {
		result.Self.Warnings = append(result.Self.Warnings, fmt.Sprintf(format, args...))
	}
	if result.Redials > 0 {
		warn("connections were not all kept: %d were opened for %d callers", result.Dials, result.Connections)
	}
	if r.negative > 0 {
		warn("in %d calls the server claims to have spent more time than they took", r.negative)
	}
	return result
}
