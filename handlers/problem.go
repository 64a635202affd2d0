package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"texttax/encoding"
	"texttax/handlers/store"
	"texttax/middleware"
)

// reason is the machine-readable name of a kind of failure. It ends the
// problem's type, and is the reason in the rejection metric.
type reason string

const (
	malformedBody     reason = "malformed-body"
	malformedQuery    reason = "malformed-query"
	conflict          reason = "conflicting-parameters"
	invalidValue      reason = "invalid-value"
	overLimit         reason = "over-limit"
	unspeakable       reason = "unspeakable-answer"
	datasetNotFound   reason = "dataset-not-found"
	builtinDataset    reason = "builtin-dataset"
	preconditionFails reason = "precondition-failed"
	storeFull         reason = "store-full"
	notFound          reason = "not-found"
	wrongMethod       reason = "method-not-allowed"
	notAcceptable     reason = "not-acceptable"
	bodyTooLarge      reason = "body-too-large"
	unsupportedType   reason = "unsupported-media-type"
	unsupportedCoding reason = "unsupported-content-encoding"
	malformedHeader   reason = "malformed-header"
	bodyTooSlow       reason = "body-too-slow"
	unauthorized      reason = "unauthorized"
	forbidden         reason = "forbidden"
	tooMany           reason = "too-many-requests"
	queueFull         reason = "queue-full"
	memoryFull        reason = "memory-full"
	tooManyInFlight   reason = "too-many-in-flight"
	deadlinePassed    reason = "deadline-passed"
	clientGone        reason = "client-gone"
	internal          reason = "internal-error"
)

// reasons is the one place where a failure gets its status.
var reasons = map[reason]struct {
	status int
	title  string
}{
	malformedBody:     {http.StatusBadRequest, "The body is malformed"},
	malformedQuery:    {http.StatusBadRequest, "The query is malformed"},
	conflict:          {http.StatusBadRequest, "Parameters contradict each other"},
	invalidValue:      {http.StatusUnprocessableEntity, "A value is invalid"},
	overLimit:         {http.StatusUnprocessableEntity, "The request is over a limit"},
	unspeakable:       {http.StatusUnprocessableEntity, "The format can't express the answer"},
	datasetNotFound:   {http.StatusNotFound, "There is no such dataset"},
	builtinDataset:    {http.StatusConflict, "The dataset is built in"},
	preconditionFails: {http.StatusPreconditionFailed, "The dataset is not in the state that was asked for"},
	storeFull:         {http.StatusInsufficientStorage, "There is no room for the dataset"},
	notFound:          {http.StatusNotFound, "There is nothing at this path"},
	wrongMethod:       {http.StatusMethodNotAllowed, "The method is not allowed here"},
	notAcceptable:     {http.StatusNotAcceptable, "No acceptable format"},
	bodyTooLarge:      {http.StatusRequestEntityTooLarge, "The body is too large"},
	unsupportedType:   {http.StatusUnsupportedMediaType, "The media type is not supported"},
	unsupportedCoding: {http.StatusUnsupportedMediaType, "The content encoding is not supported"},
	malformedHeader:   {http.StatusBadRequest, "A header is malformed"},
	bodyTooSlow:       {http.StatusRequestTimeout, "The body comes too slowly"},
	unauthorized:      {http.StatusUnauthorized, "A token is needed"},
	forbidden:         {http.StatusForbidden, "The token does not open this"},
	tooMany:           {http.StatusTooManyRequests, "The client sends too many requests"},
	queueFull:         {http.StatusServiceUnavailable, "The service is busy"},
	memoryFull:        {http.StatusServiceUnavailable, "The service is busy"},
	tooManyInFlight:   {http.StatusServiceUnavailable, "The service is busy"},
	deadlinePassed:    {http.StatusServiceUnavailable, "The deadline has passed"},
	clientGone:        {middleware.StatusClientGone, "The client went away"},
	internal:          {http.StatusInternalServerError, "The service failed"},
}

// Reasons lists the reasons for which requests are refused, for the metrics.
func Reasons() []string {
	all := make([]string, 0, len(reasons))
	for r := range reasons {
		all = append(all, string(r))
	}
	return all
}

// Statuses lists the status codes of all answers, for the metrics.
func Statuses() []int {
	all := []int{http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotModified}
	seen := map[int]bool{}
	for _, r := range reasons {
		if !seen[r.status] {
			seen[r.status] = true
			all = append(all, r.status)
		}
	}
	return all
}

// A refusal is an error with a reason, made for the client to read.
type refusal struct {
	reason reason
	detail string
	field  string // "" if none is at fault
	index  int    // -1 if no element is at fault
	cause  error  // for the log only; nil if the detail says it all

	retryAfter int // seconds after which to try again; 0 says nothing
}

func (e *refusal) Error() string { return string(e.reason) + ": " + e.detail }
func (e *refusal) Unwrap() error { return e.cause }

func refuse(r reason, detail string) *refusal {
	return &refusal{reason: r, detail: detail, index: -1}
}

func refuseField(r reason, field, detail string) *refusal {
	return &refusal{reason: r, detail: detail, field: field, index: -1}
}

// problemTypes is what the reason is appended to for a problem's type. A URN
// identifies without promising that there is something to fetch.
const problemTypes = "urn:texttax:problem:"

// problem is the body of an answer about a failure, as RFC 9457 defines it.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"` // the request's id, to find it in the log
	Field    string `json:"field,omitempty"`
	Index    *int   `json:"index,omitempty"`
}

// toRefusal finds out why a request failed.
func toRefusal(err error) *refusal {
	var (
		ready    *refusal
		body     *encoding.Error
		tooLarge *http.MaxBytesError
		full     *store.FullError
	)
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &body):
		return &refusal{reason: bodyReason(body.Kind), detail: body.Error(), field: body.Field, index: body.Index}
	case errors.As(err, &tooLarge):
		return refuse(bodyTooLarge, "the body is over the limit of "+strconv.FormatInt(tooLarge.Limit, 10)+" bytes")
	case errors.As(err, &full):
		return &refusal{reason: storeFull, detail: full.Detail, index: -1, cause: full.Cause}
	}
	return &refusal{reason: internal, detail: "the request could not be served; its id is in instance", index: -1, cause: err}
}

func bodyReason(kind encoding.Kind) reason {
	switch kind {
	case encoding.Malformed:
		return malformedBody
	case encoding.Invalid:
		return invalidValue
	case encoding.OverLimit:
		return overLimit
	case encoding.Unsupported:
		return unsupportedType
	case encoding.Unspeakable:
		return unspeakable
	}
	return internal
}

// fail answers a request that failed. It is the only place that does.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	ex := middleware.From(w)
	why := toRefusal(err)
	kind := reasons[why.reason] // its status and title
	ex.Rejection = string(why.reason)
	ex.AnswerFormat = ""
	if why.cause != nil && kind.status >= 500 {
		a.config.Log.Error("request failed", "id", ex.ID, "reason", string(why.reason), "cause", why.cause.Error())
	}
	if why.reason == clientGone {
		// Nobody listens; breaking the connection is all that is left.
		ex.Status = kind.status
		panic(http.ErrAbortHandler)
	}
	ex.Clock.Enter(middleware.Encode)
	p := problem{
		Type:     problemTypes + string(why.reason),
		Title:    kind.title,
		Status:   kind.status,
		Detail:   why.detail,
		Instance: ex.ID,
		Field:    why.field,
	}
	if why.index >= 0 {
		p.Index = &why.index
	}
	body, _ := json.Marshal(&p) // strings and integers can always be written
	header := w.Header()
	for _, name := range []string{"Content-Encoding", "Etag"} {
		header.Del(name)
	}
	if r.ContentLength != 0 && !ex.BodyRead {
		// What is too slow, too late, or was never invited, is not waited for. In
		// HTTP/2 that ends the stream, and the connection has others.
		if r.ProtoMajor == 1 && (why.reason == bodyTooSlow || why.reason == deadlinePassed || ex.BytesIn == 0 && r.Header.Get("Expect") != "") {
			header.Set("Connection", "close")
		}
		leaveBody(w)
	}
	switch why.reason {
	case unsupportedType, notAcceptable:
		switch r.Method {
		case http.MethodPost:
			header.Set("Accept-Post", encoding.Supported())
		case http.MethodPut:
			header.Set("Accept", encoding.Supported()) // as RFC 9110 has it for any method
		}
	case unsupportedCoding:
		header.Set("Accept-Encoding", acceptedEncodings)
	}
	switch why.reason {
	case unauthorized:
		header.Set("Www-Authenticate", `Bearer realm="texttax"`)
	case forbidden:
		header.Set("Www-Authenticate", `Bearer realm="texttax", error="insufficient_scope"`)
	}
	if why.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(why.retryAfter))
	}
	a.write(w, "application/problem+json", kind.status, append(body, '\n'))
}

// patience is how long net/http may wait for the rest of a body that nobody
// wants. It does so before or after the answer, even of a connection that it is
// to close, and without a deadline it would wait for ever.
const patience = 250 * time.Millisecond

// leaveBody sees to it that nobody waits for the rest of the body.
func leaveBody(w http.ResponseWriter) {
	// net/http sets the deadline anew for the next request.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)); err != nil {
		w.Header().Set("Connection", "close")
	}
}

// bodiless is a route that does not look at the request's body, if there is
// one.
func bodiless(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			leaveBody(w)
		}
		h(w, r)
	}
}

// Fail answers a request that the service itself failed to serve: status 500.
// It is what is left to say after a panic.
func (a *API) Fail(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, refuse(internal, "the request could not be served; its id is in instance"))
}

// TooMany answers a client that sends more than it may.
func (a *API) TooMany(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, &refusal{reason: tooMany, index: -1, retryAfter: 1, detail: "this client sends more requests than it may; try again later"})
}

// Busy answers when there are more requests in flight than there may be.
func (a *API) Busy(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, &refusal{reason: tooManyInFlight, index: -1, retryAfter: 1, detail: "too many requests are in flight; try again later"})
}

// Scopes are what tokens can open: sweeps and echoes with reading datasets,
// writing datasets, and the metrics.
var Scopes = []string{scopeSweep, scopeDatasets, ScopeMetrics}

// The scopes of tokens.
const (
	scopeSweep    = "sweep"
	scopeDatasets = "datasets"
	ScopeMetrics  = "metrics"
)

// Allow guards a route by a scope.
func (a *API) Allow(scope string, h http.HandlerFunc) http.HandlerFunc {
	if a.config.Require == nil {
		return h
	}
	deny := func(w http.ResponseWriter, r *http.Request, known bool) {
		if known {
			a.fail(w, r, refuse(forbidden, "the token does not have the scope "+scope))
		} else {
			a.fail(w, r, refuse(unauthorized, "send Authorization: Bearer and a token of the scope "+scope))
		}
	}
	return a.config.Require(scope, deny)(h).ServeHTTP
}

// TooLarge answers a request whose declared length is over the body limit.
func (a *API) TooLarge(w http.ResponseWriter, r *http.Request) {
	a.fail(w, r, &http.MaxBytesError{Limit: a.config.Limits.BodyBytes})
}
