package scenario

import (
	"fmt"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/judge"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// checks are the built-in checks of a run.
type checks struct {
	expect map[string]v1alpha1.Expectation

	mu    sync.Mutex
	judge *judge.Judge
	over  bool // the verdict is known; what comes is the clean-up
}

func newChecks(s *v1alpha1.Scenario) *checks {
	c := &s.Spec.Checks
	expect := map[string]v1alpha1.Expectation{
		judge.ActiveVersion: c.ActiveVersion, judge.Truth: c.Truth, judge.Order: c.Order,
		judge.InstalledOnce: c.InstalledOnce, judge.NothingLeft: c.NothingLeft, judge.MaxPodWrites: v1alpha1.Ignored,
	}
	if c.MaxPodWrites != nil {
		expect[judge.MaxPodWrites] = v1alpha1.Holds
	}
	return &checks{expect: expect, judge: judge.New(judge.Options{MaxPodWrites: c.MaxPodWrites})}
}

// observe hears of every event.
func (c *checks) observe(e timeline.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.judge.Observe(e)
	}
}

// results ends the checks.
func (c *checks) results(end time.Time) []judge.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	return c.judge.Results(end)
}

// verdicts puts what the checks have found into the report. One that is not as the
// scenario expects fails the run.
func (e *execution) verdicts() {
	for _, r := range e.kept.results(time.Now()) {
		expect := e.kept.expect[r.Name]
		c := checkOf(r, expect)
		e.check(c)
		if c.Verdict == Failed {
			e.fail(Failed, fmt.Sprintf("check %s: %s", r.Name, c.Summary))
		}
	}
}

// checkOf judges what a check has found by what the scenario expects. One that had
// nothing to compare proves nothing: it is skipped, unless it was to find a
// violation.
func checkOf(r judge.Result, expect v1alpha1.Expectation) Check {
	c := Check{Name: r.Name, Expect: string(expect), Verdict: Passed, Summary: r.Summary, Compared: r.Compared}
	for _, v := range r.Violations {
		c.Violations = append(c.Violations, Violation{Time: v.Time, Length: v.Length, Base: v.Base, Pod: v.Pod, Message: v.Message})
	}
	switch {
	case expect == v1alpha1.Violated && len(r.Violations) == 0:
		c.Verdict, c.Summary = Failed, "it was to find a violation and found none: "+r.Summary
	case expect == v1alpha1.Holds && len(r.Violations) > 0:
		c.Verdict = Failed
	case r.Compared == 0:
		c.Verdict = Skipped
	}
	return c
}
