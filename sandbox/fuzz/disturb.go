package fuzz

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// disturb renders the beginning of a disturbance, and its end if it is not to outlast the next move.
func (r *renderer) disturb(i int, m Move, kind *move) {
	if kind.drains() {
		if slices.ContainsFunc(r.open, func(o open) bool { return o.kind.drains() && o.move.Base == m.Base }) {
			return
		}
		r.add(m.Do+" at "+m.Base, v1alpha1.Action{Base: r.s.drain(v1alpha1.BaseNames{m.Base})})
		r.open = append(r.open, open{move: m, kind: kind, until: i + m.Lasts})
	} else if kind.resource != "" {
		if slices.ContainsFunc(r.open, func(o open) bool { return o.kind.resource == kind.resource }) || r.starting && kind.resource == "controller" {
			return // it is away already
		}
		o := open{move: m, kind: kind, until: i + m.Lasts}
		switch {
		case kind.rule != nil:
			o.fault = r.rule(m, kind)
		case kind.way != nil:
			o.fault = r.way(m, kind)
		default:
			r.component(m.Do, kind, verbs[m.Do], m.Replica)
		}
		r.open = append(r.open, o)
	} else if kind.way != nil {
		r.open = append(r.open, open{move: m, kind: kind, until: i + m.Lasts, fault: r.way(m, kind)})
	} else {
		r.open = append(r.open, open{move: m, kind: kind, until: i + m.Lasts, fault: r.fault(m, kind)})
	}
	if m.Lasts == 0 {
		r.endDue(func(o open) bool { return o.until <= i })
	}
}

// drain empties a Node. Bare Pods would be lost for good, so with them it is only cordoned.
func (s Schedule) drain(bases v1alpha1.BaseNames) *v1alpha1.BaseAction {
	if slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Kind == pod }) {
		return &v1alpha1.BaseAction{Cordon: bases}
	}
	return &v1alpha1.BaseAction{Drain: &v1alpha1.BaseDrain{Bases: bases, NoWait: true}}
}

// verbs are what disturbances of components do.
var verbs = map[string]string{
	"controller killed": "kill", "controller paused": "pause", "broker killed": "kill", "broker paused": "pause", "API server killed": "kill",
	"controller manager killed": "kill", "controller manager paused": "pause", "scheduler killed": "kill", "scheduler paused": "pause",
}

func (r *renderer) component(name string, kind *move, do string, replica int) {
	a := &v1alpha1.ComponentAction{Do: do}
	switch kind.resource {
	case "controller":
		if replica > 1 {
			a.Replica = ptr.To(replica)
		}
		r.within(name, r.s.settle(), v1alpha1.Action{Controller: a})
	case "broker":
		r.within(name, r.s.settle(), v1alpha1.Action{Broker: a})
	case apiServer:
		r.within(name, r.s.settle(), v1alpha1.Action{APIServer: a})
	case controllerManager:
		r.within(name, r.s.settle(), v1alpha1.Action{ControllerManager: a})
	case scheduler:
		r.within(name, r.s.settle(), v1alpha1.Action{Scheduler: a})
	}
}

func (r *renderer) fault(m Move, kind *move) string {
	r.n++
	id := fmt.Sprintf("f%d", r.n)
	f := v1alpha1.Object{"id": id}
	maps.Copy(f, kind.fault)
	if k, _ := f["kind"].(string); !fault.Kind(k).Lasts() {
		f["mayNotFire"] = true
	}
	r.add(m.Do+" at "+m.Base, v1alpha1.Action{Fault: &v1alpha1.FaultAction{Set: &v1alpha1.FaultSet{Bases: v1alpha1.BaseNames{m.Base}, Fault: f}}})
	return id
}

// of is the replica that a rule is for; nil = all. One that kills is for one: that is started in the end.
func (r *renderer) of(m Move, kind *move) *int {
	if m.Replica > 1 || m.Replica == 1 && kind.resource == "controller" && r.s.Replicas > 1 {
		return ptr.To(m.Replica)
	}
	return nil
}

// rule sets what the controller meets at the API.
func (r *renderer) rule(m Move, kind *move) string {
	r.n++
	rule := *kind.rule
	rule.ID, rule.Skip, rule.MayNotFire, rule.For = fmt.Sprintf("f%d", r.n), m.Skip, true, &metav1.Duration{Duration: time.Minute}
	if kind.strikes() && !r.s.alone() {
		rule.Namespace = "${{ run.namespace }}"
	}
	a := &v1alpha1.APIAction{Set: &rule}
	a.Replica = r.of(m, kind)
	r.add(m.Do, v1alpha1.Action{API: a})
	return rule.ID
}

// way sets what happens on the way to the broker.
func (r *renderer) way(m Move, kind *move) string {
	r.n++
	rule := *kind.way
	rule.ID, rule.Skip, rule.MayNotFire, rule.For = fmt.Sprintf("f%d", r.n), m.Skip, true, &metav1.Duration{Duration: time.Minute}
	a, name := &v1alpha1.MQTTAction{Set: &rule}, m.Do
	if m.Base != "" {
		a.Bases, name = v1alpha1.BaseNames{m.Base}, name+" at "+m.Base
	}
	a.Replica = r.of(m, kind)
	r.add(name, v1alpha1.Action{MQTT: a})
	return rule.ID
}

// endDue ends disturbances, those first without which others can't end.
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
	first := []string{view, way, apiServer, controllerManager, scheduler, "broker", "controller", ""}
	slices.SortStableFunc(ending, func(a, b open) int {
		return slices.Index(first, a.kind.resource) - slices.Index(first, b.kind.resource)
	})
	var pause time.Duration
	for _, o := range ending {
		pause = max(pause, o.move.For)
	}
	if pause > 0 {
		r.add("", v1alpha1.Action{Sleep: &v1alpha1.Sleep{For: metav1.Duration{Duration: pause}, Reason: "the disturbance lasts"}})
	}
	for _, o := range ending {
		r.undo(o, rest)
	}
}

func (r *renderer) undo(o open, rest []open) {
	if o.kind.drains() {
		r.within("end of "+o.move.Do+" at "+o.move.Base, r.s.settle(), v1alpha1.Action{Base: &v1alpha1.BaseAction{Uncordon: v1alpha1.BaseNames{o.move.Base}}})
		return
	}
	if o.kind.way != nil {
		r.add("end of "+o.move.Do, v1alpha1.Action{MQTT: &v1alpha1.MQTTAction{Clear: []string{o.fault}}})
	} else if o.kind.resource == "" {
		r.add("end of "+o.move.Do, v1alpha1.Action{Fault: &v1alpha1.FaultAction{Clear: &v1alpha1.FaultClear{Bases: v1alpha1.BaseNames{o.move.Base}, IDs: []string{o.fault}}}})
		return
	}
	do := "resume"
	if o.kind.rule != nil {
		r.add("end of "+o.move.Do, v1alpha1.Action{API: &v1alpha1.APIAction{Clear: []string{o.fault}}})
	}
	if o.kind.resource == view || o.kind.resource == way || o.kind.resource == "" {
		return
	}
	switch {
	case o.kind.rule != nil || o.kind.way != nil: // it may not have written anything
		do = "restart"
	case verbs[o.move.Do] == "kill":
		do = "start"
	}
	r.component("end of "+o.move.Do, o.kind, do, o.move.Replica)
	// A controller is ready when it sees API server and broker.
	if away := slices.ContainsFunc(rest, func(o open) bool { return slices.Contains([]string{apiServer, "broker", view, way}, o.kind.resource) }); away && o.kind.resource == "controller" && do != "resume" {
		r.steps[len(r.steps)-1].Background, r.starting = true, true
	}
}
