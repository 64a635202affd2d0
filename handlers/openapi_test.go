package handlers

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	yaml "github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	problems "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"texttax/encoding"
	"texttax/handlers/store"
	"texttax/middleware"
)

// apiDocument is the served document, read by a library that knows nothing of
// this service.
type apiDocument struct {
	model     *v3.Document
	validator validator.Validator
}

func readOpenAPI(t *testing.T) apiDocument {
	t.Helper()
	document, err := libopenapi.NewDocument(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(document, config.WithStrictMode())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	t.Cleanup(v.Release)
	return apiDocument{&model.Model, v}
}

// operations yields each operation with its path and its method.
func (d apiDocument) operations(yield func(route string, op *v3.Operation) bool) {
	for path, item := range d.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			if !yield(strings.ToUpper(method)+" "+path, op) {
				return
			}
		}
	}
}

// validate fails the test unless the answer is as the document says.
func (d apiDocument) validate(t *testing.T, r *http.Request, answer *http.Response) {
	t.Helper()
	// net/http sends these for any answer; the document has no say in them.
	for _, name := range []string{"Date", "Content-Length", "Connection"} {
		answer.Header.Del(name)
	}
	if ok, errs := d.validator.ValidateHttpResponse(r, answer); !ok {
		t.Errorf("%s %s answers %d: %s", r.Method, r.URL, answer.StatusCode, explain(errs))
	}
}

func explain(errs []*problems.ValidationError) string {
	text := ""
	for _, e := range errs {
		text += "\n\t" + e.Error()
		for _, s := range e.SchemaValidationErrors {
			text += "\n\t\t" + s.Error()
		}
	}
	return text
}

// describedRouter routes an API with everything that stands before it.
func describedRouter(api *API, limits Limits) chi.Router {
	r := chi.NewRouter()
	r.Use(middleware.Track(), middleware.Recover(slog.New(slog.DiscardHandler), api.Fail),
		middleware.BodyLimit(limits.BodyBytes, api.TooLarge))
	api.Routes(r)
	api.Operations(r, http.NotFoundHandler())
	api.Refusals(r)
	return r
}

func describedServer(t *testing.T) (string, *API) {
	t.Helper()
	return describedServerOf(t, Config{Limits: DefaultLimits, Slots: 1, Queue: 0, Build: Build{"v0", "r0", "go0", "reference"}})
}

func describedServerOf(t *testing.T, config Config) (string, *API) {
	t.Helper()
	api := New(config)
	server := httptest.NewServer(describedRouter(api, DefaultLimits))
	t.Cleanup(server.Close)
	return server.URL, api
}

// ask sends a request and returns the answer, whose body it has read.
func ask(t *testing.T, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return answer, readAnswer(t, answer)
}

// readAnswer returns the body of an answer, and leaves it to be read again.
func readAnswer(t *testing.T, answer *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// request makes a request with headers given as name and value in turn.
func request(t *testing.T, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestTheOpenAPIDocumentIsValid(t *testing.T) {
	if ok, errs := readOpenAPI(t).validator.ValidateDocument(); !ok {
		t.Error(explain(errs))
	}
}

func TestTheOpenAPIDocumentIsServed(t *testing.T) {
	base, _ := describedServer(t)
	answer, body := ask(t, request(t, "GET", base+"/openapi.yaml", ""))
	if got := answer.Header.Get("Content-Type"); got != "application/yaml" || answer.StatusCode != http.StatusOK {
		t.Errorf("status %d, type %q", answer.StatusCode, got)
	}
	if !bytes.Equal(body, openAPI) {
		t.Error("it is not the embedded one")
	}
	answer, body = ask(t, request(t, "HEAD", base+"/openapi.yaml", ""))
	if len(body) > 0 || answer.ContentLength != int64(len(openAPI)) {
		t.Errorf("HEAD has %d bytes and declares %d, want 0 and %d", len(body), answer.ContentLength, len(openAPI))
	}
}

// HEAD is GET's twin: the document says so once, for all.
func TestTheOpenAPIDocumentDescribesJustTheRoutes(t *testing.T) {
	var described, routed, heads []string
	for route := range readOpenAPI(t).operations {
		described = append(described, route)
		if path, ok := strings.CutPrefix(route, "GET "); ok {
			heads = append(heads, "HEAD "+path)
		}
	}
	err := chi.Walk(describedRouter(New(Config{}), DefaultLimits), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		routed = append(routed, method+" "+route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	described = append(described, heads...)
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described are\n%q\nand routed are\n%q", described, routed)
	}
}

// sentReasons are the reasons that a client can come to see.
func sentReasons() map[string]int {
	sent := map[string]int{}
	for r, kind := range reasons {
		if r != clientGone { // which is never sent
			sent[problemTypes+string(r)] = kind.status
		}
	}
	return sent
}

func TestTheOpenAPIDocumentListsJustTheProblemsThatAreSent(t *testing.T) {
	schema := readOpenAPI(t).model.Components.Schemas.GetOrZero("Problem").Schema()
	listed := scalars(schema.Properties.GetOrZero("type").Schema().Enum)
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(sentReasons())); !slices.Equal(listed, want) {
		t.Errorf("listed are %q, sent are %q", listed, want)
	}
}

func scalars(nodes []*yaml.Node) []string {
	var values []string
	for _, n := range nodes {
		if n != nil {
			values = append(values, n.Value)
		}
	}
	return values
}

// problemOf returns the types and the status that a response's problems are
// said to have. ok is false if the response is no problem.
func problemOf(response *v3.Response) (types []string, status string, ok bool) {
	if response.Content == nil {
		return nil, "", false // an answer without a body
	}
	media := response.Content.GetOrZero("application/problem+json")
	if media == nil {
		return nil, "", false
	}
	narrowed := media.Schema.Schema().AllOf[1].Schema().Properties
	kind := narrowed.GetOrZero("type").Schema()
	types = append(scalars(kind.Enum), scalars([]*yaml.Node{kind.Const})...)
	return types, narrowed.GetOrZero("status").Schema().Const.Value, true
}

func TestTheOpenAPIDocumentGivesEachProblemItsStatus(t *testing.T) {
	document, sent := readOpenAPI(t), sentReasons()
	statuses, types := map[string]bool{}, map[string]bool{}
	check := func(where, code string, response *v3.Response) {
		described, status, ok := problemOf(response)
		if !ok {
			statuses[code] = true
			return
		}
		statuses[status] = true
		if code != "" && code != status {
			t.Errorf("%s: the problem of %s has status %s", where, code, status)
		}
		for _, name := range described {
			types[name] = true
			if strconv.Itoa(sent[name]) != status {
				t.Errorf("%s: %s has status %s, not %d", where, name, status, sent[name])
			}
		}
	}
	for route, op := range document.operations {
		for code, response := range op.Responses.Codes.FromOldest() {
			check(route, code, response)
		}
		if op.Responses.Default != nil {
			t.Errorf("%s has a default response, which may be anything", route)
		}
	}
	for name, response := range document.model.Components.Responses.FromOldest() {
		check(name, "", response)
	}
	want := map[string]bool{}
	for _, s := range Statuses() {
		if s != middleware.StatusClientGone {
			want[strconv.Itoa(s)] = true
		}
	}
	if !maps.Equal(statuses, want) {
		t.Errorf("statuses are %v, want %v", statuses, want)
	}
	if len(types) != len(sent) {
		t.Errorf("%d types of problems in the responses, %d are sent", len(types), len(sent))
	}
}

func TestTheOpenAPIDocumentHasJustTheMediaTypesOfTheFormats(t *testing.T) {
	document := readOpenAPI(t)
	want := append(strings.Split(encoding.Supported(), ", "), "application/json; codec=std", "application/vnd.msgpack; numbers=bin")
	slices.Sort(want)
	for name, body := range document.model.Components.RequestBodies.FromOldest() {
		got := slices.Sorted(body.Content.KeysFromOldest())
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		reached, answers := map[string]bool{}, map[string]bool{}
		for _, mediaType := range got {
			codec, err := encoding.ForContentType(mediaType)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			reached[codec.Name()], answers[codec.MediaType()] = true, true
		}
		for _, format := range encoding.Names() {
			if !reached[format] {
				t.Errorf("%s has no media type of the format %s", name, format)
			}
		}
		for _, route := range []string{"POST /sweep", "POST /echo", "GET /datasets/{id}"} {
			for r, op := range document.operations {
				if r != route {
					continue
				}
				got := slices.Sorted(op.Responses.Codes.GetOrZero("200").Content.KeysFromOldest())
				if want := slices.Sorted(maps.Keys(answers)); !slices.Equal(got, want) {
					t.Errorf("%s answers %q, want %q", route, got, want)
				}
			}
		}
	}
	for _, name := range []string{"AcceptPost", "Accept"} {
		header := document.model.Components.Headers.GetOrZero(name)
		if got := header.Schema.Schema().Const.Value; got != encoding.Supported() {
			t.Errorf("%s is %q, want %q", name, got, encoding.Supported())
		}
	}
}

func TestTheOpenAPIDocumentHasTheDefaultLimits(t *testing.T) {
	text := readOpenAPI(t).model.Info.Description
	for row, limit := range map[string]int64{
		"| a body, on the wire and once its Content-Encoding is undone | %d bytes | 413 |": DefaultLimits.BodyBytes,
		"| bars of a series in the body | %d | 422 over-limit |":                           int64(DefaultLimits.Bars),
		"| combos of a sweep | %d | 422 over-limit |":                                      int64(DefaultLimits.Combos),
		"| bars x combos of a sweep | %d | 422 over-limit |":                               DefaultLimits.Work,
		"| requests that wait for a compute slot | %d | 503 |":                             DefaultQueue,
		"| bytes of all stored datasets, 8 for each bar | %d | 507 |":                      store.DefaultMax,
		"| stored datasets | %d | 507 |":                                                   store.MaxCount,
	} {
		if row = fmt.Sprintf(row, limit); !strings.Contains(text, row) {
			t.Errorf("the table lacks %q", row)
		}
	}
}

func TestAnswersAreAsTheOpenAPIDocumentSays(t *testing.T) {
	document := readOpenAPI(t)
	base, _ := describedServer(t)
	closes := string(little(100, 101, 103, 102, 99, 97, 98, 101, 104, 103, 100, 98.5))
	for _, c := range []struct{ name, method, path, body, contentType, accept string }{
		{"sweep of a dataset", "POST", "/sweep?dataset=gbm42&lengths=6", "", "", ""},
		{"sweep of JSON", "POST", "/sweep", `{"close":[100,101,99,98,102,103,101],"params":[[1,2,1,1,1,1]]}`, "application/json", ""},
		{"sweep by encoding/json", "POST", "/sweep", `{"dataset":"gbm42","lengths":[6]}`, "application/json; codec=std", ""},
		{"sweep of octets", "POST", "/sweep?lengths=2,3", closes, "", ""},
		{"sweep of octets to JSON", "POST", "/sweep?lengths=2,3", closes, "application/octet-stream", "application/json"},
		{"sweep to MessagePack", "POST", "/sweep?lengths=2,3", closes, "", "application/x-msgpack"},
		{"sweep to MessagePack's bin", "POST", "/sweep?lengths=2,3", closes, "", "application/vnd.msgpack; numbers=bin"},
		{"sweep to Arrow", "POST", "/sweep?lengths=2,3", closes, "", "application/vnd.apache.arrow.stream"},
		{"echo of octets", "POST", "/echo", closes, "", ""},
		{"echo to JSON", "POST", "/echo", closes, "", "application/json"},
		{"datasets", "GET", "/datasets", "", "", ""},
		{"dataset", "GET", "/datasets/gbm42", "", "", ""},
		{"dataset as octets", "GET", "/datasets/gbm42", "", "", "application/octet-stream"},
		{"dataset that is new", "PUT", "/datasets/mine", closes, "", ""},
		{"dataset that is replaced", "PUT", "/datasets/mine", `{"close":[100]}`, "application/json", ""},
		{"datasets with one that was stored", "GET", "/datasets", "", "", ""},
		{"dataset that is deleted", "DELETE", "/datasets/mine", "", "", ""},
		{"version", "GET", "/version", "", "", ""},
		{"home as text", "GET", "/", "", "", ""},
		{"home as HTML", "GET", "/", "", "", "text/html"},
		{"document", "GET", "/openapi.yaml", "", "", ""},
		{"health", "GET", "/healthz", "", "", ""},
		{"readiness", "GET", "/readyz", "", "", ""},
		{"live page", "GET", "/live", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, c.method, base+c.path, c.body)
			for name, value := range map[string]string{"Content-Type": c.contentType, "Accept": c.accept} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			answer, body := ask(t, r)
			if answer.StatusCode >= 300 {
				t.Errorf("status %d: %s", answer.StatusCode, body)
			}
			document.validate(t, r, answer)
		})
	}
}

func TestWhatIsNotModifiedIsAnsweredAsTheOpenAPIDocumentSays(t *testing.T) {
	base, _ := describedServer(t)
	r := request(t, "GET", base+"/datasets/gbm42", "", "If-None-Match", builtin().ETag)
	answer, body := ask(t, r)
	if answer.StatusCode != http.StatusNotModified || len(body) > 0 {
		t.Errorf("status %d, body %q", answer.StatusCode, body)
	}
	readOpenAPI(t).validate(t, r, answer)
}

func TestADrainingServiceAnswersAsTheOpenAPIDocumentSays(t *testing.T) {
	api := New(Config{Ready: func() bool { return false }})
	server := httptest.NewServer(describedRouter(api, DefaultLimits))
	defer server.Close()
	r := request(t, "GET", server.URL+"/readyz", "")
	answer, body := ask(t, r)
	if answer.StatusCode != http.StatusServiceUnavailable || string(body) != "draining\n" {
		t.Errorf("status %d, body %q", answer.StatusCode, body)
	}
	readOpenAPI(t).validate(t, r, answer)
}

// Without this, a validator that looks at nothing would pass every test here.
func TestTheValidatorSeesAnswersThatAreWrong(t *testing.T) {
	document := readOpenAPI(t)
	const good = `{"pnl":[1.5],"trades":[3],"open":[-1]}`
	answer := func(status int, mediaType, body string) *http.Response {
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{
			"Content-Type": {mediaType}, "Server-Timing": {"decode;dur=0.000001"}, "X-Request-Id": {"i"}, "Vary": {"Accept"}}}
	}
	r := request(t, "POST", "http://localhost/sweep", "")
	document.validate(t, r, answer(200, "application/json", good))
	for name, wrong := range map[string]*http.Response{
		"a column is missing":    answer(200, "application/json", `{"pnl":[1.5],"trades":[3]}`),
		"a column is too much":   answer(200, "application/json", `{"pnl":[1.5],"trades":[3],"open":[-1],"x":[]}`),
		"a side is none":         answer(200, "application/json", `{"pnl":[1.5],"trades":[3],"open":[2]}`),
		"trades are a fraction":  answer(200, "application/json", `{"pnl":[1.5],"trades":[3.5],"open":[0]}`),
		"the status is unknown":  answer(418, "application/json", good),
		"the media type is none": answer(200, "application/xml", good),
		"the type does not have the status": answer(400, "application/problem+json",
			`{"type":"urn:texttax:problem:invalid-value","title":"","status":400,"detail":"","instance":"i"}`),
		"the problem has another status": answer(400, "application/problem+json",
			`{"type":"urn:texttax:problem:malformed-body","title":"","status":422,"detail":"","instance":"i"}`),
	} {
		if ok, _ := document.validator.ValidateHttpResponse(r, wrong); ok {
			t.Errorf("%s, and it passes", name)
		}
	}
}

// provocation is a request that fails.
type provocation struct {
	reason  reason
	request *http.Request
	nowhere bool // no operation that the document has; the problem alone is checked
}

// Each problem that can be sent is provoked, held against the document, and
// against the example that the document has of it.
func TestProblemsAreAsTheOpenAPIDocumentSays(t *testing.T) {
	document := readOpenAPI(t)
	base, api := describedServer(t)
	post := func(path, body string, headers ...string) *http.Request {
		return request(t, "POST", base+path, body, headers...)
	}
	const jsonType = "application/json"
	closes := string(little(100, 101, 102))
	small := httptest.NewServer(describedRouter(New(Config{Datasets: store.New(16)}), DefaultLimits))
	defer small.Close()
	provoked := map[reason]bool{}
	check := func(t *testing.T, p provocation, answer *http.Response) {
		t.Helper()
		provoked[p.reason] = true
		body := readAnswer(t, answer)
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if got["type"] != problemTypes+string(p.reason) {
			t.Errorf("it is %v, want %s", got["type"], p.reason)
		}
		if got["instance"] != answer.Header.Get("X-Request-Id") {
			t.Errorf("instance %v, id %s", got["instance"], answer.Header.Get("X-Request-Id"))
		}
		if p.nowhere {
			schema := document.model.Components.Schemas.GetOrZero("Problem").Schema()
			if ok, errs := schema_validation.NewSchemaValidator().ValidateSchemaBytes(schema, body); !ok {
				t.Error(explain(errs))
			}
		} else {
			document.validate(t, p.request, answer)
		}
		want := document.problemExample(t, p.reason)
		delete(want, "instance")
		delete(got, "instance")
		if !maps.Equal(got, want) {
			t.Errorf("the answer is\n%v\nand the document's example is\n%v", got, want)
		}
	}

	provoke := func(t *testing.T, p provocation) {
		t.Helper()
		answer, err := http.DefaultClient.Do(p.request)
		if err != nil {
			t.Fatal(err)
		}
		check(t, p, answer)
	}

	for _, p := range []provocation{
		{reason: malformedBody, request: post("/sweep?lengths=6", "\x00\x00\x00\x00")},
		{reason: malformedQuery, request: post("/sweep?dataset=gbm42&lengths=6:200", "")},
		{reason: deadlinePassed, request: post("/sweep?dataset=gbm42&lengths=6:200:80", "", TimeoutHeader, "1e-9")},
		{reason: conflict, request: post("/sweep?dataset=gbm42&lengths=6", `{"lengths":[6]}`, "Content-Type", jsonType)},
		{reason: invalidValue, request: post("/sweep?lengths=6", `{"close":[100,null,101]}`, "Content-Type", jsonType)},
		{reason: overLimit, request: post("/sweep?dataset=gbm42&lengths=6:200:100001", "")},
		{reason: unspeakable, request: post("/echo", string(little(1, math.NaN())), "Accept", jsonType)},
		{reason: datasetNotFound, request: post("/sweep?dataset=gbm43&lengths=6", "")},
		{reason: datasetNotFound, request: request(t, "GET", base+"/datasets/gbm43", "")},
		{reason: notFound, request: request(t, "GET", base+"/favicon.ico", ""), nowhere: true},
		{reason: wrongMethod, request: request(t, "DELETE", base+"/datasets", ""), nowhere: true},
		{reason: notAcceptable, request: post("/sweep?dataset=gbm42&lengths=6", "", "Accept", "text/csv")},
		{reason: unsupportedType, request: post("/sweep?lengths=6", "100,101", "Content-Type", "text/csv")},
		{reason: unsupportedCoding, request: post("/sweep?lengths=6", "x", "Content-Encoding", "br")},
		{reason: malformedHeader, request: request(t, "PUT", base+"/datasets/mine", closes, "If-Match", "abc")},
		{reason: preconditionFails, request: request(t, "PUT", base+"/datasets/mine", closes, "If-Match", "*")},
		{reason: builtinDataset, request: request(t, "PUT", base+"/datasets/gbm42", closes)},
		{reason: builtinDataset, request: request(t, "DELETE", base+"/datasets/gbm42", "")},
		{reason: datasetNotFound, request: request(t, "DELETE", base+"/datasets/gbm43", "")},
		{reason: storeFull, request: request(t, "PUT", small.URL+"/datasets/mine", closes)},
	} {
		t.Run(string(p.reason), func(t *testing.T) { provoke(t, p) })
	}

	// A body that is declared and never sent.
	t.Run(string(bodyTooLarge), func(t *testing.T) {
		connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := fmt.Fprintf(connection, "POST /sweep HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", DefaultLimits.BodyBytes+1); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		check(t, provocation{reason: bodyTooLarge, request: post("/sweep", "")}, answer)
	})

	t.Run(string(bodyTooSlow), func(t *testing.T) {
		base, _ := describedServerOf(t, Config{Limits: DefaultLimits, Deadlines: Deadlines{Grace: 20 * time.Millisecond, Rate: 16 << 10}})
		connection, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, "POST /sweep HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		check(t, provocation{reason: bodyTooSlow, request: post("/sweep", "")}, answer)
	})

	// A service that takes tokens, and lets nobody in.
	for why, known := range map[reason]bool{unauthorized: false, forbidden: true} {
		t.Run(string(why), func(t *testing.T) {
			base, _ := describedServerOf(t, Config{Limits: DefaultLimits, Require: func(_ string, deny func(http.ResponseWriter, *http.Request, bool)) func(http.Handler) http.Handler {
				return func(http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { deny(w, r, known) })
				}
			}})
			p := provocation{reason: why, request: request(t, "POST", base+"/sweep?dataset=gbm42&lengths=6", "")}
			if known {
				p.request = request(t, "DELETE", base+"/datasets/mine", "")
			}
			provoke(t, p)
		})
	}

	for why, limit := range map[reason]func(http.Handler) http.Handler{
		tooMany:         middleware.ClientLimit(0, api.TooMany),
		tooManyInFlight: middleware.Limit(0, api.Busy),
	} {
		t.Run(string(why), func(t *testing.T) {
			r := chi.NewRouter()
			r.Use(middleware.Track(), limit)
			api.Routes(r)
			busy := httptest.NewServer(r)
			defer busy.Close()
			provoke(t, provocation{reason: why, request: request(t, "POST", busy.URL+"/sweep", "")})
		})
	}

	t.Run(string(memoryFull), func(t *testing.T) {
		defer func(d time.Duration) { api.memory.patience = d }(api.memory.patience)
		api.memory.patience = time.Millisecond
		if !api.memory.take(api.memory.max, false) {
			t.Fatal("the memory is in use")
		}
		defer api.memory.giveBack(api.memory.max)
		provoke(t, provocation{reason: memoryFull, request: post("/echo", string(little(1)))})
	})

	t.Run(string(queueFull), func(t *testing.T) {
		got, err := api.slots.acquire(context.Background(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer got.release()
		provoke(t, provocation{reason: queueFull, request: post("/sweep?dataset=gbm42&lengths=6", "")})
	})

	t.Run(string(internal), func(t *testing.T) {
		r := chi.NewRouter()
		r.Use(middleware.Track())
		r.Post("/sweep", api.route(func(http.ResponseWriter, *http.Request) error { return errors.New("nobody shall see this") }))
		broken := httptest.NewServer(r)
		defer broken.Close()
		provoke(t, provocation{reason: internal, request: request(t, "POST", broken.URL+"/sweep", "")})
	})

	for name := range sentReasons() {
		if !provoked[reason(strings.TrimPrefix(name, problemTypes))] {
			t.Errorf("nothing provokes %s", name)
		}
	}
}

// problemExample returns the document's example of a problem.
func (d apiDocument) problemExample(t *testing.T, why reason) map[string]any {
	t.Helper()
	for _, response := range d.model.Components.Responses.FromOldest() {
		example := response.Content.GetOrZero("application/problem+json").Examples.GetOrZero(string(why))
		if example == nil {
			continue
		}
		var value map[string]any
		if err := example.Value.Decode(&value); err != nil {
			t.Fatal(err)
		}
		for key, v := range value {
			if n, ok := v.(int); ok { // as encoding/json has it
				value[key] = float64(n)
			}
		}
		return value
	}
	t.Fatalf("there is no example of %s", why)
	return nil
}

// An example of a request is answered by the example of the same name.
func TestTheExamplesOfTheOpenAPIDocumentAreTrue(t *testing.T) {
	document := readOpenAPI(t)
	base, _ := describedServer(t)
	tried := 0
	for route, op := range document.operations {
		if op.RequestBody == nil {
			continue
		}
		method, path, _ := strings.Cut(route, " ")
		for name, example := range op.RequestBody.Content.GetOrZero("application/json").Examples.FromOldest() {
			t.Run(route+" "+name, func(t *testing.T) {
				tried++
				r := request(t, method, base+strings.ReplaceAll(path, "{id}", "mine"), jsonText(t, example.Value), "Content-Type", "application/json")
				answer, body := ask(t, r)
				if method == "PUT" {
					if answer.StatusCode != http.StatusCreated {
						t.Errorf("status %d: %s", answer.StatusCode, body)
					}
					answer, body := ask(t, request(t, "DELETE", r.URL.String(), ""))
					if answer.StatusCode != http.StatusNoContent {
						t.Errorf("status %d: %s", answer.StatusCode, body)
					}
					return
				}
				answers := op.Responses.Codes.GetOrZero("200").Content.GetOrZero("application/json").Examples
				if answer.StatusCode != http.StatusOK {
					t.Fatalf("status %d: %s", answer.StatusCode, body)
				}
				var got, want any
				if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal([]byte(jsonText(t, answers.GetOrZero(name).Value)), &want)); err != nil {
					t.Fatal(err)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("the answer is\n%v\nand the example is\n%v", got, want)
				}
			})
		}
	}
	if tried != 4 {
		t.Errorf("%d examples, want 4", tried)
	}
	for _, parameter := range []string{"list", "range", "both"} {
		example := document.model.Components.Parameters.GetOrZero("Lengths").Examples.GetOrZero(parameter)
		answer, body := ask(t, request(t, "POST", base+"/sweep?dataset=gbm42&lengths="+url.QueryEscape(example.Value.Value), ""))
		if answer.StatusCode != http.StatusOK {
			t.Errorf("lengths=%s: status %d: %s", example.Value.Value, answer.StatusCode, body)
		}
	}
	r := request(t, "GET", base+"/datasets", "")
	_, body := ask(t, r)
	for route, op := range document.operations {
		if route != "GET /datasets" {
			continue
		}
		example := op.Responses.Codes.GetOrZero("200").Content.GetOrZero("application/json").Examples.GetOrZero("builtin")
		var got, want any
		if err := errors.Join(json.Unmarshal(body, &got), json.Unmarshal([]byte(jsonText(t, example.Value)), &want)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the answer is\n%v\nand the example is\n%v", got, want)
		}
	}
}

func jsonText(t *testing.T, node *yaml.Node) string {
	t.Helper()
	var value any
	if err := node.Decode(&value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheOpenAPIDocumentAndTheServiceJudgeJSONBodiesAlike(t *testing.T) {
	document := readOpenAPI(t)
	base, _ := describedServer(t)
	const close, params = `"close":[100,101,99]`, `"params":[[3,6,2,1,2,3]]`
	for _, c := range []struct {
		name, path, body string
		valid            bool
	}{
		{"series and combos", "/sweep", `{` + close + `,` + params + `}`, true},
		{"series and lengths", "/sweep", `{` + close + `,"lengths":[2,200]}`, true},
		{"whole numbers with a point or an exponent", "/sweep", `{` + close + `,"params":[[3.0,6,2,1e0,2,3]]}`, true},
		{"window longer than any series", "/sweep", `{` + close + `,"params":[[9007199254740991,6,2,1,2,3]]}`, true},
		{"negative fee", "/sweep", `{` + close + `,` + params + `,"fee":-0.5}`, true},
		{"dataset", "/sweep", `{"dataset":"gbm42","lengths":[200]}`, true},
		{"series elsewhere", "/sweep?dataset=gbm42", `{"lengths":[200]}`, true},
		{"combos elsewhere", "/sweep?lengths=6", `{` + close + `}`, true},
		{"no params", "/sweep", `{` + close + `,"params":[]}`, false},
		{"empty object", "/sweep?dataset=gbm42&lengths=200", `{}`, true},
		{"empty series", "/sweep", `{"close":[],` + params + `}`, false},
		{"null in the series", "/sweep", `{"close":[100,null],` + params + `}`, false},
		{"string in the series", "/sweep", `{"close":[100,"101"],` + params + `}`, false},
		{"price of zero", "/sweep", `{"close":[100,0],` + params + `}`, false},
		{"negative price", "/sweep", `{"close":[100,-1],` + params + `}`, false},
		{"series of another type", "/sweep", `{"close":"AAAA",` + params + `}`, false},
		{"five windows", "/sweep", `{` + close + `,"params":[[3,6,2,1,2]]}`, false},
		{"seven windows", "/sweep", `{` + close + `,"params":[[3,6,2,1,2,3,3]]}`, false},
		{"flat windows", "/sweep", `{` + close + `,"params":[3,6,2,1,2,3]}`, false},
		{"window of zero", "/sweep", `{` + close + `,"params":[[3,6,2,0,2,3]]}`, false},
		{"fractional window", "/sweep", `{` + close + `,"params":[[3,6,2.5,1,2,3]]}`, false},
		{"quoted window", "/sweep", `{` + close + `,"params":[["3",6,2,1,2,3]]}`, false},
		{"length of one", "/sweep", `{` + close + `,"lengths":[1]}`, false},
		{"fractional length", "/sweep", `{` + close + `,"lengths":[6.5]}`, false},
		{"no lengths", "/sweep", `{` + close + `,"lengths":[]}`, false},
		{"params and lengths", "/sweep", `{` + close + `,` + params + `,"lengths":[6]}`, false},
		{"series and dataset", "/sweep", `{` + close + `,` + params + `,"dataset":"gbm42"}`, false},
		{"dataset without a name", "/sweep", `{"dataset":"","lengths":[6]}`, false},
		{"dataset of null", "/sweep", `{"dataset":null,"lengths":[6]}`, false},
		{"fee in percent", "/sweep", `{` + close + `,` + params + `,"fee":9}`, false},
		{"fee of 1", "/sweep", `{` + close + `,` + params + `,"fee":1}`, false},
		{"fee of null", "/sweep", `{` + close + `,` + params + `,"fee":null}`, false},
		{"unknown key", "/sweep", `{` + close + `,` + params + `,"fees":0}`, false},
		{"key in capitals", "/sweep", `{"Close":[100],` + params + `}`, false},
		{"array", "/sweep", `[100,101]`, false},
		{"cut short", "/sweep", `{` + close, false},
		{"something after the object", "/sweep", `{` + close + `,` + params + `}{}`, false},

		{"echo", "/echo", `{` + close + `}`, true},
		{"echo of nothing", "/echo", `{"close":[]}`, true},
		{"echo of no price", "/echo", `{"close":[0,-1,5e-324]}`, true},
		{"echo of a body of /sweep", "/echo", `{` + close + `,"params":[[0,6,2,1,2,3]],"lengths":[1],"fee":9}`, true},
		{"echo without a series", "/echo", `{` + params + `}`, false},
		{"echo of null", "/echo", `{"close":[null]}`, false},
		{"echo of a dataset", "/echo", `{"dataset":"gbm42"}`, false},
		{"echo of a dataset beside a series", "/echo", `{` + close + `,"dataset":"gbm42"}`, false},
		{"echo of five windows", "/echo", `{` + close + `,"params":[[3,6,2,1,2]]}`, false},
		{"echo of an unknown key", "/echo", `{` + close + `,"x":1}`, false},

		{"dataset of prices", "/datasets/mine", `{` + close + `}`, true},
		{"dataset of a body of /sweep", "/datasets/mine", `{` + close + `,"params":[[0,6,2,1,2,3]],"lengths":[1],"fee":9}`, true},
		{"dataset of nothing", "/datasets/mine", `{"close":[]}`, false},
		{"dataset of no price", "/datasets/mine", `{"close":[100,0]}`, false},
		{"dataset of null", "/datasets/mine", `{"close":[null]}`, false},
		{"dataset without a series", "/datasets/mine", `{` + params + `}`, false},
		{"dataset of a dataset", "/datasets/mine", `{"dataset":"gbm42"}`, false},
		{"dataset of an unknown key", "/datasets/mine", `{` + close + `,"x":1}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			method := "POST"
			if strings.HasPrefix(c.path, "/datasets/") {
				method = "PUT"
			}
			post := func() *http.Request {
				return request(t, method, base+c.path, c.body, "Content-Type", "application/json")
			}
			if valid, errs := document.validator.GetRequestBodyValidator().ValidateRequestBody(post()); valid != c.valid {
				t.Errorf("by the document it is valid: %v%s", valid, explain(errs))
			}
			answer, body := ask(t, post())
			if accepted := answer.StatusCode < 300; accepted != c.valid {
				t.Errorf("the service answers %d: %s", answer.StatusCode, body)
			}
			document.validate(t, post(), answer)
		})
	}
}

// A compressed body is what the document's header parameter says it is.
func TestTheOpenAPIDocumentNamesTheContentEncodingsOfRequests(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(little(100, 101)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	zstdFrame := compress(nil, little(100, 101), "zstd")
	base, _ := describedServer(t)
	parameter := readOpenAPI(t).model.Components.Parameters.GetOrZero("RequestContentEncoding")
	for _, coding := range scalars(parameter.Schema.Schema().Enum) {
		body := map[string][]byte{"gzip": packed.Bytes(), "x-gzip": packed.Bytes(), "zstd": zstdFrame, "identity": little(100, 101)}[coding]
		answer, got := ask(t, request(t, "POST", base+"/echo", string(body), "Content-Encoding", coding))
		if answer.StatusCode != http.StatusOK || !bytes.Equal(got, little(100, 101)) {
			t.Errorf("%s: status %d, %q", coding, answer.StatusCode, got)
		}
	}
}

// little returns floats as little-endian bytes.
func little(floats ...float64) []byte {
	var b []byte
	for _, v := range floats {
		for bits, i := math.Float64bits(v), 0; i < 8; i++ {
			b = append(b, byte(bits>>(8*i)))
		}
	}
	return b
}
