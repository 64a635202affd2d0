package loadtest

import (
	"context"
	"slices"
	"time"

	"texttax/encoding"
)

// instant is a boundary that costs nothing: what is left of a call is the
// generator's own.
type instant struct{}

func (instant) Name() string                       { return "instant" }
func (instant) Check(*Call, Format) error          { return nil }
func (instant) Dial(context.Context) (Conn, error) { return instant{}, nil }
func (instant) Close() error                       { return nil }

func (instant) Exchange(m *Message, r *Reply) error {
	r.reset()
	r.Sent = Now()
	r.Body = append(r.Body, m.Body...)
	r.FirstByte = r.Sent
	r.Done = Now()
	return nil
}

// ownCost measures what a call costs the generator itself, beside the
// exchange: the clock, the comparison, the histograms.
func ownCost() time.Duration {
	const calls = 201
	octet := Format{Name: "octet", Codec: encoding.Octet}
	r := &run{Plan: Plan{Scenario: Scenario{Boundary: instant{}, Format: octet}, Job: &Job{Calls: []*Call{echoOf([]float64{1})}, Rounds: 1}}, start: Now()}
	c := &caller{run: r, conn: instant{}}
	costs := make([]time.Duration, calls)
	for i := range costs {
		began := Now()
		rec := Record{Scheduled: began - r.start, Free: began - r.start, Started: began - r.start}
		c.call(&rec, 0)
		r.add(&rec)
		costs[i] = Now() - began
	}
	slices.Sort(costs)
	return costs[calls/2]
}
