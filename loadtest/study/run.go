package study

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"texttax/kernel"
	"texttax/loadtest"
)

// Options say what to study.
type Options struct {
	Work       loadtest.Work       // nothing means 80 combos over the demo series
	Boundaries []loadtest.Boundary // with a server behind each, in the order of the tables
	Spawn      *loadtest.Spawn     // a process per call; nil for none
	Python     string              // interpreter that may have numpy; "" for none
	Quick      bool                // fewer calls, and none that take long
	Budget     time.Duration       // no round begins that would end after it, but for the first three
	// Progress is told, from 0 to 1, how much of the time is over, and what
	// comes next.
	Progress func(share float64, left time.Duration, what string)
}

// minRounds are what a median needs.
const minRounds = 3

// Run studies this machine until the budget is used up. When ctx ends, or a
// server fails, or gives wrong answers, there are both results, as far as they
// go, and an error.
func Run(ctx context.Context, o Options) (*Results, error) {
	s := &study{Options: o, results: new(Results), began: time.Now()}
	defer s.close()
	defer func() {
		for i := range s.results.Crossings {
			s.results.Crossings[i].finish()
		}
	}()
	if err := s.plan(ctx); err != nil {
		return nil, err
	}
	for {
		began := time.Now()
		for i, t := range s.trials {
			if t.slow && s.results.Rounds >= minRounds {
				continue
			}
			s.tell(i)
			if err := t.run(ctx); err != nil {
				err = fmt.Errorf("%s: %w", t.name, err)
				if errors.Is(err, loadtest.ErrWrongReply) || errors.Is(err, errOutcomes) {
					s.results.Gate.Failure = err.Error()
				}
				return s.results, err
			}
			s.took(i, time.Since(began))
			began = time.Now()
		}
		if s.results.Rounds++; s.results.Rounds == minRounds {
			for i, t := range s.trials {
				if t.slow {
					s.took(i, 0)
				}
			}
		}
		if s.results.Rounds >= minRounds && time.Since(s.began)+s.round > o.Budget {
			return s.results, nil
		}
	}
}

// A trial is measured once a round.
type trial struct {
	name string
	slow bool          // and measured in the first minRounds only
	took time.Duration // in the round before
	run  func(ctx context.Context) error
}

type study struct {
	Options
	results *Results
	began   time.Time
	round   time.Duration // of all trials, as far as known
	trials  []*trial
	closers []func()
}

func (s *study) close() {
	for _, c := range s.closers {
		c()
	}
}

func (s *study) took(i int, d time.Duration) {
	s.round += d - s.trials[i].took
	s.trials[i].took = d
}

// tell reports the progress before trial i.
func (s *study) tell(i int) {
	if s.Progress == nil {
		return
	}
	elapsed := time.Since(s.began)
	total := max(s.Budget, elapsed)
	if rounds := s.results.Rounds; rounds > 0 && rounds < minRounds {
		left := time.Duration(minRounds-rounds) * s.round
		for _, t := range s.trials[:i] {
			left -= t.took
		}
		total = max(total, elapsed+left)
	}
	s.Progress(elapsed.Seconds()/total.Seconds(), total-elapsed, s.trials[i].name)
}

func (s *study) add(name string, run func(ctx context.Context) error) *trial {
	t := &trial{name: name, run: run}
	s.trials = append(s.trials, t)
	return t
}

// plan makes the trials. What can't be measured here leaves a note.
func (s *study) plan(ctx context.Context) error {
	work := s.Work
	if work.Close == nil {
		var err error
		if work, err = loadtest.Demo(80); err != nil {
			return err
		}
	}
	s.results.Bars, s.results.Combos = len(work.Close), len(work.Combos)
	s.planTax(ctx, work.Close)
	if err := s.planFloor(work.Close[:1]); err != nil {
		return err
	}
	boundaries := s.Boundaries
	if s.Spawn != nil {
		if err := s.probe(ctx, s.Spawn, work); err != nil {
			s.note("a process per call is left out: %v", err)
		} else {
			boundaries = append(boundaries[:len(boundaries):len(boundaries)], s.Spawn)
		}
	}
	// The tables' rows are made before any trial has a pointer to one.
	s.planCurves(boundaries, work)
	if err := s.planCrossings(boundaries, work); err != nil {
		return err
	}
	// Last: a server that is not there shows without waiting for the slow ones.
	return s.planKernels(ctx, work)
}

func (s *study) note(format string, args ...any) {
	s.results.Notes = append(s.results.Notes, fmt.Sprintf(format, args...))
}

// probe makes one small call.
func (s *study) probe(ctx context.Context, b loadtest.Boundary, work loadtest.Work) error {
	octet, err := loadtest.FormatByName("octet")
	if err != nil {
		return err
	}
	_, err = loadtest.Run(ctx, loadtest.Plan{
		Scenario: loadtest.Scenario{Boundary: b, Format: octet, Granularity: loadtest.PerBar},
		Work:     work, Count: 1, Timeout: 10 * time.Second,
	})
	return err
}

var errOutcomes = errors.New("this variant has not the same outcomes")

// planKernels adds the variants of the kernel, each on one goroutine. Their
// answers must have the bits of the default's.
func (s *study) planKernels(ctx context.Context, work loadtest.Work) error {
	var want kernel.Results
	if err := kernel.Sweep(ctx, work.Close, work.Combos, kernel.DefaultFee, 0, &want); err != nil {
		return err
	}
	variants := kernel.Variants()
	s.results.Kernels = make([]Kernel, len(variants))
	for i, v := range variants {
		k := &s.results.Kernels[i]
		k.Name = v.Name()
		var got kernel.Results
		t := s.add("kernel "+k.Name, func(ctx context.Context) error {
			began := loadtest.Now()
			if err := (kernel.Sweeper{Workers: 1, Variant: v}).Sweep(ctx, work.Close, work.Combos, kernel.DefaultFee, &got); err != nil {
				return err
			}
			k.Seconds = append(k.Seconds, (loadtest.Now() - began).Seconds())
			if !got.Identical(&want) {
				return fmt.Errorf("%w as %s", errOutcomes, kernel.Implementation)
			}
			s.results.Gate.Verified++
			return nil
		})
		t.slow = strings.HasPrefix(k.Name, "reference") // of which there need be no more than a median
	}
	return nil
}

// drive sends so many calls of a job on one connection, and counts what has
// been verified. A call that is not answered is an error.
func (s *study) drive(ctx context.Context, sc loadtest.Scenario, job *loadtest.Job, calls int, observe func(*loadtest.Record)) (*loadtest.Result, error) {
	r, err := loadtest.Run(ctx, loadtest.Plan{Scenario: sc, Job: job, Count: int64(calls), Observe: observe})
	if r == nil {
		return nil, err
	}
	s.results.Gate.Verified += r.Answered()
	if err == nil && r.Failed() > 0 {
		err = fmt.Errorf("%d of %d calls were not answered: %s", r.Failed(), calls, r.Failures[0])
	}
	return r, err
}
