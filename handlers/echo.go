package handlers

import (
	"net/http"

	"texttax/encoding"
	"texttax/middleware"
)

// echo serves POST /echo: the body's series comes back bit for bit, and
// nothing is computed. It takes any body that /sweep takes, so that the same
// bytes can be sent to both, and looks at nothing but the series.
func (a *API) echo(w http.ResponseWriter, r *http.Request) error {
	ex := middleware.From(w)
	a.negotiated(w)
	if _, err := parseQuery(r); err != nil {
		return err
	}
	c, err := a.receive(r, ex)
	if err != nil {
		return err
	}
	defer c.release()
	req := &c.request
	if err := c.checkOp(encoding.OpEcho, "/echo"); err != nil {
		return err
	}
	switch {
	case req.Dataset != "":
		return refuseField(invalidValue, "dataset", "dataset: /echo needs the series itself; GET /datasets/{id} reads a stored one")
	case req.Close == nil && req.Op == encoding.OpUnset:
		return refuseField(invalidValue, "close", "close: there is no series in the body")
	case req.Invalid != nil:
		return req.Invalid
	}
	series := req.Close
	if series == nil {
		series = []float64{} // of a frame with no bars
	}

	ex.Clock.Enter(middleware.Encode)
	answer, inPlace := encoding.LittleEndian(series)
	if c.answer != encoding.Octet || !inPlace {
		c.out.reserve(len(c.in.bytes), 0) // what it will be, if the answer is in the same format
		answer, err = c.answer.Append(c.out.empty(), &encoding.Request{Close: series, Packed: req.Packed})
		if err != nil {
			return err
		}
		c.out.set(answer)
	}
	a.send(w, r, c.answer, answer)
	return nil
}
