package loadtest

import (
	"fmt"
	"runtime"
	"time"
)

// A SelfCheck is what the load generator says of itself: whether the numbers
// are the server's, or its own.
type SelfCheck struct {
	CPUSeconds   float64      `json:"cpu_seconds"` // of this process, during the run
	CPUShare     float64      `json:"cpu_share"`   // of the cores that it may use
	Starved      float64      `json:"starved"`     // of the time that its threads wanted a core they waited for one; -1 if not known
	ScheduleLag  Distribution `json:"schedule_lag"`
	GCs          uint32       `json:"gcs"`
	GCPauseShare float64      `json:"gc_pause_share"` // of the run's time
	OwnCost      float64      `json:"own_cost"`       // seconds of its own that a call takes at least
	Warnings     []string     `json:"warnings,omitempty"`
	Bound        bool         `json:"generator_bound"` // the generator was the bottleneck
}

// The limits beyond which a run's numbers are rather the generator's.
const (
	maxLagP99   = time.Millisecond
	maxCPUShare = 0.85
	maxStarved  = 0.5
	anyStarved  = 0.2 // of which to warn
	maxLate     = 0.1
	maxGCPause  = 0.02
	maxOwnShare = 0.1 // of a call's median
)

// usage is what this process has used up so far.
type usage struct {
	at      time.Duration
	cpu     time.Duration
	starved time.Duration // -1 if not known
	gcs     uint32
	pauses  time.Duration
}

func usageNow() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{Now(), ownCPU(), ownStarvation(), m.NumGC, time.Duration(m.PauseTotalNs)}
}

// selfCheck compares what has been used since the start of a run with what a
// trustworthy run may use. late is the share of calls that began late, for
// whatever reason; in the closed model none can.
func selfCheck(from, to usage, lag, service Distribution, late float64, closed bool, ownCost time.Duration) SelfCheck {
	wall := max((to.at - from.at).Seconds(), 1e-9)
	s := SelfCheck{
		CPUSeconds: (to.cpu - from.cpu).Seconds(), Starved: -1, ScheduleLag: lag,
		GCs: to.gcs - from.gcs, GCPauseShare: (to.pauses - from.pauses).Seconds() / wall, OwnCost: ownCost.Seconds(),
	}
	s.CPUShare = s.CPUSeconds / wall / float64(min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	if from.starved >= 0 && to.starved >= 0 {
		// Threads that have ended have taken their counts with them.
		waited := max(0, (to.starved - from.starved).Seconds())
		s.Starved = waited / max(waited+s.CPUSeconds, 1e-9)
	}
	bound := func(format string, args ...any) {
		s.Bound = true
		s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
	}
	if lag.P99 > maxLagP99.Seconds() {
		bound("calls began up to %.1f ms late (p99) although a connection was free: the generator could not keep its schedule", lag.P99*1e3)
	}
	if s.CPUShare > maxCPUShare {
		bound("the generator itself used %.0f %% of its cores", 100*s.CPUShare)
	}
	if s.Starved > anyStarved {
		s.Warnings = append(s.Warnings, fmt.Sprintf("of the time that the generator wanted a core it waited for one %.0f %%: others, of which the server may be one, keep this machine busy", 100*s.Starved))
		// A schedule that was kept all the same shows that it did no harm.
		s.Bound = s.Bound || s.Starved > maxStarved && (closed || late > maxLate)
	}
	if s.GCPauseShare > maxGCPause {
		bound("garbage collection stopped the generator %.1f %% of the time", 100*s.GCPauseShare)
	}
	if service.Count > 0 && s.OwnCost > maxOwnShare*service.P50 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("the generator's own cost is %.1f us of a call's %.1f us", s.OwnCost*1e6, service.P50*1e6))
	}
	return s
}
