package fuzz

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// Contender is a side of a comparison.
type Contender struct {
	// Name is shown in the result.
	Name string
	// Config of its sandboxes, as in Options.
	Config *v1alpha1.Sandbox
}

// Comparison is the result of Compare. A corpus has its JSON form as compare.json.
type Comparison struct {
	Started time.Time `json:"started"`
	Seed    uint64    `json:"seed"`
	// Only are the names of the actions that were used; empty = all.
	Only []string `json:"only,omitempty"`
	// Schedules is the number of schedules that each side has run.
	Schedules int           `json:"schedules"`
	Elapsed   time.Duration `json:"elapsed"`
	A         Side          `json:"a"`
	B         Side          `json:"b"`
	// Error is the error that ended the comparison; may be empty.
	Error string `json:"error,omitempty"`
}

// Side counts the results of the schedules on one side. Unclear schedules were inconclusive twice.
type Side struct {
	Name         string `json:"name"`
	Passed       int    `json:"passed"`
	Failed       int    `json:"failed"`
	Inconclusive int    `json:"unclear"`
	// Invariants counts the failed schedules by Failure.Invariant.
	Invariants map[string]int `json:"invariants"`
	// OneSided are the failures of schedules that did not fail on the other side, sorted by seed.
	OneSided []OneSidedFailure `json:"alone"`
}

// OneSidedFailure is a failure of one side.
type OneSidedFailure struct {
	Seed      uint64 `json:"seed"`
	Invariant string `json:"invariant"`
	Seen      string `json:"seen"`
	// Inconclusive reports whether the other side was inconclusive. Otherwise it passed.
	Inconclusive bool `json:"unclear,omitempty"`
}

type comparison struct {
	queue
	// runSchedule runs a schedule on each side.
	runSchedule [2]runner
	// concurrency is the number of concurrent schedules.
	concurrency int

	result Comparison // guarded by the mutex of the queue
}

// Compare runs the same schedules on two sides and compares the results. The seed of schedule n, counted from 0, is
// Seed + n. Schedules that need more controllers than a side has are left out. Each side has half of the sandboxes,
// but at least one. Compare ignores o.Config, and does not shrink failures. It blocks until the sandboxes are
// deleted. If ctx ends, the result has the schedules that completed before, and the error is nil.
func Compare(ctx context.Context, o Options, a, b Contender) (_ *Comparison, err error) {
	o = o.Complete()
	c := newComparison(o, a, b)
	c.concurrency *= maxConcurrent
	for i, side := range sides(o, a, b) {
		var p *pool
		p, err = openPool(side)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.close(context.WithoutCancel(ctx))) }()
		c.runSchedule[i] = p.run
	}
	return &c.result, c.runAll(ctx)
}

func sides(o Options, a, b Contender) [2]Options {
	o.Parallel = max(1, o.Parallel/2)
	first, second := o, o
	first.Name, first.Config = o.Name+"-a", a.Config
	second.Name, second.Config = o.Name+"-b", b.Config
	return [2]Options{first, second}
}

func newComparison(o Options, a, b Contender) *comparison {
	side := func(of Contender) Side {
		return Side{Name: of.Name, Invariants: map[string]int{},
			OneSided: []OneSidedFailure{}}
	}
	c := &comparison{
		queue:       queue{o: o, gen: generator{only: o.Only, beyond: o.Beyond}},
		concurrency: max(1, o.Parallel/2), result: Comparison{Seed: o.Seed, Only: o.Only, A: side(a), B: side(b)},
	}
	c.gen.speed = a.Config.Spec.Speed
	for _, of := range []Contender{a, b} {
		if has := controllersOf(of.Config); has > 0 && (c.gen.controllers == 0 || has < c.gen.controllers) {
			c.gen.controllers = has
		}
	}
	return c
}

// runAll runs the schedules. It saves the result also if it returns an error.
func (c *comparison) runAll(ctx context.Context) error {
	c.began = time.Now()
	err := c.each(ctx, c.concurrency, c.runBoth)
	if err != nil {
		c.result.Error = err.Error()
	}
	return errors.Join(err, c.save())
}

// runBoth runs a schedule on both sides concurrently, so that the load is the same, and records the results. A schedule
// that was cancelled on one side is recorded on neither.
func (c *comparison) runBoth(ctx context.Context, s Schedule) error {
	var got [2]runResult
	var errs [2]error
	var sides sync.WaitGroup
	for i, runSchedule := range c.runSchedule {
		sides.Go(func() { got[i], _, errs[i] = runSchedule.runConclusive(ctx, s, func(string) {}) })
	}
	sides.Wait()
	if isDone(ctx) {
		return nil
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Schedules++
	alone := cmp.Or(c.result.A.record(s, got[0], got[1]), c.result.B.record(s, got[1], got[0]))
	c.o.Progress(Progress{Schedules: c.result.Schedules,
		Inconclusive: c.result.A.Inconclusive + c.result.B.Inconclusive,
		Elapsed:      time.Since(c.began), Failure: alone})
	return c.save()
}

// record records the result of a schedule. It returns the failure if the schedule failed only on this side, otherwise
// nil.
func (s *Side) record(of Schedule, got, beside runResult) *Failure {
	switch {
	case got.inconclusive:
		s.Inconclusive++
		return nil
	case got.invariant == "":
		s.Passed++
		return nil
	}
	s.Failed++
	s.Invariants[got.invariant]++
	if beside.invariant != "" {
		return nil
	}
	s.OneSided = append(s.OneSided,
		OneSidedFailure{Seed: of.Seed, Invariant: got.invariant, Seen: got.seen, Inconclusive: beside.inconclusive})
	slices.SortFunc(s.OneSided, func(a, b OneSidedFailure) int { return cmp.Compare(a.Seed, b.Seed) })
	return &Failure{Invariant: got.invariant, Seed: of.Seed, Smallest: of, Seen: "only " + s.Name + ": " + got.seen,
		Times: 1}
}

// save writes the result. The caller holds the lock while schedules run.
func (c *comparison) save() error {
	c.result.Started, c.result.Elapsed = c.began, time.Since(c.began)
	return report.Save(filepath.Join(c.o.Corpus, ComparisonFile), &c.result, writeJSON)
}
