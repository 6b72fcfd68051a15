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

// Contender is one side of a comparison.
type Contender struct {
	// Name is the name of the side in the result.
	Name string
	// Config is the configuration of the sandboxes of this side, as in Options.
	Config *v1alpha1.Sandbox
}

// Comparison is the result of Compare. It is saved in the corpus as compare.json.
type Comparison struct {
	Started time.Time `json:"started"`
	Seed    uint64    `json:"seed"`
	// Only contains the names of the actions that were used; empty means all actions.
	Only []string `json:"only,omitempty"`
	// Schedules is the number of schedules that were run on each side.
	Schedules int           `json:"schedules"`
	Elapsed   time.Duration `json:"elapsed"`
	A         Side          `json:"a"`
	B         Side          `json:"b"`
	// Error is the error that ended the comparison; empty if there was none.
	Error string `json:"error,omitempty"`
}

// Side counts the schedules of one side by their result. Inconclusive counts schedules that were inconclusive in both
// attempts.
type Side struct {
	Name         string `json:"name"`
	Passed       int    `json:"passed"`
	Failed       int    `json:"failed"`
	Inconclusive int    `json:"unclear"`
	// Invariants counts the failed schedules by Failure.Invariant.
	Invariants map[string]int `json:"invariants"`
	// OneSided contains the failures of schedules that did not fail on the other side, sorted by seed.
	OneSided []OneSidedFailure `json:"alone"`
}

// OneSidedFailure is a failure of a schedule that failed on only one side.
type OneSidedFailure struct {
	Seed      uint64 `json:"seed"`
	Invariant string `json:"invariant"`
	Seen      string `json:"seen"`
	// Inconclusive reports whether the schedule was inconclusive on the other side. If it is false, the schedule
	// passed there.
	Inconclusive bool `json:"unclear,omitempty"`
}

type comparison struct {
	queue
	// runSchedule runs a schedule on the side with the same index.
	runSchedule [2]runner
	// concurrency is how many schedules run concurrently.
	concurrency int

	result Comparison // guarded by the mutex of the queue
}

// Compare runs the same schedules on two sides and compares the results. Schedule n, counted from 0, has the seed
// Seed + n. Schedules that need more controllers than one of the sides supports are skipped. Each side uses half of
// the sandboxes, but at least one. Compare ignores o.Config and does not shrink failures. It blocks until the
// sandboxes are deleted. If ctx ends, the result contains the schedules that completed before, and the error is nil.
func Compare(ctx context.Context, o Options, a, b Contender) (_ *Comparison, err error) {
	o = o.Complete()
	c := newComparison(o, a, b)
	c.concurrency *= maxConcurrent
	for i, side := range sideOptions(o, a, b) {
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

func sideOptions(o Options, a, b Contender) [2]Options {
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

// runAll runs the schedules. It saves the comparison even if it returns an error.
func (c *comparison) runAll(ctx context.Context) error {
	c.began = time.Now()
	err := c.each(ctx, c.concurrency, c.runBoth)
	if err != nil {
		c.result.Error = err.Error()
	}
	return errors.Join(err, c.save())
}

// runBoth runs a schedule on both sides concurrently, so that both sides have the same load, and records the results.
// If the schedule was cancelled on one side, runBoth records no result.
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

// record records the result of a schedule on one side. It returns the failure if the schedule failed only on this
// side, and nil otherwise.
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

// save writes the comparison to the corpus. The caller must hold the lock while schedules are running.
func (c *comparison) save() error {
	c.result.Started, c.result.Elapsed = c.began, time.Since(c.began)
	return report.Save(filepath.Join(c.o.Corpus, ComparisonFile), &c.result, writeJSON)
}
