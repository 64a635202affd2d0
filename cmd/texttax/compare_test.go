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
	// A client may have its answer before the server's write has returned: on a
	// busy machine the server then waits for a processor.
	const late = 1.3
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
		height += stacks[format+" transit_out"]
		if height > late*meanOf(wall) || height < 0.3*meanOf(wall) {
			t.Errorf("%s: a request takes %v s in the stack, and its client waits %v s", format, height, meanOf(wall))
		}
		for _, endpoint := range []string{"echo", "sweep"} {
			got, want := ratios[endpoint+" "+format], tax(endpoint, format)/tax(endpoint, "octet")
			if !within(got, want, 0.1) {
				t.Errorf("%s at %s: tax ratio %v, %v by the driver", format, endpoint, got, want)
			}
		}
		// The driver does not see transit_out: so the share is between the one
		// without it, and the one of all that is not computing.
		compute := total64(d.spent["sweep "+format+" compute"]) + total64(d.spent["sweep "+format+" queue"])
		least := 0.0
		for _, phase := range []string{"transit_in", "decode", "encode"} {
			least += total64(d.spent["sweep "+format+" "+phase])
		}
		if got, low, high := shares[format], least/(least+compute), 1-compute/(late*total64(d.wall["sweep "+format])); got < 0.99*low || got > 1.01*high {
			t.Errorf("%s: the boundary's share is %v, not between %v and %v", format, got, low, high)
		}
		if got, want := perBar[format], d.sent[format][0]/d.sent[format][1]; !within(got, want, 0.01) {
			t.Errorf("%s: %v bytes a bar, %v by the driver", format, got, want)
		}
		client, server := transits[1][format], transits[0][format]
		if server > client+(late-1)*meanOf(wall) {
			t.Errorf("%s: transit is %v s by the server, and by the client, who sees all of it, %v s", format, server, client)
		}
		for _, size := range []string{"one", "many"} {
			b := d.boundary[size+" "+format]
			if got, low := perCombo[size+" "+format], b[0]/b[1]; got < 0.99*low || got > low+meanOf(wall) {
				t.Errorf("%s, %s: %v s at the boundary for a combo, %v by the driver", format, size, got, low)
			}
		}
		if perCombo["one "+format] < 2*perCombo["many "+format] {
			t.Errorf("%s: a combo costs %v s alone and %v s among ten", format, perCombo["one "+format], perCombo["many "+format])
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
			if got > 2.1*max(want, 1e-6) || got < want/2.1 && want > 1e-6 {
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
			// Buckets are a tenth wide; the rank may be off by one request.
			slices.Sort(own)
			middle := len(own) / 2
			low, high := own[max(0, middle-2)]/1.1, own[min(len(own)-1, middle+2)]*1.1
			if median := p.number(t, "histogram_quantile(0.5, "+selected+")"); median < low || median > high {
				t.Errorf("%s of %s: median %v s by the native histogram, between %v and %v s by the driver", phase, format, median, low, high)
			}
		}
	}
}
