package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/middleware"
)

// plan is a sweep that is ready to run.
type plan struct {
	series []float64
	combos []kernel.Params
	fee    float64
	work   int64 // in bar-combos
}

// sweep serves POST /sweep.
func (a *API) sweep(w http.ResponseWriter, r *http.Request) error {
	ex := middleware.From(w)
	a.negotiated(w)
	query, err := parseQuery(r, "lengths", "dataset", "fee")
	if err != nil {
		return err
	}
	ctx, cancel, err := a.deadline(r)
	if err != nil {
		return err
	}
	defer cancel()
	c, err := a.receive(ctx, w, r, ex)
	if err != nil {
		return err
	}
	defer c.release()
	if len(c.in.bytes) == 0 {
		c.request.Close = nil // to octets an empty body is an empty series; here it leaves all to the query
	}
	if err := c.checkOp(encoding.OpSweep, "/sweep"); err != nil {
		return err
	}
	p, err := a.plan(c, query)
	if err != nil {
		return err
	}

	if err := a.run(ctx, ex, p, c); err != nil {
		return err
	}

	ex.Combos = len(p.combos)
	ex.Clock.Enter(middleware.Encode)
	answer, err := c.answer.AppendResults(c.out.empty(), &c.results)
	if err != nil {
		return err
	}
	c.out.set(answer)
	a.send(w, r, c.answer, answer)
	return nil
}

// run waits for memory and for its turn, then runs the plan. The results are the
// call's.
func (a *API) run(ctx context.Context, ex *middleware.Exchange, p plan, c *call) error {
	ex.Clock.Enter(middleware.Queue)
	workers := min(a.slots.total, kernel.Workers(len(p.series), len(p.combos)))
	// Those that stand aside keep theirs, so that it adds up.
	if err := c.reserved.growForSweep(ctx, kernel.Memory(len(p.series), p.combos, workers), ex); err != nil {
		return err
	}
	turn, err := a.slots.acquire(ctx, workers, p.work)
	if err != nil {
		return err
	}
	ex.Clock.Enter(middleware.Compute)
	away, err := compute(ctx, p, turn, &c.results)
	ex.Clock.Move(middleware.Compute, middleware.Queue, away)
	return err
}

// compute runs the plan on as many goroutines as there are slots in the turn,
// and gives them back whatever happens. It returns how long the sweep stood
// aside for others.
func compute(ctx context.Context, p plan, turn *turn, out *kernel.Results) (away time.Duration, err error) {
	defer func() { away = turn.release() }()
	s := kernel.Sweeper{Workers: turn.held, Yield: func(pausing, goingOn int) { turn.yield(ctx, pausing, goingOn) }}
	err = s.Sweep(ctx, p.series, p.combos, p.fee, out)
	turn.done = err == nil
	if err != nil && ctx.Err() != nil {
		return 0, ended(ctx)
	}
	return 0, err
}

// plan joins body and query to a sweep, and checks it.
func (a *API) plan(c *call, query url.Values) (plan, error) {
	req := &c.request
	var p plan
	var err error
	if p.series, err = a.planSeries(req, query); err != nil {
		return p, err
	}
	if p.combos, err = a.planCombos(c, query); err != nil {
		return p, err
	}
	if p.fee, err = planFee(req, query); err != nil {
		return p, err
	}
	if p.work = kernel.Work(len(p.series), p.combos); p.work > a.config.Limits.Work {
		return p, refuse(overLimit, fmt.Sprintf("%d bars x %d combos are over the limit of work, %d: with long windows counted by their length they are %d",
			len(p.series), len(p.combos), a.config.Limits.Work, p.work))
	}
	return p, nil
}

// planSeries finds the series: in the body, or the dataset that body or query
// name.
func (a *API) planSeries(req *encoding.Request, query url.Values) ([]float64, error) {
	id, inQuery := req.Dataset, query.Has("dataset")
	if inQuery {
		if id = query.Get("dataset"); req.Dataset != "" {
			return nil, refuseField(conflict, "dataset", "dataset: is given in the query and in the body")
		}
	}
	switch {
	case inQuery && id == "":
		return nil, refuseField(invalidValue, "dataset", "dataset: must not be empty")
	case id != "" && req.Close != nil:
		return nil, refuseField(conflict, "dataset", "dataset: is given beside a series in the body; a sweep runs over one of them")
	case id != "":
		v, err := a.dataset(id)
		if err != nil {
			return nil, err
		}
		return v.Series, nil // this version, whatever happens to the id
	case req.Close == nil:
		return nil, refuseField(invalidValue, "close", "close: there is no series; send it in the body, or name a dataset")
	}
	return req.Close, checkPrices(req)
}

// perCombo is the bytes that a combo takes: windows, results, and a line of the
// answer in text.
const perCombo = 6*8 + 2*8 + 64

// planCombos finds the combos: windows or lengths, in the body or the query.
func (a *API) planCombos(c *call, query url.Values) ([]kernel.Params, error) {
	req := &c.request
	lengths := req.Lengths
	if req.Params != nil && lengths != nil {
		return nil, refuseField(conflict, "lengths", "lengths: is given beside params in the body; give one of them")
	}
	if query.Has("lengths") {
		if req.Params != nil || lengths != nil {
			return nil, refuseField(conflict, "lengths", "lengths: is given in the query, and combos in the body; give one of them")
		}
		var err error
		limits := encoding.Limits{Combos: a.config.Limits.Combos, Take: c.take}
		if lengths, err = encoding.ParseLengths(query.Get("lengths"), limits); err != nil {
			return nil, queryError(err)
		}
	}
	if err := c.take(int64(len(req.Params)+len(lengths)) * perCombo); err != nil {
		return nil, err
	}
	if len(req.Params)+len(lengths) == 0 {
		return nil, refuseField(invalidValue, "lengths", "lengths: there are no combos; give lengths (6,8,10 or 6:200:80 in the query), or params in the body")
	}
	if req.Params != nil {
		var window *kernel.WindowError
		if err := kernel.CheckParams(req.Params); errors.As(err, &window) {
			name := "params." + kernel.WindowNames[window.Window]
			return nil, &refusal{reason: invalidValue, field: name, index: window.Combo,
				detail: fmt.Sprintf("%s[%d]: a window must be at least 1, not %d", name, window.Combo, window.Value)}
		}
		return req.Params, nil
	}
	c.combos = c.combos[:0]
	for i, n := range lengths {
		if n < kernel.MinLength {
			return nil, &refusal{reason: invalidValue, field: "lengths", index: i,
				detail: fmt.Sprintf("lengths[%d]: must be at least %d, not %d", i, kernel.MinLength, n)}
		}
		c.combos = append(c.combos, kernel.Expand(n))
	}
	return c.combos, nil
}

// planFee finds the fee: in the query, in the body, or the default.
func planFee(req *encoding.Request, query url.Values) (float64, error) {
	fee := kernel.DefaultFee
	if req.HasFee {
		fee = req.Fee
	}
	if query.Has("fee") {
		if req.HasFee {
			return 0, refuseField(conflict, "fee", "fee: is given in the query and in the body")
		}
		var err error
		if fee, err = encoding.ParseFee(query.Get("fee")); err != nil {
			return 0, queryError(err)
		}
	}
	return fee, encoding.CheckFee(fee)
}

// checkPrices refuses an empty series, and the first close that is no price.
func checkPrices(req *encoding.Request) error {
	if len(req.Close) == 0 {
		return refuseField(invalidValue, "close", "close: the series is empty")
	}
	return req.CheckPrices()
}
