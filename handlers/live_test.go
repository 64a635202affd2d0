package handlers

import (
	"regexp"
	"strings"
	"testing"

	"texttax/encoding"
	"texttax/middleware"
)

func TestTheLivePageLoadsNothingButTheMetricsBesideIt(t *testing.T) {
	base, _ := describedServer(t)
	answer, body := ask(t, request(t, "GET", base+"/live", ""))
	page := string(body)
	if got := answer.Header.Get("Content-Type"); got != "text/html; charset=utf-8" || answer.StatusCode != 200 {
		t.Errorf("status %d, type %q", answer.StatusCode, got)
	}
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'; connect-src 'self'; ", "script-src '" + elementHash(page, "script") + "'", "style-src '" + elementHash(page, "style") + "'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %q", policy, want)
		}
	}
	// What the policy would refuse must not be there, and neither may anything
	// that names another place; namespaces are names and no places.
	for _, no := range []string{`<[a-z][^>]*\s(?:style|on\w+)=`, `\ssrc="`, `<link`, `@import`, `url\(`, `innerHTML`, `eval\(`} {
		if found := regexp.MustCompile(no).FindString(page); found != "" {
			t.Errorf("it has %q", found)
		}
	}
	for _, link := range regexp.MustCompile(`https?://[^"\s]+`).FindAllString(page, -1) {
		if link != "http://www.w3.org/2000/svg" {
			t.Errorf("it names %s", link)
		}
	}
	if n := strings.Count(page, "<script"); n != 1 || strings.Count(page, "<style") != 1 {
		t.Errorf("%d scripts", n)
	}
}

func TestTheLivePageKnowsTheMetricThePhasesAndTheFormats(t *testing.T) {
	names := append(encoding.Names(), middleware.PhaseMetric)
	for _, p := range middleware.Phases() {
		names = append(names, p.String())
		if !strings.Contains(livePage(), "."+p.String()+" { fill: var(--"+p.String()+"); }") {
			t.Errorf("%s has no color", p)
		}
	}
	_, script, _ := strings.Cut(livePage(), "<script>")
	for _, name := range names {
		if !strings.Contains(script, `"`+name+`"`) {
			t.Errorf("it does not know %s", name)
		}
	}
}
