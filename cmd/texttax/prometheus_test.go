//go:build prometheus

package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The files that Prometheus and Grafana read.
const (
	prometheusFiles = "../../grafana/prometheus"
	dashboardFiles  = "../../grafana/dashboards"
)

// tool finds a program of Debian's package prometheus.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: it is in Debian's package prometheus", err)
	}
	return path
}

func promtool(t *testing.T, stdin io.Reader, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
	c.Stdin = stdin
	if out, err := c.CombinedOutput(); err != nil || args[1] == "metrics" && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolFindsNothingWrong(t *testing.T) {
	promtool(t, nil, "check", "config", prometheusFiles+"/prometheus.yml")
	promtool(t, nil, "check", "rules", "--lint-fatal", prometheusFiles+"/rules.yml", prometheusFiles+"/alerts.yml")
	promtool(t, nil, "test", "rules", prometheusFiles+"/rules_test.yml")
	s := start(t)
	ask(t, "POST", s.url+"/sweep?dataset=gbm42&lengths=6", nil)
	promtool(t, strings.NewReader(string(ask(t, "GET", s.url+"/metrics", nil).body)), "check", "metrics")
}

func TestPrometheusSeesWhatTheClientSees(t *testing.T) {
	address := freeAddress(t)
	kill := serveAt(t, address)
	d, generator := newDriver(t, "http://"+address)
	targets := map[string]string{"texttax": address, "load": generator}
	p := startPrometheus(t, targets)
	native := startPrometheus(t, targets, "--enable-feature=native-histograms")
	const scraped = `count_over_time(texttax_phase_duration_seconds_count{endpoint="echo",format="octet",phase="encode"}[1m]) > 3`
	eventually(t, "there are some scrapes", func() bool {
		return len(p.query(t, scraped, 0)) == 1 && native.number(t, `count(up == 1)`) == 2
	})
	time.Sleep(2 * scrapeInterval)
	p.check(t, "before the first request", 2*time.Second, false)

	// Under load. The window of rates reaches from before the first request to
	// after the last, so that means are over just what the driver has sent.
	const all = time.Minute
	d.drive(t, 5*time.Second)
	counted := `sum(texttax_phase_duration_seconds_count{phase="transit_out"})`
	settled := func(s *scraper, expression string) {
		t.Helper()
		eventually(t, "all requests are scraped", func() bool { return s.number(t, expression) == d.requests })
		time.Sleep(2 * scrapeInterval) // rules are evaluated too
	}
	settled(p, counted)
	p.check(t, "under load", all, true)
	d.compare(t, p, all)
	settled(native, `histogram_count(sum(texttax_phase_duration_seconds{phase="transit_out"}))`)
	d.compareNative(t, native)

	// Idle: for the windows the load has never been.
	time.Sleep(3 * time.Second)
	p.check(t, "when idle", 2*time.Second, false)

	// A restart makes all counters begin at 0.
	kill()
	eventually(t, "the server is seen to be down", func() bool { return p.number(t, `up{job="texttax"}`) == 0 })
	p.check(t, "when it is down", 2*time.Second, false)
	var alerts struct {
		Alerts []struct{ Labels map[string]string }
	}
	eventually(t, "its alert is pending", func() bool {
		p.api(t, "alerts", nil, &alerts)
		return len(alerts.Alerts) == 1 && alerts.Alerts[0].Labels["alertname"] == "TexttaxDown"
	})
	serveAt(t, address)
	client.CloseIdleConnections()
	eventually(t, "it is up again", func() bool { return p.number(t, `up{job="texttax"}`) == 1 })
	time.Sleep(2 * scrapeInterval)
	before := d.requests
	d.drive(t, 2*time.Second)
	eventually(t, "all requests are scraped", func() bool { return p.number(t, counted) == d.requests-before })
	time.Sleep(2 * scrapeInterval)
	p.check(t, "after a restart", 2*time.Second, true)
	p.check(t, "over a restart", all, true)
}
