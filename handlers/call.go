package handlers

import (
	"fmt"
	"net/http"
	"sync"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/middleware"
)

// call is the working memory of one request to /sweep or /echo. It is pooled:
// in steady state the size of a body costs no allocation.
type call struct {
	wire    wireReader
	in      *buffer
	out     *buffer
	request encoding.Request
	results kernel.Results
	combos  []kernel.Params

	answer encoding.Codec
}

var calls = sync.Pool{New: func() any { return new(call) }}

// maxRetainedCombos is the largest answer whose memory a pooled call keeps.
const maxRetainedCombos = 1 << 16

func (c *call) release() {
	// First the request, which may lie in the memory that is given back next.
	c.request.Reset(encoding.Limits{})
	c.in.release()
	c.out.release()
	c.in, c.out, c.answer, c.wire = nil, nil, nil, wireReader{}
	if cap(c.combos) > maxRetainedCombos || cap(c.results.PnL) > maxRetainedCombos {
		c.combos, c.results = nil, kernel.Results{}
	}
	calls.Put(c)
}

// receive negotiates the formats, then reads and decodes the body. The call
// must be released once its answer is out.
func (a *API) receive(r *http.Request, ex *middleware.Exchange) (*call, error) {
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
	answer, err := encoding.ForAccept(r.Header.Values("Accept"), codec)
	if err != nil {
		return nil, refuse(notAcceptable, err.Error())
	}
	ex.AnswerFormat = answer.Name()

	c := calls.Get().(*call)
	c.answer = answer
	c.in, c.out = newBuffer(smallestBuffer), newBuffer(smallestBuffer)
	c.request.Reset(encoding.Limits{Bars: a.config.Limits.Bars, Combos: a.config.Limits.Combos})
	if err := a.readBody(r, ex, codec, c); err != nil {
		c.release()
		return nil, err
	}
	ex.Clock.Enter(middleware.Decode)
	if len(c.in.bytes) > 0 || codec == encoding.Octet {
		if err := codec.Decode(c.in.bytes, &c.request); err != nil {
			c.release()
			return nil, err
		}
	}
	ex.Bars = len(c.request.Close)
	return c, nil
}

// checkOp refuses a frame that was sent to the wrong endpoint.
func (c *call) checkOp(want encoding.Op, path string) error {
	if c.request.Op == encoding.OpUnset || c.request.Op == want {
		return nil
	}
	return refuseField(invalidValue, "opcode", fmt.Sprintf("opcode: is %d, but %s takes frames of opcode %d", c.request.Op-1, path, want-1))
}
