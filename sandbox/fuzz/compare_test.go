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

// fakeRunner records the seeds of the schedules that it runs.
type fakeRunner struct {
	mu     sync.Mutex
	seeds  []uint64
	result func(Schedule) (runResult, error)
}

func (r *fakeRunner) runSchedule(_ context.Context, s Schedule) (runResult, *scenario.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seeds = append(r.seeds, s.Seed)
	result, err := r.result(s)
	return result, nil, err
}

// custom returns a contender that uses a custom controller.
func custom(replicas *int) Contender {
	c := Contender{Name: "custom", Config: &v1alpha1.Sandbox{}}
	c.Config.Spec.Controller = v1alpha1.Controller{Command: []string{"naive"}, Replicas: replicas}
	return c
}

var bundled = Contender{Name: "any", Config: &v1alpha1.Sandbox{}}

// TestCompare checks that both sides run the same schedules, and that the comparison contains the expected results of
// each side.
func TestCompare(t *testing.T) {
	failed := func(name string) runResult { return runResult{invariant: name, seen: name + " failed"} }
	a := &fakeRunner{result: func(s Schedule) (runResult, error) {
		switch s.Seed % 10 {
		case 1, 2:
			return failed("order"), nil
		case 3:
			return failed("requests"), nil
		case 4:
			return runResult{inconclusive: true}, nil
		}
		return runResult{}, nil
	}}
	b := &fakeRunner{result: func(s Schedule) (runResult, error) {
		switch s.Seed % 10 {
		case 2, 4, 7:
			return failed("truth"), nil
		case 3:
			return runResult{inconclusive: true}, nil
		}
		return runResult{}, nil
	}}
	var reported []string
	o := Options{Seed: 100, Count: 20, Parallel: 6, Corpus: t.TempDir(), Progress: func(p Progress) {
		if p.Failure != nil {
			reported = append(reported, p.Failure.Seen)
		}
	}}.Complete()
	c := newComparison(o, bundled, bundled)
	c.result.B.Name = "b"
	c.runSchedule[0], c.runSchedule[1] = a.runSchedule, b.runSchedule
	if err := c.runAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := Comparison{Started: c.result.Started, Elapsed: c.result.Elapsed, Seed: 100, Schedules: 20,
		A: Side{Name: "any", Passed: 12, Failed: 6, Inconclusive: 2,
			Invariants: map[string]int{"order": 4, "requests": 2},
			OneSided: []OneSidedFailure{
				{Seed: 101, Invariant: "order", Seen: "order failed"},
				{103, "requests", "requests failed", true},
				{Seed: 111, Invariant: "order", Seen: "order failed"},
				{113, "requests", "requests failed", true}}},
		B: Side{Name: "b", Passed: 12, Failed: 6, Inconclusive: 2, Invariants: map[string]int{"truth": 6},
			OneSided: []OneSidedFailure{
				{104, "truth", "truth failed", true}, {Seed: 107, Invariant: "truth", Seen: "truth failed"},
				{114, "truth", "truth failed", true}, {Seed: 117, Invariant: "truth", Seen: "truth failed"}}},
	}
	if diff := cmp.Diff(want, c.result); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	slices.Sort(reported)
	if diff := cmp.Diff([]string{"only any: order failed", "only any: order failed",
		"only any: requests failed", "only any: requests failed",
		"only b: truth failed", "only b: truth failed", "only b: truth failed", "only b: truth failed"},
		reported); diff != "" {
		t.Errorf("reported failures (-want +got):\n%s", diff)
	}
	for name, side := range map[string]*fakeRunner{"a": a, "b": b} {
		slices.Sort(side.seeds)
		if len(side.seeds) != 22 { // two runs are inconclusive and repeated
			t.Errorf("runs of side %s = %d, want 22", name, len(side.seeds))
		}
		var want []uint64
		for n := range uint64(20) {
			want = append(want, 100+n)
		}
		if diff := cmp.Diff(want, slices.Compact(side.seeds)); diff != "" {
			t.Errorf("seeds of side %s (-want +got):\n%s", name, diff)
		}
	}
	saved := readResult[Comparison](t, filepath.Join(o.Corpus, ComparisonFile))
	saved.Started = want.Started // equal except the monotonic clock
	if diff := cmp.Diff(want, saved); diff != "" {
		t.Errorf("%s (-want +got):\n%s", ComparisonFile, diff)
	}
}

// TestCompareIsCanceled checks that a schedule that is cancelled while it runs is not counted on either side, and
// that the earlier results are saved.
func TestCompareIsCanceled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	o := Options{Seed: 1, Count: 9, Parallel: 2, Corpus: t.TempDir()}.Complete()
	c := newComparison(o, bundled, bundled)
	c.runSchedule[0] = (&fakeRunner{result: func(Schedule) (runResult, error) { return runResult{}, nil }}).runSchedule
	c.runSchedule[1] = (&fakeRunner{result: func(s Schedule) (runResult, error) {
		if s.Seed == 4 {
			stop()
			return runResult{invariant: "final state", seen: "canceled"}, nil
		}
		return runResult{invariant: "order", seen: "wrong order"}, nil
	}}).runSchedule
	if err := c.runAll(ctx); err != nil {
		t.Fatal(err)
	}
	saved := readResult[Comparison](t, filepath.Join(o.Corpus, ComparisonFile))
	if saved.Schedules != 3 || saved.A.Passed != 3 || saved.B.Failed != 3 || len(saved.B.OneSided) != 3 ||
		saved.Error != "" {
		t.Errorf("saved result = %+v", saved)
	}
}

func TestCompareReturnsErrorOfRunner(t *testing.T) {
	errDeleted := errors.New("sandbox was deleted")
	o := Options{Seed: 1, Count: 9, Parallel: 2, Corpus: t.TempDir()}.Complete()
	c := newComparison(o, bundled, bundled)
	c.runSchedule[0] = (&fakeRunner{result: func(Schedule) (runResult, error) { return runResult{}, nil }}).runSchedule
	c.runSchedule[1] = (&fakeRunner{result: func(s Schedule) (runResult, error) {
		if s.Seed == 3 {
			return runResult{}, errDeleted
		}
		return runResult{}, nil
	}}).runSchedule
	if err := c.runAll(t.Context()); !errors.Is(err, errDeleted) {
		t.Errorf("error = %v, want %v", err, errDeleted)
	}
	if saved := readResult[Comparison](t, filepath.Join(o.Corpus, ComparisonFile)); saved.Schedules != 2 ||
		!strings.Contains(saved.Error, "deleted") {
		t.Errorf("saved result = %+v", saved)
	}
}

// TestCompareMaxControllers checks that schedules that need more controllers than one of the sides supports are
// skipped.
func TestCompareMaxControllers(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b           Contender
		maxControllers int // maximum number of controllers in the schedules
	}{
		"bundled":              {bundled, bundled, 2},
		"custom":               {bundled, custom(nil), 1},
		"custom with one":      {custom(ptr.To(1)), bundled, 1},
		"custom with replicas": {custom(ptr.To(3)), custom(ptr.To(2)), 2},
		"custom with fewer":    {custom(ptr.To(3)), custom(ptr.To(1)), 1},
	} {
		c := newComparison(Options{Seed: 1, Count: 40, Corpus: t.TempDir()}.Complete(), tc.a, tc.b)
		most := 0
		c.runSchedule[0] = (&fakeRunner{result: func(s Schedule) (runResult, error) {
			most = max(most, s.Replicas)
			return runResult{}, nil
		}}).runSchedule
		c.runSchedule[1] = (&fakeRunner{
			result: func(Schedule) (runResult, error) { return runResult{}, nil }}).runSchedule
		if err := c.runAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if most != tc.maxControllers || c.result.Schedules != 40 {
			t.Errorf("%s: %d schedules with up to %d controllers, want 40 with up to %d", name, c.result.Schedules,
				most, tc.maxControllers)
		}
	}
}
