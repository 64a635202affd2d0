package handlers

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
	"texttax/middleware"
)

// What browsers send.
const browserAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// homeServer serves with every core: the page's sweeps are of 80 combos.
func homeServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(describedRouter(New(Config{Limits: DefaultLimits, Queue: DefaultQueue}), DefaultLimits))
	t.Cleanup(server.Close)
	return server.URL
}

func getHome(t *testing.T, base, host, accept string) (*http.Response, string) {
	t.Helper()
	r := request(t, "GET", base+"/?utm_source=x", "")
	r.Host = host
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	answer, body := ask(t, r)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", answer.StatusCode, body)
	}
	return answer, string(body)
}

func TestTheHomePageIsHTMLForThoseWhoPreferIt(t *testing.T) {
	base := homeServer(t)
	for _, c := range []struct {
		name, accept, want string
	}{
		{"no header", "", "text/plain; charset=utf-8"},
		{"curl", "*/*", "text/plain; charset=utf-8"},
		{"browser", browserAccept, "text/html; charset=utf-8"},
		{"HTML in capitals", "Text/HTML", "text/html; charset=utf-8"},
		{"HTML less than text", "text/html;q=0.5, text/plain", "text/plain; charset=utf-8"},
		{"text less than HTML", "text/plain;q=0.5, text/html;q=0.6", "text/html; charset=utf-8"},
		{"any text", "text/*", "text/plain; charset=utf-8"},
		{"any text but plain", "text/*, text/plain;q=0", "text/html; charset=utf-8"},
		{"HTML last", "text/html;q=0.1, */*;q=0.9", "text/plain; charset=utf-8"},
		{"neither", "image/png", "text/plain; charset=utf-8"},
		{"what can't be parsed", "text/html;;q=, ;,text/plain;q=2", "text/plain; charset=utf-8"},
	} {
		answer, body := getHome(t, base, "localhost:8080", c.accept)
		if got := answer.Header.Get("Content-Type"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if isHTML := strings.HasPrefix(body, "<!DOCTYPE html>"); isHTML != strings.HasPrefix(c.want, "text/html") {
			t.Errorf("%s: the body begins with %.20q", c.name, body)
		}
		for name, want := range map[string]string{"Vary": "Accept", "X-Content-Type-Options": "nosniff"} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
			}
		}
	}
}

func TestTheHomePageNamesAllThereIs(t *testing.T) {
	base := homeServer(t)
	_, text := getHome(t, base, "localhost:8080", "")
	_, page := getHome(t, base, "localhost:8080", browserAccept)
	var names []string
	for path := range endpoints {
		if path != "/" {
			names = append(names, path)
		}
	}
	names = append(names, encoding.Names()...)
	for _, p := range middleware.Phases() {
		names = append(names, p.String())
	}
	for _, name := range names {
		word := regexp.MustCompile(`(^|[\s>])` + regexp.QuoteMeta(name) + `($|[\s<:])`)
		if !word.MatchString(text) {
			t.Errorf("the text does not name %s", name)
		}
		if !word.MatchString(page) {
			t.Errorf("the HTML does not name %s", name)
		}
	}
}

// curlLines are the shell lines of a page in plain text.
func curlLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "curl ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// The lines are given to a shell as they stand, one after the other in one
// directory, as a reader would paste them.
func TestTheLinesOfTheHomePageWorkAsTheyStand(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("without curl nobody can tell whether the page's lines work: %v", err)
	}
	base := homeServer(t)
	host := strings.TrimPrefix(base, "http://")
	_, text := getHome(t, base, host, "")
	lines := curlLines(text)

	closes, err := encoding.Octet.Append(nil, &encoding.Request{Close: gbm42.Close()})
	if err != nil {
		t.Fatal(err)
	}
	results := func(codec encoding.Codec, combos int) func(t *testing.T, body []byte) {
		return func(t *testing.T, body []byte) {
			var got kernel.Results
			if err := codec.DecodeResults(body, &got); err != nil {
				t.Fatal(err)
			}
			if len(got.PnL) != combos || math.Float64bits(got.PnL[0]) != math.Float64bits(-5165.584357716994) || got.Trades[0] != 57029 {
				t.Errorf("%d combos, the first has pnl %v and trades %v", len(got.PnL), got.PnL[:1], got.Trades[:1])
			}
		}
	}
	series := func(t *testing.T, body []byte) {
		if !bytes.Equal(body, closes) {
			t.Errorf("%d bytes are not those of the series", len(body))
		}
	}
	wants := []struct {
		file  string // that curl writes; "" for its output
		check func(t *testing.T, body []byte)
	}{
		{"", results(encoding.JSON, 80)},
		{"", results(encoding.JSONStd, 3)},
		{"sweep.msgpack", results(encoding.MessagePack, 80)},
		{"sweep.arrow", results(encoding.Arrow, 80)},
		{"sweep.bin", results(encoding.Octet, 80)},
		{"close.f64", series},
		{"echo.f64", series},
	}
	if len(lines) != len(wants) {
		t.Fatalf("%d lines, want %d: %q", len(lines), len(wants), lines)
	}
	dir := t.TempDir()
	for i, line := range lines {
		t.Run(line, func(t *testing.T) {
			var out, status bytes.Buffer
			// The added options only show the status, and keep the reader's
			// ~/.curlrc out.
			sh := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, "curl ", "curl -q ", 1)+` -sS -w '%{stderr}%{http_code}'`)
			sh.Dir, sh.Stdout, sh.Stderr = dir, &out, &status
			sh.Env = append(os.Environ(), "no_proxy=*")
			if err := sh.Run(); err != nil || status.String() != "200" {
				t.Fatalf("%v, status %s: %.200s", err, &status, &out)
			}
			body := out.Bytes()
			if file := wants[i].file; file != "" {
				if out.Len() > 0 {
					t.Errorf("bytes reach the terminal: %.40q", &out)
				}
				var err error
				if body, err = os.ReadFile(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			wants[i].check(t, body)
		})
	}
}

// element is an HTML element, with its text up to the next tag.
type element struct {
	name  string
	attrs []xml.Attr
	text  string
}

// parsePage reads a page strictly enough that each element must be closed,
// unless HTML says that it has no end.
func parsePage(t *testing.T, page string) []element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var elements []element
	open, inText := 0, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			open++
			inText = true
			elements = append(elements, element{name: token.Name.Local, attrs: slices.Clone(token.Attr)})
		case xml.EndElement:
			open--
			inText = false
		case xml.CharData:
			if inText {
				elements[len(elements)-1].text += string(token)
			}
		}
	}
	if open != 0 {
		t.Errorf("%d elements are not closed", open)
	}
	return elements
}

func TestBothHomePagesHaveTheSameLines(t *testing.T) {
	base := homeServer(t)
	_, text := getHome(t, base, "[::1]:8080", "")
	_, page := getHome(t, base, "[::1]:8080", browserAccept)
	var lines []string
	for _, e := range parsePage(t, page) {
		if e.name == "code" {
			lines = append(lines, strings.Split(strings.TrimSpace(e.text), "\n")...)
		}
	}
	if want := curlLines(text); !slices.Equal(lines, want) {
		t.Errorf("HTML has\n%q\nand text has\n%q", lines, want)
	}
	if !strings.Contains(text, "curl -X POST '[::1]:8080/sweep?") {
		t.Error("the lines do not go to the host that was asked")
	}
}

func TestTheHomePageLoadsNothing(t *testing.T) {
	answer, page := getHome(t, homeServer(t), "localhost:8080", browserAccept)
	styles := 0
	for _, e := range parsePage(t, page) {
		switch e.name {
		case "script", "img", "link", "iframe", "object", "embed", "form", "base":
			t.Errorf("the page has a %s", e.name)
		case "style":
			styles++
			if strings.Contains(e.text, "url(") || strings.Contains(e.text, "@import") {
				t.Error("the style sheet loads something")
			}
			policy := answer.Header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, "style-src '"+elementHash("<style>"+e.text+"</style>", "style")+"'") {
				t.Errorf("the policy %q does not let just the style sheet in", policy)
			}
		}
		for _, a := range e.attrs {
			if a.Name.Local == "src" || a.Name.Local == "srcset" || a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("%s has the attribute %s", e.name, a.Name.Local)
			}
			if a.Name.Local == "href" && (!strings.HasPrefix(a.Value, "/") || strings.HasPrefix(a.Value, "//")) {
				t.Errorf("%s leads away: %s", e.name, a.Value)
			}
		}
	}
	if styles != 1 {
		t.Errorf("%d style sheets, want 1", styles)
	}
}

func TestALinkOfTheHomePageLeadsSomewhere(t *testing.T) {
	base := homeServer(t)
	_, page := getHome(t, base, "localhost:8080", browserAccept)
	links := 0
	for _, e := range parsePage(t, page) {
		for _, a := range e.attrs {
			if a.Name.Local != "href" {
				continue
			}
			links++
			if answer, _ := ask(t, request(t, "GET", base+a.Value, "")); answer.StatusCode != http.StatusOK {
				t.Errorf("%s: status %d", a.Value, answer.StatusCode)
			}
		}
	}
	if links == 0 {
		t.Error("there are no links")
	}
}

func TestTheHomePagePrintsOnlyHostsThatAreSafeInAShell(t *testing.T) {
	base := homeServer(t)
	_, text := getHome(t, base, "localhost:8080", "")
	_, page := getHome(t, base, "localhost:8080", browserAccept)
	// Go's client would mend or refuse some of these on their way, and its
	// server refuses others; so they are given to the handler itself, and
	// those that pass a client are sent over the socket too.
	for _, host := range []string{
		"", "'", "a';id;'", "$(id)", "`id`", "a b", "a\nb", "a\x00b", `a\`, `a"b`, "<script>", "a&b", "a/b", "a?b", "a#b", "user@a",
		"-o", "-K.curlrc", "--config", "[1-1000000]", "[a-z]", "{a,b}", "{{.}}", "a:", "a:b", "a:80:80", "a:123456", "file:1/etc",
		"[::1", "::1", "[]", "[::1]x", "[::1%25eth0]", "ä", strings.Repeat("a", 300),
	} {
		for accept, want := range map[string]string{"": text, browserAccept: page} {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
			r.Host = host
			if accept != "" {
				r.Header.Set("Accept", accept)
			}
			w := httptest.NewRecorder()
			describedRouter(New(Config{}), DefaultLimits).ServeHTTP(w, r)
			if w.Code != http.StatusOK || w.Body.String() != want {
				t.Errorf("host %q is not replaced: status %d\n%s", host, w.Code, w.Body)
			}
		}
	}
	for _, host := range []string{"a';id;'", "$(id)", "-o", "[1-9]"} {
		if _, got := getHome(t, base, host, ""); got != text {
			t.Errorf("host %q is not replaced:\n%s", host, got)
		}
	}
	for _, host := range []string{"localhost", "localhost:8080", "Example.COM", "texttax-0.texttax.svc:80", "127.0.0.1:65535", "[::1]", "[2001:db8::7f]:8080", "[::ffff:1.2.3.4]:80"} {
		if _, got := getHome(t, base, host, ""); !strings.Contains(got, "curl '"+host+"/sweep'") {
			t.Errorf("host %q is replaced", host)
		}
	}
}
