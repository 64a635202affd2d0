package loadtest

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteSummary writes a result for people to read.
func WriteSummary(out io.Writer, r *Result) error {
	rate := 0.0
	if r.Elapsed > 0 {
		rate = float64(r.Answered()) / r.Elapsed
	}
	fmt.Fprintf(out, "%s, %s model, %s in %.2f s\n", r.Scenario, r.Model, count(r.Connections, "connection"), r.Elapsed)
	fmt.Fprintf(out, "answered %d, %.1f/s, all with the numbers of the kernel in this process\n", r.Answered(), rate)
	fmt.Fprintf(out, "sent %s, got %s\n", bytesOf(r.BytesOut), bytesOf(r.BytesIn))
	if r.Model != "closed" {
		fmt.Fprintf(out, "begun over 1 ms late: %d; due and never begun: %d\n", r.Late, r.Dropped)
	}
	if r.Failed() > 0 {
		fmt.Fprintf(out, "NOT answered: %d, in none of the latencies below\n", r.Failed())
		for o := Throttled; o < numOutcomes; o++ {
			if n := r.Outcomes[o.String()]; n > 0 {
				fmt.Fprintf(out, "  %s: %d\n", outcomeMeanings[o], n)
			}
		}
		for _, f := range r.Failures {
			fmt.Fprintf(out, "  %s\n", f)
		}
	}
	rows := [][]string{{"", "", "mean", "p50", "p75", "p90", "p99", "max"}}
	row := func(name, remark string, d Distribution) {
		if d.Count > 0 {
			rows = append(rows, []string{name, remark, Seconds(d.Mean), Seconds(d.P50), Seconds(d.P75), Seconds(d.P90), Seconds(d.P99), Seconds(d.Max)})
		}
	}
	if r.Model != "closed" {
		row("latency", "from the intended start", r.Latency)
		row("service", "from the true start", r.Service)
	} else {
		row("latency", "", r.Latency)
	}
	row("refusals", "", r.Refusals)
	total := 0.0
	for _, p := range r.Phases {
		total += p.Total
	}
	for _, p := range r.Phases {
		row(p.Phase, fmt.Sprintf("%.1f %%", 100*p.Total/max(total, 1e-12)), p.Distribution)
	}
	if err := WriteColumns(out, rows); err != nil {
		return err
	}
	if strings.HasPrefix(r.Boundary, "https") {
		fmt.Fprintln(out, "transit includes TLS on both sides")
	}
	s := r.Self
	fmt.Fprintf(out, "generator: %.2f s of CPU, %.0f %% of its cores; %d collections of garbage; %s a call of its own; %s opened",
		s.CPUSeconds, 100*s.CPUShare, s.GCs, Seconds(s.OwnCost), count(int(r.Dials), "connection"))
	if r.Model != "closed" {
		fmt.Fprintf(out, "; schedule lag p50 %s, p99 %s", Seconds(s.ScheduleLag.P50), Seconds(s.ScheduleLag.P99))
	}
	fmt.Fprintln(out)
	for _, warning := range s.Warnings {
		fmt.Fprintf(out, "  %s\n", warning)
	}
	if s.Bound {
		_, err := fmt.Fprintln(out, "THE GENERATOR WAS THE BOTTLENECK: these are not the server's numbers")
		return err
	}
	_, err := fmt.Fprintln(out, "the generator was not the bottleneck")
	return err
}

var outcomeMeanings = [numOutcomes]string{
	Throttled: "refused with 429 or 503", Refused: "refused", WrongReply: "wrong", Broken: "connection broke",
	TimedOut: "no answer in time", DialFailed: "no connection",
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Seconds writes seconds as people do: in s, ms or us.
func Seconds(seconds float64) string {
	d := time.Duration(seconds * 1e9)
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", seconds)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", seconds*1e3)
	}
	return fmt.Sprintf("%.1f us", seconds*1e6)
}

func bytesOf(n int64) string {
	switch {
	case n >= 10e9:
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	case n >= 10e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 10e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d bytes", n)
}
