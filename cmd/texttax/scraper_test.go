//go:build prometheus

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	yaml "github.com/pb33f/go-yaml"
)

// scraper is a real Prometheus with the project's own config, but for the
// addresses and a shorter interval.
type scraper struct{ url string }

const scrapeInterval = 250 * time.Millisecond

func startPrometheus(t *testing.T, targets map[string]string, flags ...string) *scraper {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile(prometheusFiles + "/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	interval := scrapeInterval.String()
	config["global"] = map[string]any{"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
	for _, c := range config["scrape_configs"].([]any) {
		job := c.(map[string]any)
		address, ok := targets[job["job_name"].(string)]
		if !ok {
			t.Fatalf("nobody is the target of job %v", job["job_name"])
		}
		delete(job, "dns_sd_configs")
		job["static_configs"] = []any{map[string]any{"targets": []string{address}}}
	}
	for _, name := range config["rule_files"].([]any) {
		rules, err := os.ReadFile(filepath.Join(prometheusFiles, name.(string)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name.(string)), rules, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), written, 0o644); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	c := exec.Command(tool(t, "prometheus"), append([]string{
		"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + address, "--log.level=warn"}, flags...)...)
	log := new(lockedBuffer)
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", log)
		}
	})
	p := &scraper{"http://" + address}
	eventually(t, "Prometheus is ready", func() bool {
		r, err := client.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == 200
	})
	return p
}

// api asks Prometheus's API, and reads its data.
func (p *scraper) api(t *testing.T, path string, query url.Values, into any) {
	t.Helper()
	r := ask(t, "GET", p.url+"/api/v1/"+path+"?"+query.Encode(), nil)
	answer := struct {
		Status, Error string
		Data          json.RawMessage
	}{}
	if err := json.Unmarshal(r.body, &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s %v: %v\n%s", path, query, err, r.body)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatalf("%s %v: %v\n%s", path, query, err, r.body)
	}
}

// sample is a value of a series; for a range, each of its values is one.
type sample struct {
	labels map[string]string
	value  float64
}

// query evaluates an expression: at this moment, or at each of the last
// seconds.
func (p *scraper) query(t *testing.T, expression string, overTime time.Duration) []sample {
	t.Helper()
	var result struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
			Values [][2]any
		}
	}
	if overTime == 0 {
		p.api(t, "query", url.Values{"query": {expression}}, &result)
	} else {
		end := time.Now()
		at := func(moment time.Time) string { return strconv.FormatFloat(float64(moment.UnixMilli())/1e3, 'f', 3, 64) }
		p.api(t, "query_range", url.Values{"query": {expression}, "start": {at(end.Add(-overTime))}, "end": {at(end)}, "step": {"0.5"}}, &result)
	}
	var samples []sample
	for _, r := range result.Result {
		values := r.Values
		if overTime == 0 {
			values = [][2]any{r.Value}
		}
		for _, v := range values {
			f, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, sample{r.Metric, f})
		}
	}
	return samples
}

// number is the value of an expression that has just one.
func (p *scraper) number(t *testing.T, expression string) float64 {
	t.Helper()
	s := p.query(t, expression, 0)
	if len(s) != 1 {
		return math.NaN()
	}
	return s[0].value
}

// expression is one of a panel, with the dashboard's variables filled in as
// Grafana does, or of a rule.
type expression struct{ where, text string }

// panelExpressions reads the expressions of the generated dashboards.
func (p *scraper) panelExpressions(t *testing.T, interval time.Duration) []expression {
	t.Helper()
	files, err := filepath.Glob(dashboardFiles + "/*.json")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	var all []expression
	for _, file := range files {
		var d struct {
			Templating struct {
				List []struct{ Name, Type, Query, Regex string }
			}
			Panels []struct {
				Title, Repeat string
				Targets       []struct{ Expr string }
			}
		}
		readJSON(t, file, &d)
		values := map[string][]string{}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				values[v.Name] = p.variable(t, v.Query, v.Regex)
			}
		}
		window := fmt.Sprintf("%dms", interval.Milliseconds())
		for _, panel := range d.Panels {
			repeats := []string{""}
			if panel.Repeat != "" {
				repeats = values[panel.Repeat]
			}
			for _, only := range repeats {
				for _, target := range panel.Targets {
					text := strings.NewReplacer("$__rate_interval", window, "$__range", window).Replace(target.Expr)
					for name, all := range values {
						if name == panel.Repeat {
							all = []string{only}
						}
						text = strings.ReplaceAll(text, "$"+name, strings.Join(all, "|"))
					}
					if strings.Contains(text, "$") {
						t.Fatalf("%s, %s: what is meant by %s?", file, panel.Title, text)
					}
					all = append(all, expression{filepath.Base(file) + ", " + panel.Title + " " + only, text})
				}
			}
		}
	}
	return all
}

var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// variable returns the values of a dashboard's variable, as regular
// expressions within a string of PromQL.
func (p *scraper) variable(t *testing.T, query, pattern string) []string {
	t.Helper()
	parts := labelValues.FindStringSubmatch(query)
	if parts == nil {
		t.Fatalf("what is meant by %s?", query)
	}
	var found, kept []string
	p.api(t, "label/"+parts[2]+"/values", url.Values{"match[]": {parts[1]}}, &found)
	for _, v := range found {
		// Go has no negative lookahead, as JavaScript has.
		if pattern != "" && pattern != "/^(?!other$)/" {
			t.Fatalf("what is meant by %s?", pattern)
		}
		if pattern == "" || v != "other" {
			kept = append(kept, strings.ReplaceAll(regexp.QuoteMeta(v), `\`, `\\`))
		}
	}
	if len(kept) == 0 {
		t.Errorf("%s has no values", query)
	}
	return kept
}

// ruleExpressions are those that Prometheus has loaded. An alert's comparison
// is made to answer 0 instead of nothing.
func (p *scraper) ruleExpressions(t *testing.T) []expression {
	t.Helper()
	var loaded struct {
		Groups []struct {
			Rules []struct{ Type, Name, Query, Health, LastError string }
		}
	}
	p.api(t, "rules", nil, &loaded)
	var all []expression
	for _, g := range loaded.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
			text := r.Query
			if r.Type == "alerting" {
				if strings.HasPrefix(text, "absent(") {
					continue // has no data as long as all is well
				}
				compared := regexp.MustCompile(` (>|==) ([\d.]+)$`).ReplaceAllString(text, " $1 bool $2")
				if compared == text {
					t.Errorf("alert %s compares nothing: %s", r.Name, text)
				}
				text = compared
			}
			all = append(all, expression{"rule " + r.Name, text})
		}
	}
	if len(all) < 10 {
		t.Errorf("only %d rules are loaded", len(all))
	}
	return all
}

// check evaluates everything that a person would look at. No value may be NaN,
// infinite or negative. With needData each expression has some.
func (p *scraper) check(t *testing.T, when string, interval time.Duration, needData bool) {
	t.Helper()
	n := 0
	for _, e := range append(p.panelExpressions(t, interval), p.ruleExpressions(t)...) {
		for _, overTime := range []time.Duration{0, 20 * time.Second} {
			samples := p.query(t, e.text, overTime)
			if len(samples) == 0 && needData {
				t.Errorf("%s: %s has no data: %s", when, e.where, e.text)
			}
			for _, s := range samples {
				if math.IsNaN(s.value) || math.IsInf(s.value, 0) || s.value < 0 {
					t.Errorf("%s: %s is %v at %v: %s", when, e.where, s.value, s.labels, e.text)
					break
				}
			}
			n += len(samples)
		}
	}
	t.Logf("%s: %d values", when, n)
}

// panel returns the values of a panel's expressions now, with all their labels
// but instance joined in order as a key.
func (p *scraper) panel(t *testing.T, title string, interval time.Duration) []map[string]float64 {
	t.Helper()
	var all []map[string]float64
	for _, e := range p.panelExpressions(t, interval) {
		if _, after, _ := strings.Cut(e.where, ", "); strings.TrimSpace(after) != title {
			continue
		}
		values := map[string]float64{}
		for _, s := range p.query(t, e.text, 0) {
			var names, key []string
			for name := range s.labels {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				key = append(key, s.labels[name])
			}
			values[strings.Join(key, " ")] = s.value
		}
		all = append(all, values)
	}
	if all == nil {
		t.Fatalf("there is no panel %q", title)
	}
	return all
}
