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
	c, err := a.receive(r.Context(), w, r, ex)
	if err != nil {
		return err
	}
	defer c.release()
	series, err := c.series("/echo")
	if err != nil {
		return err
	}
	if c.request.Invalid != nil {
		return c.request.Invalid
	}

	ex.Clock.Enter(middleware.Encode)
	if c.answer == encoding.Octet {
		a.send(w, r, c.answer, encoding.LittleEndian(series)) // from where the body lies
		return nil
	}
	if err := c.take(int64(perBar * len(series))); err != nil {
		return err
	}
	c.out.reserve(len(c.in.bytes), 0) // what it will be, if the answer is in the same format
	answer, err := c.answer.Append(c.out.empty(), &encoding.Request{Close: series, Packed: c.request.Packed})
	if err != nil {
		return err
	}
	c.out.set(answer)
	a.send(w, r, c.answer, answer)
	return nil
}
