package handlers

import (
	_ "embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"texttax/encoding"
	"texttax/middleware"
)

//go:embed live.html
var liveHTML string

// The page is the same for all, and so it is made once, when somebody asks. Its policy lets in its
// one style sheet and its one script, known by their hashes, and nothing from
// elsewhere: it reads the metrics beside it.
var (
	livePage   = sync.OnceValue(makeLivePage)
	livePolicy = sync.OnceValue(func() string {
		return "default-src 'none'; connect-src 'self'; script-src '" + elementHash(livePage(), "script") +
			"'; style-src '" + elementHash(livePage(), "style") + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	})
)

func makeLivePage() string {
	var phases, in []string
	for _, p := range middleware.Phases() {
		phases = append(phases, p.String())
		if p < middleware.Encode {
			in = append(in, p.String())
		}
	}
	var page strings.Builder
	if err := template.Must(template.New("live.html").Parse(liveHTML)).Execute(&page, map[string]any{
		"Metric":   middleware.PhaseMetric,
		"Phases":   phases,
		"InPhases": in,
		"Formats":  encoding.Names(),
		"Octet":    encoding.Octet.Name(),
	}); err != nil {
		panic("the live page can't be made: " + err.Error()) // of constants
	}
	return page.String()
}

// serveLive serves GET /live: a page that draws the metrics as they change.
func serveLive(w http.ResponseWriter, _ *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(livePage())))
	header.Set("Content-Security-Policy", livePolicy())
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache")
	_, _ = w.Write([]byte(livePage())) // who has gone needs no answer
}
