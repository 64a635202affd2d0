package loadtest

import (
	"context"
	"errors"
	"fmt"

	"texttax/encoding"
	"texttax/kernel"
	"texttax/kernel/gbm42"
)

// Granularity says into how many calls a piece of work is cut.
type Granularity string

// The granularities.
const (
	Chunky    Granularity = "chunky"    // one call with the series and all combos
	Chatty    Granularity = "chatty"    // a call per combo, the series in each
	Preloaded Granularity = "preloaded" // a call per combo; the server has the series
	PerBar    Granularity = "per-bar"   // an echo of one close for each bar
	Echo      Granularity = "echo"      // the series there and back, nothing computed
)

// Granularities lists all granularities.
func Granularities() []Granularity {
	return []Granularity{Chunky, Chatty, Preloaded, PerBar, Echo}
}

// Work is what a caller wants to have done, whatever the boundary.
type Work struct {
	Close   []float64 // oldest first
	Combos  []kernel.Params
	Dataset string // id under which the server has the series; "" if it hasn't
}

// Demo returns the built-in series of 150,000 bars, gbm42, and combos of
// evenly spaced lengths from 6 to 200.
func Demo(combos int) (Work, error) {
	lengths, err := encoding.ParseLengths(fmt.Sprintf("6:200:%d", combos), encoding.Limits{})
	if err != nil {
		return Work{}, err
	}
	w := Work{Close: gbm42.Close(), Dataset: gbm42.ID}
	for _, n := range lengths {
		w.Combos = append(w.Combos, kernel.Expand(n))
	}
	return w, nil
}

// A Call is one call across a boundary, and what must come back.
type Call struct {
	Endpoint string // sweep or echo
	Query    string // what the format has no place for in the body, as a URL's query
	Request  *encoding.Request
	Want     *kernel.Results // nil of an echo, which must give the series back
}

// A Job is work that is cut into calls: all Calls in turn, Rounds times over.
type Job struct {
	Granularity Granularity
	Calls       []*Call
	Rounds      int
}

// Size is the number of calls in the job.
func (j *Job) Size() int { return len(j.Calls) * j.Rounds }

// barsApart is how many different closes a per-bar job sends.
const barsApart = 64

// Cut cuts the work into the calls that do it in a format, with the answers
// that the kernel of this process gives. It fails where the work lacks what
// the granularity needs.
func (w Work) Cut(g Granularity, f Format) (*Job, error) {
	if len(w.Close) == 0 {
		return nil, errors.New("there is no series to work on")
	}
	job := &Job{Granularity: g, Rounds: 1}
	switch g {
	case Echo:
		job.Calls = []*Call{echoOf(w.Close)}
		return job, nil
	case PerBar:
		n := min(barsApart, len(w.Close))
		for i := range n {
			job.Calls = append(job.Calls, echoOf(w.Close[i:i+1]))
		}
		job.Rounds = (len(w.Close) + n - 1) / n
		return job, nil
	}
	var all kernel.Results
	if err := kernel.Sweep(context.Background(), w.Close, w.Combos, kernel.DefaultFee, 0, &all); err != nil {
		return nil, err
	}
	switch g {
	case Chunky:
		job.Calls = []*Call{{Endpoint: "sweep", Request: &encoding.Request{Close: w.Close, Params: w.Combos, Op: encoding.OpSweep}, Want: &all}}
	case Chatty, Preloaded:
		for i := range w.Combos {
			c := &Call{
				Endpoint: "sweep",
				Request:  &encoding.Request{Close: w.Close, Params: w.Combos[i : i+1], Op: encoding.OpSweep},
				Want:     &kernel.Results{PnL: all.PnL[i : i+1], Trades: all.Trades[i : i+1], Open: all.Open[i : i+1]},
			}
			if g == Preloaded {
				if err := c.preload(w.Dataset, f); err != nil {
					return nil, err
				}
			}
			job.Calls = append(job.Calls, c)
		}
	default:
		return nil, fmt.Errorf("there is no granularity %q; there are %q", g, Granularities())
	}
	return job, nil
}

func echoOf(series []float64) *Call {
	return &Call{Endpoint: "echo", Request: &encoding.Request{Close: series}}
}

// preload puts the dataset in the place of the series: into the body, or into
// the query if the format has no place for it.
func (c *Call) preload(dataset string, f Format) error {
	if dataset == "" {
		return errors.New("the server has no copy of the series: there is no dataset to name")
	}
	c.Request.Close, c.Request.Dataset = nil, dataset
	if f.Codec == nil {
		return nil
	}
	_, err := f.Codec.Append(nil, c.Request)
	var no *encoding.Error
	if errors.As(err, &no) && no.Kind == encoding.Unspeakable && no.Field == "dataset" {
		c.Request.Dataset, c.Query = "", "dataset="+dataset
		_, err = f.Codec.Append(nil, c.Request)
	}
	return err
}

// series is the series that the call works on, if this process has it.
func (c *Call) series() ([]float64, error) {
	switch {
	case c.Request.Close != nil:
		return c.Request.Close, nil
	case c.Request.Dataset == gbm42.ID, c.Query == "dataset="+gbm42.ID:
		return gbm42.Close(), nil
	}
	return nil, fmt.Errorf("this process has no dataset %q", c.Request.Dataset)
}
