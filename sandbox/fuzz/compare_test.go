package fuzz

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// tried has the seeds that a side was tried with.
type tried struct {
	mu    sync.Mutex
	seeds []uint64
	judge func(Schedule) (runResult, error)
}

func (r *tried) try(_ context.Context, s Schedule) (runResult, *scenario.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seeds = append(r.seeds, s.Seed)
	o, err := r.judge(s)
	return o, nil, err
}

// one is a contender with a command.
func one(replicas *int) Contender {
	c := Contender{Name: "one", Config: &v1alpha1.Sandbox{}}
	c.Config.Spec.Controller = v1alpha1.Controller{Command: []string{"naive"}, Replicas: replicas}
	return c
}

var own = Contender{Name: "any", Config: &v1alpha1.Sandbox{}}

// Both sides run the same schedules, and what became of them is counted on each.
func TestCompare(t *testing.T) {
	broken := func(name string) runResult { return runResult{invariant: name, seen: name + " was broken"} }
	a := &tried{judge: func(s Schedule) (runResult, error) {
		switch s.Seed % 10 {
		case 1, 2:
			return broken("order"), nil
		case 3:
			return broken("requests"), nil
		case 4:
			return runResult{inconclusive: true}, nil
		}
		return runResult{}, nil
	}}
	b := &tried{judge: func(s Schedule) (runResult, error) {
		switch s.Seed % 10 {
		case 2, 4, 7:
			return broken("truth"), nil
		case 3:
			return runResult{inconclusive: true}, nil
		}
		return runResult{}, nil
	}}
	var told []string
	o := Options{Seed: 100, Count: 20, Parallel: 6, Corpus: t.TempDir(), Progress: func(p Progress) {
		if p.Failure != nil {
			told = append(told, p.Failure.Seen)
		}
	}}.Complete()
	c := newComparison(o, own, own)
	c.result.B.Name = "b"
	c.try[0], c.try[1] = a.try, b.try
	if err := c.runAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := Comparison{Started: c.result.Started, Elapsed: c.result.Elapsed, Seed: 100, Schedules: 20,
		A: Side{Name: "any", Passed: 12, Failed: 6, Inconclusive: 2, Invariants: map[string]int{"order": 4, "requests": 2},
			OneSided: []OneSidedFailure{
				{Seed: 101, Invariant: "order", Seen: "order was broken"},
				{103, "requests", "requests was broken", true},
				{Seed: 111, Invariant: "order", Seen: "order was broken"},
				{113, "requests", "requests was broken", true}}},
		B: Side{Name: "b", Passed: 12, Failed: 6, Inconclusive: 2, Invariants: map[string]int{"truth": 6}, OneSided: []OneSidedFailure{
			{104, "truth", "truth was broken", true}, {Seed: 107, Invariant: "truth", Seen: "truth was broken"},
			{114, "truth", "truth was broken", true}, {Seed: 117, Invariant: "truth", Seen: "truth was broken"}}},
	}
	if diff := cmp.Diff(want, c.result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	slices.Sort(told)
	if diff := cmp.Diff([]string{"only any: order was broken", "only any: order was broken",
		"only any: requests was broken", "only any: requests was broken",
		"only b: truth was broken", "only b: truth was broken", "only b: truth was broken", "only b: truth was broken"},
		told); diff != "" {
		t.Errorf("told at once (-want +got):\n%s", diff)
	}
	for name, side := range map[string]*tried{"a": a, "b": b} {
		slices.Sort(side.seeds)
		if len(side.seeds) != 22 { // two are unclear, and are tried twice
			t.Errorf("side %s was tried %d times", name, len(side.seeds))
		}
		var want []uint64
		for n := range uint64(20) {
			want = append(want, 100+n)
		}
		if diff := cmp.Diff(want, slices.Compact(side.seeds)); diff != "" {
			t.Errorf("side %s (-want +got):\n%s", name, diff)
		}
	}
	kept := read[Comparison](t, filepath.Join(o.Corpus, ComparisonFile))
	kept.Started = want.Started // the same, but for the clock of this process
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("%s (-want +got):\n%s", ComparisonFile, diff)
	}
}

// A schedule whose run has been ended on one side counts on none; what was found before is kept.
func TestCompareIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := Options{Seed: 1, Count: 9, Parallel: 2, Corpus: t.TempDir()}.Complete()
	c := newComparison(o, own, own)
	c.try[0] = (&tried{judge: func(Schedule) (runResult, error) { return runResult{}, nil }}).try
	c.try[1] = (&tried{judge: func(s Schedule) (runResult, error) {
		if s.Seed == 4 {
			stop()
			return runResult{invariant: "at rest", seen: "it was ended"}, nil
		}
		return runResult{invariant: "order", seen: "it was"}, nil
	}}).try
	if err := c.runAll(ctx); err != nil {
		t.Fatal(err)
	}
	kept := read[Comparison](t, filepath.Join(o.Corpus, ComparisonFile))
	if kept.Schedules != 3 || kept.A.Passed != 3 || kept.B.Failed != 3 || len(kept.B.OneSided) != 3 || kept.Error != "" {
		t.Errorf("kept is %+v", kept)
	}
}

// What cannot be run on a side ends the comparison with an error.
func TestCompareCannotGoOn(t *testing.T) {
	gone := errors.New("the sandbox is gone")
	o := Options{Seed: 1, Count: 9, Parallel: 2, Corpus: t.TempDir()}.Complete()
	c := newComparison(o, own, own)
	c.try[0] = (&tried{judge: func(Schedule) (runResult, error) { return runResult{}, nil }}).try
	c.try[1] = (&tried{judge: func(s Schedule) (runResult, error) {
		if s.Seed == 3 {
			return runResult{}, gone
		}
		return runResult{}, nil
	}}).try
	if err := c.runAll(t.Context()); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	if kept := read[Comparison](t, filepath.Join(o.Corpus, ComparisonFile)); kept.Schedules != 2 ||
		!strings.Contains(kept.Error, "gone") {
		t.Errorf("kept is %+v", kept)
	}
}

// A schedule with more controllers than a side has is left out on both.
func TestCompareControllers(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b Contender
		most int // controllers of the schedules
	}{
		"our own":                {own, own, 2},
		"a command":              {own, one(nil), 1},
		"a command with one":     {one(ptr.To(1)), own, 1},
		"commands with replicas": {one(ptr.To(3)), one(ptr.To(2)), 2},
		"commands with fewer":    {one(ptr.To(3)), one(ptr.To(1)), 1},
	} {
		c := newComparison(Options{Seed: 1, Count: 40, Corpus: t.TempDir()}.Complete(), tc.a, tc.b)
		most := 0
		c.try[0] = (&tried{judge: func(s Schedule) (runResult, error) {
			most = max(most, s.Replicas)
			return runResult{},
				nil
		}}).try
		c.try[1] = (&tried{judge: func(Schedule) (runResult, error) { return runResult{}, nil }}).try
		if err := c.runAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if most != tc.most || c.result.Schedules != 40 {
			t.Errorf("%s: %d schedules with up to %d controllers, want 40 with up to %d", name, c.result.Schedules,
				most, tc.most)
		}
	}
}
