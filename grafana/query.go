package grafana

import (
	"fmt"
	"strings"

	"texttax/middleware"
)

// interval is the window of rates: at least four scrapes, says Grafana.
const interval = "$__rate_interval"

// Selectors of what the dashboard's variables have chosen.
const (
	chosenInstance = `instance=~"$instance"`
	chosenEndpoint = chosenInstance + `,endpoint=~"$endpoint"`
	chosen         = chosenEndpoint + `,format=~"$format"`
)

// inPhases are the phases that count under the format of the request, and
// outPhases those under the format of the answer.
var inPhases, outPhases = splitPhases()

func splitPhases() (in, out string) {
	var names [2][]string
	for _, p := range middleware.Phases() {
		i := 0
		if p >= middleware.Encode {
			i = 1
		}
		names[i] = append(names[i], p.String())
	}
	return strings.Join(names[0], "|"), strings.Join(names[1], "|")
}

// notBoundary are the phases that are no cost of the boundary.
var notBoundary = middleware.Queue.String() + "|" + middleware.Compute.String()

// rate is the rate of all series of a metric that the matchers leave.
func rate(metric string, matchers ...string) string {
	return fmt.Sprintf("rate(%s{%s}[%s])", metric, strings.Join(matchers, ","), interval)
}

// sum adds up by labels, separated by commas; none adds up everything.
func sum(by, expression string) string {
	if by == "" {
		return "sum(" + expression + ")"
	}
	return fmt.Sprintf("sum by (%s) (%s)", by, expression)
}

// over divides two expressions with the same labels, and leaves out what would
// be a division by 0.
func over(numerator, denominator string) string {
	return fmt.Sprintf("%s / (%s > 0)", numerator, denominator)
}

// quantile of a classic histogram.
func quantile(q float64, by, metric string, matchers ...string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%g, %s) >= 0", q, sum(labels, rate(metric+"_bucket", matchers...)))
}

func phaseIs(p middleware.Phase) string { return fmt.Sprintf("phase=%q", p) }
func phaseIn(names string) string       { return fmt.Sprintf("phase=~%q", names) }
func phaseNotIn(names string) string    { return fmt.Sprintf("phase!~%q", names) }
func meanOf(by, metric string, m ...string) string {
	return over(sum(by, rate(metric+"_sum", m...)), sum(by, rate(metric+"_count", m...)))
}

// timePerRequest is the mean time of a request that goes into each phase,
// whether or not the request has been in it, so that the phases add up to the
// request's time. Each request is in decode, and each answer in transit_out:
// they count the requests of a format.
func timePerRequest(by string) string {
	part := func(phases string, counter middleware.Phase) string {
		labels := "phase"
		match := "() "
		if by != "" {
			labels, match = by+", phase", "("+by+") "
		}
		return fmt.Sprintf("%s / on %sgroup_left () (%s > 0)",
			sum(labels, rate(middleware.PhaseMetric+"_sum", chosen, phaseIn(phases))), match,
			sum(by, rate(middleware.PhaseMetric+"_count", chosen, phaseIs(counter))))
	}
	return part(inPhases, middleware.Decode) + " or " + part(outPhases, middleware.TransitOut)
}

// tax is the mean time of turning bytes into numbers and numbers into bytes.
func tax(by string, matchers ...string) string {
	with := func(p middleware.Phase) string {
		return meanOf(by, middleware.PhaseMetric, append([]string{phaseIs(p)}, matchers...)...)
	}
	return with(middleware.Decode) + " + " + with(middleware.Encode)
}

// taxRatio is the tax of each format over that of raw octets.
func taxRatio() string {
	return fmt.Sprintf("(%s) / on (endpoint) group_left () ((%s) > 0)",
		tax("endpoint, format", chosen), tax("endpoint", chosenEndpoint, fmt.Sprintf("format=%q", octet)))
}

// octet is the format that the others are compared with.
const octet = "octet"

// boundaryShare is the part of the time of sweeps that is neither in the
// kernel nor in the queue.
func boundaryShare() string {
	const sweeps = chosenInstance + `,endpoint="sweep",format=~"$format"`
	return over(
		sum("format", rate(middleware.PhaseMetric+"_sum", sweeps, phaseNotIn(notBoundary))),
		sum("format", rate(middleware.PhaseMetric+"_sum", sweeps)))
}

// perCombo is the time at the boundary for each combo, in requests for one and
// in requests for many.
func perCombo() string {
	const sweeps = chosenInstance + `,format=~"$format"`
	return over(
		sum("format, combos", rate(middleware.ComboSecondsMetric, sweeps, fmt.Sprintf("part=%q", middleware.BoundaryPart))),
		sum("format, combos", rate(middleware.CombosMetric, sweeps)))
}

// comboShare is the boundary's part of the time in requests for one combo and
// in requests for many.
func comboShare() string {
	const sweeps = chosenInstance + `,format=~"$format"`
	return over(
		sum("format, combos", rate(middleware.ComboSecondsMetric, sweeps, fmt.Sprintf("part=%q", middleware.BoundaryPart))),
		sum("format, combos", rate(middleware.ComboSecondsMetric, sweeps)))
}
