package loadtest

import (
	"strings"
	"testing"
	"time"
)

func TestWhenTheGeneratorIsTheBottleneck(t *testing.T) {
	from := usage{}
	quiet := usage{at: 10 * time.Second, cpu: time.Second, starved: 100 * time.Millisecond, gcs: 3, pauses: time.Millisecond}
	service := Distribution{Count: 1, P50: 40e-6}
	for name, test := range map[string]struct {
		change func(to *usage, lag *Distribution, late *float64, closed *bool)
		bound  bool
		want   string // of the warnings
	}{
		"quiet":                      {func(*usage, *Distribution, *float64, *bool) {}, false, ""},
		"late":                       {func(_ *usage, lag *Distribution, _ *float64, _ *bool) { lag.P99 = 1.1e-3 }, true, "1.1 ms late"},
		"busy":                       {func(to *usage, _ *Distribution, _ *float64, _ *bool) { to.cpu = 1000 * time.Second }, true, "of its cores"},
		"collecting":                 {func(to *usage, _ *Distribution, _ *float64, _ *bool) { to.pauses = time.Second }, true, "garbage"},
		"starved, in the schedule":   {func(to *usage, _ *Distribution, _ *float64, _ *bool) { to.starved = 4 * time.Second }, false, "waited for one 80 %"},
		"starved, behind schedule":   {func(to *usage, _ *Distribution, late *float64, _ *bool) { to.starved, *late = 4*time.Second, 0.5 }, true, "waited for one 80 %"},
		"starved, without schedule":  {func(to *usage, _ *Distribution, _ *float64, closed *bool) { to.starved, *closed = 4*time.Second, true }, true, "waited for one 80 %"},
		"starvation is not told":     {func(to *usage, _ *Distribution, _ *float64, _ *bool) { to.starved = -1 }, false, ""},
		"threads ended meanwhile":    {func(to *usage, _ *Distribution, _ *float64, _ *bool) { to.starved = 0 }, false, ""},
		"behind by the server alone": {func(_ *usage, _ *Distribution, late *float64, _ *bool) { *late = 0.5 }, false, ""},
	} {
		to, lag, late, closed := quiet, Distribution{P99: 0.2e-3}, 0.0, false
		test.change(&to, &lag, &late, &closed)
		s := selfCheck(from, to, lag, service, late, closed, time.Microsecond)
		warnings := strings.Join(s.Warnings, "\n")
		if s.Bound != test.bound || !strings.Contains(warnings, test.want) || test.want == "" && warnings != "" {
			t.Errorf("%s: bound %v, %q", name, s.Bound, warnings)
		}
	}
	if s := selfCheck(from, quiet, Distribution{}, service, 0, true, 5*time.Microsecond); s.Bound || !strings.Contains(strings.Join(s.Warnings, ""), "own cost is 5.0 us of a call's 40.0 us") {
		t.Errorf("a generator that costs an eighth of a call: %+v", s)
	}
}

// Nothing but the generator's own arithmetic is in its own cost.
func TestTheOwnCostOfACallIsFarBelowAnyCall(t *testing.T) {
	if cost := ownCost(); cost <= 0 || cost > 100*time.Microsecond {
		t.Errorf("a call costs the generator %v", cost)
	}
}
