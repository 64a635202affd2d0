package handlers

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/middleware"
)

// call is the working memory of one request with a body. It is pooled:
// in steady state the size of a body costs no allocation.
type call struct {
	wire    wireReader
	in      *buffer
	out     *buffer
	request encoding.Request
	results kernel.Results
	combos  []kernel.Params

	reserved reservation
	ctx      context.Context // in which more memory is waited for
	exchange *middleware.Exchange
	take     func(bytes int64) error // takes more of it

	answer encoding.Codec
}

var calls = sync.Pool{New: func() any {
	c := new(call)
	c.take = func(bytes int64) error { return c.reserved.add(c.ctx, bytes, true, c.exchange) }
	return c
}}

// newCall returns a call for an exchange that ends with ctx. It must be
// released.
func (a *API) newCall(ctx context.Context, ex *middleware.Exchange) *call {
	c := calls.Get().(*call)
	c.ctx, c.exchange, c.reserved.memory = ctx, ex, a.memory
	limits := a.config.Limits
	c.request.Reset(encoding.Limits{Bars: limits.Bars, Combos: limits.Combos, Take: c.take})
	return c
}

// maxRetainedCombos is the largest answer whose memory a pooled call keeps.
const maxRetainedCombos = 1 << 16

func (c *call) release() {
	// First the request, which may lie in the memory that is given back next.
	c.request.Reset(encoding.Limits{})
	c.in.release()
	c.out.release()
	c.reserved.release()
	c.in, c.out, c.answer, c.wire, c.ctx, c.exchange = nil, nil, nil, wireReader{}, nil, nil
	if cap(c.combos) > maxRetainedCombos || cap(c.results.PnL) > maxRetainedCombos {
		c.combos, c.results = nil, kernel.Results{}
	}
	calls.Put(c)
}

// receive negotiates the formats, then reads and decodes the body, unless ctx
// ends before. The call must be released once its answer is out.
func (a *API) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, ex *middleware.Exchange) (*call, error) {
	codec, err := requestCodec(r, ex)
	if err != nil {
		return nil, err
	}
	answer, err := encoding.ForAccept(r.Header.Values("Accept"), codec)
	if err != nil {
		return nil, refuse(notAcceptable, err.Error())
	}
	ex.AnswerFormat = answer.Name()
	c, err := a.decode(ctx, w, r, ex, codec)
	if err != nil {
		return nil, err
	}
	c.answer = answer
	return c, nil
}

// requestCodec finds the format of the body.
func requestCodec(r *http.Request, ex *middleware.Exchange) (encoding.Codec, error) {
	contentType := ""
	switch given := r.Header["Content-Type"]; len(given) {
	case 0:
	case 1:
		contentType = given[0]
	default:
		return nil, refuse(unsupportedType, "there are several Content-Type headers; a body has one type")
	}
	codec, err := encoding.ForContentType(contentType)
	if err != nil {
		return nil, refuse(unsupportedType, err.Error())
	}
	if r.ContentLength == 0 && contentType == "" {
		codec = encoding.JSON // curl -X POST without a body: a person is waiting
	}
	ex.RequestFormat = codec.Name()
	return codec, nil
}

// decode reads and decodes the body.
func (a *API) decode(ctx context.Context, w http.ResponseWriter, r *http.Request, ex *middleware.Exchange, codec encoding.Codec) (*call, error) {
	c := a.newCall(ctx, ex)
	kept := false
	defer func() {
		if !kept { // after a panic too, or the memory reserved for it would be lost
			c.release()
		}
	}()
	c.in, c.out = newBuffer(smallestBuffer), newBuffer(smallestBuffer)
	if err := a.readBody(ctx, w, r, ex, codec, c); err != nil {
		return nil, err
	}
	ex.Clock.Enter(middleware.Decode)
	if len(c.in.bytes) > 0 || codec == encoding.Octet {
		if err := codec.Decode(c.in.bytes, &c.request); err != nil {
			return nil, err
		}
	}
	ex.Bars = len(c.request.Close)
	kept = true
	return c, nil
}

// series returns the body's series, of a request that needs one in it and
// nothing else. Elements that are no numbers are left to the caller.
func (c *call) series(path string) ([]float64, error) {
	req := &c.request
	if err := c.checkOp(encoding.OpEcho, path); err != nil {
		return nil, err
	}
	switch {
	case req.Dataset != "":
		return nil, refuseField(invalidValue, "dataset", "dataset: "+path+" needs the series itself; GET /datasets/{id} reads a stored one")
	case req.Close == nil && req.Op == encoding.OpUnset:
		return nil, refuseField(invalidValue, "close", "close: there is no series in the body")
	case req.Close == nil:
		return []float64{}, nil // of a frame with no bars
	}
	return req.Close, nil
}

// checkOp refuses a frame that was sent to the wrong endpoint.
func (c *call) checkOp(want encoding.Op, path string) error {
	if c.request.Op == encoding.OpUnset || c.request.Op == want {
		return nil
	}
	return refuseField(invalidValue, "opcode", fmt.Sprintf("opcode: is %d, but %s takes frames of opcode %d", c.request.Op-1, path, want-1))
}
