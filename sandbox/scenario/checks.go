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

// judgeOptions returns the timings of the controller that the scenario configures. Settings of the sandbox itself are
// not known here.
func judgeOptions(s *v1alpha1.ScenarioSpec, speed int) judge.Options {
	o := judge.Options{MaxPodWrites: s.Checks.MaxPodWrites, MaxCommands: s.Checks.MaxCommands, Speed: speed}
	if s.Controller == nil {
		return o
	}
	for name, to := range map[string]*time.Duration{
		"LIST_INTERVAL": &o.ListEvery, "BASE_UNREACHABLE_AFTER": &o.SilentAfter,
		"INSTALL_TIMEOUT": &o.InstallWithin, "UNINSTALL_TIMEOUT": &o.UninstallWithin,
		"LEASE_DURATION": &o.ControllerLease,
	} {
		if d, err := time.ParseDuration(s.Controller.Env[name]); err == nil && d > 0 {
			*to = d
		}
	}
	return o
}

// verdicts evaluates the checks until end and adds them to the report. A check that is not as the scenario expects
// fails the run. An inconclusive check makes the run an error, unless the run has failed.
func (e *execution) verdicts(ctx context.Context, end time.Time) {
	expect, doubt := expectations(&e.in.Spec.Checks), ""
	options := judgeOptions(&e.in.Spec, e.r.status.Speed)
	options.Foreign, options.Delay = e.foreign(ctx), e.world.Lag()+observe.LastWriteInterval
	for _, r := range judge.Judge(e.world.Events(), end, options) {
		c := checkOf(r, expect[r.Name])
		e.check(c)
		switch {
		case c.Verdict == Failed:
			e.fail(Failed, fmt.Sprintf("check %s: %s", r.Name, c.Summary))
		case c.Verdict == Errored && doubt == "":
			doubt = fmt.Sprintf("check %s: %s", r.Name, c.Summary)
		}
	}
	if doubt != "" {
		e.fail(Errored, doubt)
	}
}

// foreign returns the Pods of other namespaces on the bases of the run. It asks the API only if a module is
// left on a base, and returns none if the API does not answer.
func (e *execution) foreign(ctx context.Context) (all []events.PodStatus) {
	left := false
	e.world.Look(func(v observe.View) { left = len(v.State().Leftovers(nil)) > 0 })
	if !left {
		return nil
	}
	pods, err := e.r.kube.Typed.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		e.r.o.Logger.Warn("cannot list the Pods of other namespaces", "run", e.in.name, "err", err)
		return nil
	}
	e.world.Look(func(v observe.View) {
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

// astray returns an error if a Pod of the run was on the Node of a base that does not belong to the run. Its module
// is then on a base that the checks do not observe and that other runs may use. baseOf returns the base of a Node.
func astray(all []events.Event, baseOf func(node string) string) error {
	for _, x := range all {
		if x.Pod != nil && strings.HasPrefix(x.Pod.Node, events.NodePrefix) && baseOf(x.Pod.Node) == "" {
			return fmt.Errorf(
				"the Pod %s was on Node %s, which is not a Node of this run: give the Pod the node selector %s: ${{ "+
					"run.group }} ($GROUP in a script)",
				x.Pod.Name, x.Pod.Node, labels.BaseCluster)
		}
	}
	return nil
}

// releases adds a check for each release to the report. It returns an error if a release that had to change bases
// changed none.
func (e *execution) releases(ctx context.Context) error {
	list, err := e.env.Releases(ctx, e.world.Events())
	for _, r := range list {
		e.effect("release of "+r.Workload, fmt.Sprintf("%d changes on bases", r.Changes), r.Changes, r.MayChangeNothing)
	}
	return err
}

// faults adds a check for each fault to the report. It returns an error if a fault that had to be triggered was not.
func (e *execution) faults() error {
	list, err := e.env.Faults(e.world.Events())
	for _, f := range list {
		summary := f.Kind + " was triggered"
		if f.Fired == 0 {
			summary = f.Kind + " was never triggered"
		}
		e.effect("fault "+f.ID, summary, f.Fired, f.MayNotFire)
	}
	return err
}

// effect adds a check to the report that fails if something had no effect, unless that is allowed.
func (e *execution) effect(name, summary string, count int, mayBeNone bool) {
	c := Check{Name: name, Expect: string(v1alpha1.Holds), Verdict: Passed, Summary: summary, Compared: count}
	switch {
	case count > 0:
	case mayBeNone:
		c.Verdict = Skipped
	default:
		c.Verdict = Failed
	}
	e.check(c)
}

// checkOf compares the result of a check with what the scenario expects. A check that compared nothing is skipped,
// unless it must find a violation. A check with doubtful violations only is inconclusive.
func checkOf(r judge.Result, expect v1alpha1.Expectation) Check {
	c := Check{Name: r.Name, Expect: string(expect), Verdict: Passed, Summary: r.Summary(), Compared: r.Compared}
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
		c.Verdict, c.Summary = Errored, errInconclusive.Error()+": "+r.Doubtful[0].String()
	case expect == v1alpha1.Violated && len(r.Violations) == 0:
		c.Verdict, c.Summary = Failed, "it was to find a violation and found none: "+c.Summary
	case expect == v1alpha1.Holds && len(r.Violations) > 0:
		c.Verdict = Failed
	case r.Compared == 0:
		c.Verdict = Skipped
	}
	return c
}
