// Package middleware is what stands between the socket and the routes: it
// identifies each request, splits its time into phases, counts, logs, limits
// the body, and survives panics. It knows nothing of sweeps or formats; the
// routes tell it what they found by way of the Exchange.
package middleware

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Exchange is one request and its answer, as measured. The routes fill in
// what only they know; everything else is set by Track.
type Exchange struct {
	Clock Clock

	ID       string // the client's X-Request-Id if that is valid, else made here
	Method   string
	Path     string
	Remote   string
	Route    string // pattern of the route that served; "" if none did
	Status   int    // sent, or StatusClientGone
	BytesOut int64  // body bytes of the answer

	RequestFormat string // set by the routes: format of the request's body
	AnswerFormat  string // set by the routes: format of the answer's body
	BytesIn       int64  // set by the routes: body bytes read off the wire
	BodyRead      bool   // set by the routes: the body has been read to its end
	Bars          int    // set by the routes: length of the series in the request's body
	Combos        int    // set by the routes: combos that the request has computed
	Rejection     string // set by the routes: why the request was refused; "" if it was not
	Panicked      bool   // set by Recover
}

// StatusClientGone is what an exchange counts as when the client went away
// before an answer was due. It is never sent.
const StatusClientGone = 499

// An Observer is told of every exchange, from the goroutine that serves it.
type Observer interface {
	Begin(*Exchange)
	End(*Exchange)
}

// recorder is the ResponseWriter of an exchange, and notes what is written. The
// exchange travels with it, which costs no context.
type recorder struct {
	http.ResponseWriter
	exchange Exchange
}

func (w *recorder) WriteHeader(status int) {
	if w.exchange.Status == 0 && status >= 200 { // 1xx come before the answer
		w.exchange.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.exchange.Status == 0 {
		w.exchange.Status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	if w.exchange.Method != http.MethodHead { // whose answer has no body on the wire
		w.exchange.BytesOut += int64(n)
	}
	return n, err
}

// Unwrap gives http.ResponseController what it controls.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// From returns the exchange that w is the answer of. Without Track it returns
// a new one that nobody looks at, so that routes work by themselves.
func From(w http.ResponseWriter) *Exchange {
	for {
		switch inner := w.(type) {
		case *recorder:
			return &inner.exchange
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			ex := new(Exchange)
			ex.Clock.Start(Decode)
			return ex
		}
	}
}

// RequestIDHeader carries the request's id both ways.
const RequestIDHeader = "X-Request-Id"

// Track makes the Exchange of each request, runs its clock, and shows it to
// the observers. It must be the outermost middleware of a chi router.
func Track(observers ...Observer) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			recorder := &recorder{ResponseWriter: w, exchange: Exchange{
				ID: r.Header.Get(RequestIDHeader), Method: r.Method, Path: r.URL.Path, Remote: r.RemoteAddr,
			}}
			ex := &recorder.exchange
			ex.Clock.Start(Decode)
			if !validID(ex.ID) {
				ex.ID = newID()
			}
			w.Header()[RequestIDHeader] = []string{ex.ID}
			for _, o := range observers {
				o.Begin(ex)
			}
			returned := false
			// Deferred, so that an aborted answer counts too.
			defer func() {
				ex.Clock.Stop()
				if ex.Status == 0 && returned {
					ex.Status = http.StatusOK // as net/http has it when nothing was written
				}
				if route := chi.RouteContext(r.Context()); route != nil {
					ex.Route = route.RoutePattern()
				}
				for _, o := range observers {
					o.End(ex)
				}
			}()
			next.ServeHTTP(recorder, r)
			returned = true
		})
	}
}

// newID makes an id that no other request has, which need not be secret.
func newID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
}

// validID tells whether a client's request id can be used as it is: 1 to 128
// letters, digits and ._+=- of ASCII, so that it is safe in headers and logs, and
// a URI reference by itself.
func validID(id string) bool {
	if len(id) == 0 || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '+', c == '=', c == '-':
		default:
			return false
		}
	}
	return true
}
