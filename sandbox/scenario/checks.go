package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/judge"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

func expectations(c *v1alpha1.Checks) map[string]v1alpha1.Expectation {
	expect := map[string]v1alpha1.Expectation{
		judge.ActiveVersion: c.ActiveVersion, judge.Truth: c.Truth, judge.Order: c.Order,
		judge.InstalledOnce: c.InstalledOnce, judge.NothingLeft: c.NothingLeft, judge.MaxPodWrites: v1alpha1.Ignored,
		judge.MaxCommands: v1alpha1.Ignored,
	}
	for name, most := range map[string]*int{judge.MaxPodWrites: c.MaxPodWrites, judge.MaxCommands: c.MaxCommands} {
		if most != nil {
			expect[name] = v1alpha1.Holds
		}
	}
	return expect
}

// judgeOptions returns the options of the checks, including the controller timings that the scenario configures. It
// ignores timings that only the sandbox configures.
func judgeOptions(s *v1alpha1.ScenarioSpec, speed int) judge.Options {
	o := judge.Options{MaxPodWrites: s.Checks.MaxPodWrites, MaxCommands: s.Checks.MaxCommands, Speed: speed}
	if s.Controller == nil {
		return o
	}
	for name, to := range map[string]*time.Duration{
		"LIST_INTERVAL": &o.ListInterval, "BASE_UNREACHABLE_AFTER": &o.UnreachableAfter,
		"INSTALL_TIMEOUT": &o.InstallTimeout, "UNINSTALL_TIMEOUT": &o.UninstallTimeout,
		"LEASE_DURATION": &o.LeaseDuration,
	} {
		if d, err := time.ParseDuration(s.Controller.Env[name]); err == nil && d > 0 {
			*to = d
		}
	}
	return o
}

// evaluateChecks evaluates the built-in checks for all events until end, and adds the results to the report. A check
// with an unexpected result fails the run. An inconclusive check makes the run Errored, unless the run has already
// failed.
func (e *execution) evaluateChecks(ctx context.Context, end time.Time) {
	expect, inconclusive := expectations(&e.in.Spec.Checks), ""
	options := judgeOptions(&e.in.Spec, e.r.status.Speed)
	options.Foreign, options.Delay = e.foreignPods(ctx), e.recorder.Lag()+observe.LastWriteInterval
	for _, r := range judge.Evaluate(e.recorder.Events(), end, options) {
		c := checkOf(r, expect[r.Name])
		e.addCheck(c)
		switch {
		case c.Result == Failed:
			e.fail(Failed, fmt.Sprintf("check %s: %s", r.Name, c.Summary))
		case c.Result == Errored && inconclusive == "":
			inconclusive = fmt.Sprintf("check %s: %s", r.Name, c.Summary)
		}
	}
	if inconclusive != "" {
		e.fail(Errored, inconclusive)
	}
}

// foreignPods returns the Pods of other namespaces on the bases of the run. It returns nil if no modules remain on
// the bases, or if the API does not respond.
func (e *execution) foreignPods(ctx context.Context) (all []events.PodStatus) {
	left := false
	e.recorder.Read(func(v observe.Snapshot) { left = len(v.State().Leftovers(nil)) > 0 })
	if !left {
		return nil
	}
	pods, err := e.r.kube.Typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.r.o.Logger.Warn("could not list the Pods of all namespaces", "run", e.in.name, "err", err)
		return nil
	}
	e.recorder.Read(func(v observe.Snapshot) {
		for i := range pods.Items {
			p := events.PodStateOf(&pods.Items[i])
			p.Name = pods.Items[i].Namespace + "/" + p.Name
			if base := v.State().BaseOf(p.Node); base != "" && pods.Items[i].Namespace != e.in.name {
				all = append(all, events.PodStatus{PodState: *p, Base: base})
			}
		}
	})
	return all
}

// findStrayPod returns an error if a Pod of the run was bound to a base outside of the run. The checks do not observe
// such a base, and other runs may use it. baseOf returns the base of a Node, or "".
func findStrayPod(all []events.Event, baseOf func(node string) string) error {
	for _, x := range all {
		if x.Pod != nil && strings.HasPrefix(x.Pod.Node, events.NodePrefix) && baseOf(x.Pod.Node) == "" {
			return fmt.Errorf(
				"pod %s was on Node %s, which does not belong to this run; give the Pod the node selector %s: "+
					"${{ run.group }} ($GROUP in a script)",
				x.Pod.Name, x.Pod.Node, labels.BaseCluster)
		}
	}
	return nil
}

// releases adds a check for each release to the report. It returns an error if a release had no effect on any base,
// unless the scenario allows this.
func (e *execution) releases(ctx context.Context) error {
	list, err := e.env.Releases(ctx, e.recorder.Events())
	for _, r := range list {
		e.addEffectCheck("release of "+r.Workload, plain.Count(r.Changes, "change")+" on bases", r.Changes,
			r.MayChangeNothing)
	}
	return err
}

// faults adds a check for each fault to the report. It returns an error if a fault was never triggered, unless the
// scenario allows this.
func (e *execution) faults() error {
	list, err := e.env.Faults(e.recorder.Events())
	for _, f := range list {
		summary := f.Kind + " was triggered"
		if f.Triggered == 0 {
			summary = f.Kind + " was never triggered"
		}
		e.addEffectCheck("fault "+f.ID, summary, f.Triggered, f.MayNotFire)
	}
	return err
}

// addEffectCheck adds a check to the report. The check fails if count is 0; if mayBeNone is set, it is skipped
// instead.
func (e *execution) addEffectCheck(name, summary string, count int, mayBeNone bool) {
	c := Check{Name: name, Expect: string(v1alpha1.Holds), Result: Passed, Summary: summary, Compared: count}
	switch {
	case count > 0:
	case mayBeNone:
		c.Result = Skipped
	default:
		c.Result = Failed
	}
	e.addCheck(c)
}

// checkOf compares the result of a check with the expectation of the scenario. A check that compared no items is
// skipped unless the scenario expects a violation. A check that has only uncertain violations is inconclusive.
func checkOf(r judge.Result, expect v1alpha1.Expectation) Check {
	c := Check{Name: r.Name, Expect: string(expect), Result: Passed, Summary: r.Summary(), Compared: r.Compared}
	found := r.Violations
	if len(found) == 0 && expect != v1alpha1.Ignored {
		found = r.Doubtful
	}
	for _, f := range found {
		c.Violations = append(c.Violations,
			Violation{Time: f.Time, Length: f.Length, Base: f.Base, Pod: f.Pod, Message: f.String()})
	}
	switch {
	case expect == v1alpha1.Ignored && r.Compared > 0:
	case len(r.Violations) == 0 && len(r.Doubtful) > 0:
		c.Result, c.Summary = Errored, errInconclusive.Error()+": "+r.Doubtful[0].String()
	case expect == v1alpha1.Violated && len(r.Violations) == 0:
		c.Result, c.Summary = Failed, "expected a violation, found none: "+c.Summary
	case expect == v1alpha1.Holds && len(r.Violations) > 0:
		c.Result = Failed
	case r.Compared == 0:
		c.Result = Skipped
	}
	return c
}
