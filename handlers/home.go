package handlers

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	htmltemplate "html/template"
	"net/http"
	"regexp"
	"strings"
	"sync"
	texttemplate "text/template"

	"texttax/encoding"
	"texttax/middleware"
)

// homePage is what GET / says. Its two templates only lay it out.
type homePage struct {
	Title     string
	Lead      string
	Endpoints []homeEntry
	Formats   []homeEntry
	Phases    []homeEntry
	Notes     []string
}

// homeEntry names one thing, says what it is, and gives shell lines that try
// it, with nothing but curl.
type homeEntry struct {
	Name string
	Text string
	Try  []string
}

// homeFor is the page for clients that reach the service as host, which must
// be safe between single quotes in a shell.
func homeFor(host string) *homePage {
	const combos = "/sweep?dataset=gbm42&lengths=6:200:80"
	return &homePage{
		Title: "texttax",
		Lead: "Backtest sweeps over HTTP in four body formats that all say the same, " +
			"with the time of each request split into phases: what does the text of JSON cost?",
		Endpoints: []homeEntry{
			{Name: "POST /sweep", Text: "runs every combo of averaging windows over a series: profit, trades and open side of each"},
			{Name: "POST /echo", Text: "sends the series back bit for bit and computes nothing: the boundary alone"},
			{Name: "GET /datasets", Text: "lists the datasets: series that are kept, for sweeps by their id"},
			{Name: "GET /datasets/{id}", Text: "sends a dataset"},
			{Name: "PUT /datasets/{id}", Text: "keeps the body's series, in any of the formats"},
			{Name: "DELETE /datasets/{id}", Text: "forgets a dataset"},
			{Name: "GET /openapi.yaml", Text: "describes all of this precisely"},
			{Name: "GET /version", Text: "tells which program this is"},
			{Name: "GET /metrics", Text: "has the metrics for Prometheus; it and the next three may be on an address of their own"},
			{Name: "GET /live", Text: "shows in a browser where the time of requests goes, as it goes"},
			{Name: "GET /healthz", Text: "says that the process lives"},
			{Name: "GET /readyz", Text: "says whether the service takes requests"},
		},
		Formats: []homeEntry{
			{
				Name: encoding.JSON.Name(),
				Text: "JSON by a decoder made for this service.",
				Try:  []string{"curl -X POST '" + host + combos + "'"},
			},
			{
				Name: encoding.JSONStd.Name(),
				Text: "The same JSON by Go's encoding/json, which is what a usual service pays.",
				Try: []string{"curl '" + host + "/sweep' -H 'Content-Type: application/json; codec=std'" +
					` -d '{"dataset":"gbm42","lengths":[6,8,10]}'`},
			},
			{
				Name: encoding.MessagePack.Name(),
				Text: "MessagePack; with ; numbers=bin the columns are binary blocks instead of arrays.",
				Try:  []string{"curl -X POST '" + host + combos + "' -H 'Accept: application/vnd.msgpack' --output sweep.msgpack"},
			},
			{
				Name: encoding.Arrow.Name(),
				Text: "A stream of Apache Arrow with the columns pnl, trades and open.",
				Try:  []string{"curl -X POST '" + host + combos + "' -H 'Accept: application/vnd.apache.arrow.stream' --output sweep.arrow"},
			},
			{
				Name: encoding.Octet.Name(),
				Text: "Raw little-endian bytes: float64 pnl, then int64 trades. The last two lines fetch the demo series and echo it.",
				Try: []string{
					"curl -X POST '" + host + combos + "' -H 'Accept: application/octet-stream' --output sweep.bin",
					"curl '" + host + "/datasets/gbm42' -H 'Accept: application/octet-stream' -o close.f64",
					"curl --data-binary @close.f64 -H 'Content-Type: application/octet-stream' '" + host + "/echo' -o echo.f64",
				},
			},
		},
		Phases: []homeEntry{
			{Name: middleware.TransitIn.String(), Text: "The service is blocked on bytes of the request's body."},
			{Name: middleware.Decompress.String(), Text: "The request's Content-Encoding is undone."},
			{Name: middleware.Decode.String(), Text: "The request becomes numbers that have been checked."},
			{Name: middleware.Queue.String(), Text: "The request waits for a compute slot."},
			{Name: middleware.Compute.String(), Text: "The sweep runs."},
			{Name: middleware.Encode.String(), Text: "The results become the bytes of the answer."},
			{Name: middleware.Compress.String(), Text: "The answer's Content-Encoding is done."},
			{Name: middleware.TransitOut.String(), Text: "The answer is handed to the operating system."},
		},
		Notes: []string{
			"The header Server-Timing of answers has the phases in milliseconds, all but transit_out; curl -i shows it.",
			"What the service sees of transit is a lower bound, since a write ends when the operating system has the bytes. " +
				"The client's wall time minus the phases from decompress to compress is the honest figure.",
		},
	}
}

//go:embed home.html
var homeHTML string

//go:embed home.txt
var homeText string

// They are made when somebody asks for the page: texttax sweep starts for each
// call, and has no use for it.
var (
	homeHTMLTemplate = sync.OnceValue(func() *htmltemplate.Template {
		return htmltemplate.Must(htmltemplate.New("home.html").Parse(homeHTML))
	})
	homeTextTemplate = sync.OnceValue(func() *texttemplate.Template {
		return texttemplate.Must(texttemplate.New("home.txt").Parse(homeText))
	})

	// homePolicy lets the page's one style sheet in, known by its hash, and
	// nothing else.
	homePolicy = sync.OnceValue(func() string {
		return "default-src 'none'; style-src '" + elementHash(homeHTML, "style") + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	})
)

// elementHash is the source expression of Content-Security-Policy for the text
// of the page's one style or script element.
func elementHash(page, name string) string {
	_, text, _ := strings.Cut(page, "<"+name+">")
	text, _, _ = strings.Cut(text, "</"+name+">")
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// home serves GET /: what there is and how to try it, as HTML for browsers
// and as text for everybody else.
func (a *API) home(w http.ResponseWriter, r *http.Request) error {
	middleware.From(w).Clock.Enter(middleware.Encode)
	w.Header().Set("Vary", "Accept")
	page, host := bytes.Buffer{}, shellHost(r.Host)
	mediaType, render := "text/plain; charset=utf-8", homeTextTemplate().Execute
	if prefersHTML(r.Header.Values("Accept")) {
		mediaType, render = "text/html; charset=utf-8", homeHTMLTemplate().Execute
		w.Header().Set("Content-Security-Policy", homePolicy())
	}
	if err := render(&page, homeFor(host)); err != nil {
		return err
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	a.write(w, mediaType, http.StatusOK, page.Bytes())
	return nil
}

// plainHost is a name or an address with an optional port. It can neither end
// a quoted word of a shell nor begin an option of curl, and holds none of the
// ranges that curl would expand.
var plainHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?$`)
})

// shellHost is the Host header of a request if it is safe to print in a shell
// line, or else the service's usual address.
func shellHost(host string) string {
	if plainHost().MatchString(host) {
		return host
	}
	return "localhost:8080"
}

// prefersHTML tells whether the Accept headers ask for text/html rather than
// for plain text. Whoever likes both alike, as curl does, gets text.
func prefersHTML(accept []string) bool {
	// The q-value of the most specific range decides: RFC 9110, section 12.5.1.
	ranges, elements := []string{"*/*", "text/*"}, encoding.ParseAccept(accept)
	quality := func(mediaType string) (q float64) {
		top := -1
		for _, e := range elements {
			for specificity, r := range append(ranges, mediaType) {
				if e.Name == r && specificity >= top {
					top, q = specificity, e.Quality
				}
			}
		}
		return q
	}
	return quality("text/html") > quality("text/plain")
}
