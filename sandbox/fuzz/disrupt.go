package fuzz

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// disrupt renders the step that begins the disruption of an action. If the disruption ends before the next action,
// disrupt also renders the steps that end it. It renders nothing if the resource of the action is already disrupted.
func (r *renderer) disrupt(i int, m Action, kind *actionSpec) {
	disrupted := slices.ContainsFunc(r.open, func(o open) bool {
		return kind.resource != "" && o.kind.resource == kind.resource ||
			kind.drains() && o.kind.drains() && o.action.Base == m.Base
	})
	if disrupted || r.starting && kind.resource == controllers {
		return
	}
	o := open{action: m, kind: kind, until: i + m.Lasts}
	switch {
	case kind.drains():
		r.add(m.Do+" at "+m.Base, v1alpha1.Action{Base: r.s.drain(v1alpha1.BaseNames{m.Base})})
	case kind.fault != nil:
		o.fault = r.inject(m, kind)
	default:
		r.component(m.Do, kind, kind.do, m.Replica)
	}
	r.open = append(r.open, o)
	if m.Lasts == 0 {
		r.endDue(func(o open) bool { return o.until <= i })
	}
}

// drain returns an action that drains the Nodes of bases. If the schedule has bare Pods, the action only cordons the
// Nodes, because bare Pods are not recreated.
func (s Schedule) drain(bases v1alpha1.BaseNames) *v1alpha1.BaseAction {
	if slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Kind == pod }) {
		return &v1alpha1.BaseAction{Cordon: bases}
	}
	return &v1alpha1.BaseAction{Drain: &v1alpha1.BaseDrain{Bases: bases, NoWait: true}}
}

func (r *renderer) component(name string, kind *actionSpec, do string, replica int) {
	a := &v1alpha1.ComponentAction{Do: do}
	switch kind.resource {
	case controllers:
		if replica > 1 {
			a.Replica = ptr.To(replica)
		}
		r.addWithTimeout(name, r.s.settle(), v1alpha1.Action{Controller: a})
	case broker:
		r.addWithTimeout(name, r.s.settle(), v1alpha1.Action{Broker: a})
	case apiServer:
		r.addWithTimeout(name, r.s.settle(), v1alpha1.Action{APIServer: a})
	case controllerManager:
		r.addWithTimeout(name, r.s.settle(), v1alpha1.Action{ControllerManager: a})
	case scheduler:
		r.addWithTimeout(name, r.s.settle(), v1alpha1.Action{Scheduler: a})
	}
}

func (r *renderer) inject(m Action, kind *actionSpec) string {
	s := v1alpha1.FaultSet{Target: kind.target, Replica: r.controllerFor(m, kind), Fault: r.withID(*kind.fault)}
	name := m.Do
	if m.Base != "" {
		s.Bases, name = v1alpha1.BaseNames{m.Base}, name+" at "+m.Base
	}
	if kind.target == v1alpha1.TargetBase {
		s.Fault.MayNotFire = kind.target.Observed(s.Fault.Kind)
	} else {
		s.Fault.Skip, s.Fault.MayNotFire, s.Fault.For = m.Skip, true, fault.Duration(time.Minute)
	}
	if kind.target == v1alpha1.TargetAPI && kind.affectsSingleMessages() && !r.s.needsOwnSandbox() {
		s.Fault.Match.Namespace = "${{ run.namespace }}"
	}
	r.add(name, set(s))
	return s.Fault.ID
}

func (r *renderer) withID(f v1alpha1.Fault) v1alpha1.Fault {
	r.n++
	f.ID = fmt.Sprintf("f%d", r.n)
	return f
}

func set(s v1alpha1.FaultSet) v1alpha1.Action {
	return v1alpha1.Action{Fault: &v1alpha1.FaultAction{Set: &s}}
}

// controllerFor returns the number of the controller on which a fault acts, or nil for all controllers. A fault that
// kills a controller acts on a single controller, which is restarted at the end of the disruption.
func (r *renderer) controllerFor(m Action, kind *actionSpec) *int {
	if m.Replica > 1 || m.Replica == 1 && kind.resource == controllers && r.s.Replicas > 1 {
		return ptr.To(m.Replica)
	}
	return nil
}

// endDue renders the end of the disruptions that are due. Some disruptions can end only while the API server is
// running. If one of these is due, the disruption of the API server ends first, even if it is not due.
func (r *renderer) endDue(due func(open) bool) {
	var ending, rest []open
	needed := slices.ContainsFunc(r.open, func(o open) bool { return o.kind.endsAtAPIServer() && due(o) })
	for _, o := range r.open {
		if due(o) || needed && o.kind.resource == apiServer {
			ending = append(ending, o)
		} else {
			rest = append(rest, o)
		}
	}
	r.open = rest
	first := []string{apiProxy, brokerConnection, apiServer, controllerManager, scheduler, broker, controllers, ""}
	slices.SortStableFunc(ending, func(a, b open) int {
		return slices.Index(first, a.kind.resource) - slices.Index(first, b.kind.resource)
	})
	var pause time.Duration
	for _, o := range ending {
		pause = max(pause, o.action.For)
	}
	if pause > 0 {
		r.add("", v1alpha1.Action{
			Sleep: &v1alpha1.Sleep{For: metav1.Duration{Duration: pause}, Reason: "duration of the disruption"}})
	}
	for _, o := range ending {
		r.undo(o, rest)
	}
}

func (r *renderer) undo(o open, rest []open) {
	if o.kind.drains() {
		r.addWithTimeout("end of "+o.action.Do+" at "+o.action.Base, r.s.settle(),
			v1alpha1.Action{Base: &v1alpha1.BaseAction{Uncordon: v1alpha1.BaseNames{o.action.Base}}})
		return
	}
	if o.fault != "" {
		r.add("end of "+o.action.Do,
			v1alpha1.Action{Fault: &v1alpha1.FaultAction{Clear: &v1alpha1.FaultSelector{IDs: []string{o.fault}}}})
	}
	do := "resume"
	if o.kind.resource == apiProxy || o.kind.resource == brokerConnection || o.kind.resource == "" {
		return
	}
	switch {
	case o.kind.fault != nil: // the fault may not have killed the controller
		do = "restart"
	case o.kind.do == "kill":
		do = "start"
	}
	r.component("end of "+o.action.Do, o.kind, do, o.action.Replica)
	// A controller becomes ready when it reaches the API server and the broker.
	down := slices.ContainsFunc(rest, func(o open) bool {
		return slices.Contains([]string{apiServer, broker, apiProxy, brokerConnection}, o.kind.resource)
	})
	if down && o.kind.resource == controllers && do != "resume" {
		r.steps[len(r.steps)-1].Background, r.starting = true, true
	}
}
