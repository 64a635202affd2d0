package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Deadlines bound the time of a request. Each that is 0 is none.
type Deadlines struct {
	Request time.Duration // for a sweep, from its header on
	Grace   time.Duration // for a body and an answer, whatever their length
	Rate    int64         // bytes per second that a body, or who reads an answer, must keep up beyond the grace
}

// TimeoutHeader is how a client says in how many seconds it wants its answer.
const TimeoutHeader = "X-Request-Timeout"

var errDeadline = errors.New("the request's deadline has passed")

// deadline returns the context in which the request is served: it ends at the
// server's deadline, or at the client's own if that is sooner.
func (a *API) deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	limit := a.config.Deadlines.Request
	limited := limit > 0
	if given := r.Header.Values(TimeoutHeader); len(given) > 0 {
		seconds, err := strconv.ParseFloat(given[0], 64)
		if err != nil || len(given) > 1 || !(seconds > 0) {
			return nil, nil, refuse(malformedHeader, fmt.Sprintf("%s: must be one number of seconds above 0, not %.64q", TimeoutHeader, strings.Join(given, ", ")))
		}
		// However short, it is a limit: a nanosecond at least.
		if own := max(1, seconds*float64(time.Second)); !limited || own < float64(limit) {
			limit, limited = time.Duration(min(own, float64(1<<62))), true
		}
	}
	if !limited {
		return r.Context(), func() {}, nil
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, errDeadline)
	return ctx, cancel, nil
}

// ended says why a request whose context has ended is not answered.
func ended(ctx context.Context) *refusal {
	cause := context.Cause(ctx)
	if errors.Is(cause, errDeadline) {
		return tooLate()
	}
	return &refusal{reason: clientGone, index: -1, cause: cause}
}

func tooLate() *refusal {
	return &refusal{reason: deadlinePassed, index: -1, retryAfter: 1, detail: "the answer was not ready within the deadline of the request"}
}

// pace holds who sends a body to the grace and the rate, and to the deadline of
// the request.
type pace struct {
	Deadlines
	control *http.ResponseController
	end     time.Time // of the request, whatever the pace; zero is none
	began   time.Time
	until   time.Time // the deadline that is set
}

// next is called before more of the body is read: received bytes are there.
func (p *pace) next(received int64) {
	if p.control == nil || p.Grace == 0 && p.end.IsZero() {
		return
	}
	until := p.end
	if p.Grace > 0 {
		now := time.Now()
		if p.began.IsZero() {
			p.began = now
		}
		// What came fast buys no silence longer than the grace.
		paced := p.began.Add(p.Grace + p.allowance(received))
		if latest := now.Add(p.Grace); paced.After(latest) {
			paced = latest
		}
		if until.IsZero() || paced.Before(until) {
			until = paced
		}
	}
	// To set a deadline costs more than to read what has come already; but the
	// last one, which is not followed by a later one, must be right.
	if until.Equal(p.until) || !until.Equal(p.end) && until.Sub(p.until) < p.Grace/4 {
		return
	}
	// A connection that has no deadlines can't be held to one.
	_ = p.control.SetReadDeadline(until)
	p.until = until
}

// ended tells, of a body that a deadline has cut, that it was the request's.
func (p *pace) ended() bool { return !p.end.IsZero() && p.until.Equal(p.end) }

// passed tells whether the deadline that is set has passed.
func (p *pace) passed() bool { return !p.until.IsZero() && !time.Now().Before(p.until) }

// done lifts the deadline: net/http goes on reading, to see a client go.
func (p *pace) done() {
	if !p.until.IsZero() {
		_ = p.control.SetReadDeadline(time.Time{})
		p.until = time.Time{}
	}
}

// allowance is the time that so many bytes may take.
func (d Deadlines) allowance(bytes int64) time.Duration {
	if d.Rate == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(d.Rate) * float64(time.Second))
}

// prompt holds who reads an answer that does not go through write, and is not
// long, to the grace.
func (a *API) prompt(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if grace := a.config.Deadlines.Grace; grace > 0 {
			// It is not lifted: net/http writes what is left when h has returned, and
			// the next answer has a deadline of its own.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(grace))
		}
		h(w, r)
	}
}

// Unhurried lifts the deadline that an answer before may have left.
func Unhurried(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		h(w, r)
	}
}
