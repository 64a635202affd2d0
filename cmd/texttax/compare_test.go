//go:build prometheus

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"texttax/encoding"
)

// compare holds the panels to what the driver has measured.
func (d *driver) compare(t *testing.T, p *scraper, window time.Duration) {
	t.Helper()
	phases := []string{"transit_in", "decode", "queue", "compute", "encode"}
	stacks := p.panel(t, "Where a request's time goes", window)[0]
	ratios := p.panel(t, "Text tax: times the cost of octets", window)[0]
	shares := p.panel(t, "Share of the boundary", window)[0]
	transits := p.panel(t, "Transit, by the client and by the server", window)
	perBar := p.panel(t, "Bytes per bar", window)[0]
	perCombo := p.panel(t, "Boundary per combo", window)[0]
	means := map[string]float64{}
	for _, s := range p.query(t, "endpoint_format_phase:texttax_phase_duration_seconds:mean5m", 0) {
		means[s.labels["endpoint"]+" "+s.labels["format"]+" "+s.labels["phase"]] = s.value
	}
	tax := func(endpoint, format string) float64 {
		return meanOf(d.spent[endpoint+" "+format+" decode"]) + meanOf(d.spent[endpoint+" "+format+" encode"])
	}
	for _, format := range encoding.Names() {
		wall := append(slices.Clone(d.wall["echo "+format]), d.wall["sweep "+format]...)
		height := 0.0
		for _, phase := range phases {
			spent := append(slices.Clone(d.spent["echo "+format+" "+phase]), d.spent["sweep "+format+" "+phase]...)
			got, want := stacks[format+" "+phase], total64(spent)/float64(len(wall))
			if !within(got, want, 0.1) {
				t.Errorf("%s of %s: %v s a request in the stack, %v s by the driver", phase, format, got, want)
			}
			height += got
			for _, endpoint := range []string{"echo", "sweep"} {
				key := endpoint + " " + format + " " + phase
				if own := d.spent[key]; len(own) > 0 && !within(means[key], meanOf(own), 0.1) {
					t.Errorf("%s: mean of %v s by the rule, %v s by the driver", key, means[key], meanOf(own))
				}
			}
		}
		// The header can't have transit_out: for it the panels and the rules must
		// agree. It is no part of the client's time: a client may have its answer
		// before the server's write has returned.
		out := func(endpoint string) float64 {
			return means[endpoint+" "+format+" transit_out"] * float64(len(d.wall[endpoint+" "+format]))
		}
		if got, want := stacks[format+" transit_out"], (out("echo")+out("sweep"))/float64(len(wall)); !within(got, want, 0.1) || want <= 0 {
			t.Errorf("transit_out of %s: %v s a request in the stack, %v s by the rules", format, got, want)
		}
		if height > meanOf(wall) || height < 0.2*meanOf(wall) {
			t.Errorf("%s: a request takes %v s in the stack without transit_out, and its client waits %v s", format, height, meanOf(wall))
		}
		for _, endpoint := range []string{"echo", "sweep"} {
			got, want := ratios[endpoint+" "+format], tax(endpoint, format)/tax(endpoint, "octet")
			if !within(got, want, 0.1) {
				t.Errorf("%s at %s: tax ratio %v, %v by the driver", format, endpoint, got, want)
			}
		}
		boundary, whole := out("sweep"), out("sweep")
		for _, phase := range phases {
			spent := total64(d.spent["sweep "+format+" "+phase])
			whole += spent
			if phase != "queue" && phase != "compute" {
				boundary += spent
			}
		}
		if got := shares[format]; !within(got, boundary/whole, 0.1) {
			t.Errorf("%s: the boundary's share is %v, not %v", format, got, boundary/whole)
		}
		if got, want := perBar[format], d.sent[format][0]/d.sent[format][1]; !within(got, want, 0.01) {
			t.Errorf("%s: %v bytes a bar, %v by the driver", format, got, want)
		}
		if got, want := transits[1][format], meanOf(d.transits[format]); !within(got, want, 0.1) {
			t.Errorf("%s: %v s in transit by the client's histogram, %v s by the driver", format, got, want)
		}
		if got, want := transits[0][format], stacks[format+" transit_in"]+stacks[format+" transit_out"]; !within(got, want, 0.1) {
			t.Errorf("%s: %v s in transit by the server, %v s in the stack", format, got, want)
		}
		// Half of the sweeps are for one combo: so neither half's transit_out can
		// be more than twice the mean.
		for size, combos := range map[string]float64{"one": 1, "many": chunk} {
			b := d.boundary[size+" "+format]
			got, low := perCombo[size+" "+format], b[0]/b[1]
			if high := low + 2*means["sweep "+format+" transit_out"]/combos; got < 0.99*low || got > 1.01*high {
				t.Errorf("%s, %s: %v s at the boundary for a combo, between %v and %v by the driver", format, size, got, low, high)
			}
		}
		if perCombo["one "+format] < perCombo["many "+format] {
			t.Errorf("%s: a combo costs %v s alone and %v s among many", format, perCombo["one "+format], perCombo["many "+format])
		}
	}
	quantiles := p.panel(t, "Quantiles of the phases", window)
	for i, q := range []float64{0.5, 0.9, 0.99} {
		for _, phase := range phases {
			var spent []float64
			for key, own := range d.spent {
				if strings.HasSuffix(key, " "+phase) {
					spent = append(spent, own...)
				}
			}
			got, want := quantiles[i][phase], quantileOf(spent, q)
			if got > 2.6*max(want, 1e-6) || got < want/2.6 && want > 1e-6 {
				t.Errorf("p%v of %s: %v s, %v s by the driver", 100*q, phase, got, want)
			}
		}
	}
	t.Logf("%.0f requests; tax ratios %v; boundary %v", d.requests, ratios, shares)
}

func quantileOf(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(math.Ceil(q*float64(len(sorted)))))]
}

// compareNative looks at the native histograms of a Prometheus that asks for
// them.
func (d *driver) compareNative(t *testing.T, p *scraper) {
	t.Helper()
	for _, format := range encoding.Names() {
		for _, phase := range []string{"decode", "encode"} {
			own := d.spent["echo "+format+" "+phase]
			selected := fmt.Sprintf(`sum(rate(texttax_phase_duration_seconds{endpoint="echo",format=%q,phase=%q}[1m]))`, format, phase)
			mean := p.number(t, "histogram_sum("+selected+") / histogram_count("+selected+")")
			if !within(mean, meanOf(own), 0.1) {
				t.Errorf("%s of %s: mean %v s by the native histogram, %v s by the driver", phase, format, mean, meanOf(own))
			}
			// Buckets are a fifth wide; the rank may be off by one request.
			slices.Sort(own)
			middle := len(own) / 2
			low, high := own[max(0, middle-2)]/1.2, own[min(len(own)-1, middle+2)]*1.2
			if median := p.number(t, "histogram_quantile(0.5, "+selected+")"); median < low || median > high {
				t.Errorf("%s of %s: median %v s by the native histogram, between %v and %v s by the driver", phase, format, median, low, high)
			}
		}
	}
}
