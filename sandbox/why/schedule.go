package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
)

func explainUnscheduled(v *explainer) *Answer {
	if v.bound() {
		return nil
	}
	return schedule(v)
}

// schedule explains a Pod without a Node.
func schedule(v *explainer) *Answer {
	var gates []string
	for _, g := range v.Pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	switch {
	case len(gates) > 0:
		return v.answer(msgSchedulingGated, args{"pod": v.name(), "gates": strings.Join(gates, ", ")})
	case len(v.Bases) == 0 && !v.controllerRuns("") && !v.ControllersUnread:
		return v.answer(msgNoBasesNoController, args{"last": v.lastController("")})
	case len(v.Bases) == 0:
		return v.answer(msgNoBases, nil)
	}
	switch v.placementOfPod().furthest {
	case checkLabels:
		return v.unmatched()
	case checkTaints:
		return untolerated(v)
	case checkState:
		return unavailable(v)
	case checkRoom:
		return noRoom(v)
	case checkFits:
	}
	return explainRejected(v)
}

// placementOfPod returns the result of comparing the Pod with all bases. It compares them only once.
func (v *explainer) placementOfPod() *placement {
	if v.placement == nil {
		v.placement = v.place(v.Pod, v.OnBases)
	}
	return v.placement
}

// unmatched explains a Pod that requires labels that no base has.
func (v *explainer) unmatched() *Answer {
	p := v.placementOfPod()
	r := p.blamed
	isName := r.key == labels.BaseName || r.key == labels.OlderBaseName
	isVersion := r.key == labels.BaseVersion || r.key == labels.OlderBaseVersion
	names := p.values(r.key, false)
	wanted := strings.Join(r.values, v.in(partOr, nil))
	a := args{"key": r.key, "where": partNodeAffinity, "requirement": r.text, "relabel": v.relabel(r.key), "values": ""}
	if r.selector {
		a["where"] = partNodeSelector
	}
	switch {
	case isName && len(r.values) > 0 &&
		!slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.values, name) }):
		a["wanted"], a["names"], a["meant"] = strconv.Quote(wanted), v.join(names), v.didYouMean(r.values[0], names)
		return v.answer(msgWrongBaseName, a)
	case isVersion && len(r.values) > 0:
		a["wanted"], a["versions"] = wanted, v.join(p.values(r.key, true))
		return v.answer(msgWrongBaseVersion, a)
	}
	if r.key != "" {
		a["values"] = v.in(partValues, args{"values": cmp.Or(v.join(p.values(r.key, true)), v.in(partNone, nil))})
	}
	if r.selector {
		return v.answer(msgNoBaseMatchesSelector, a)
	}
	return v.answer(msgNoBaseMatchesAffinity, a)
}

// values returns the values that the label key has on all bases. If fitting is set, it returns only the values on
// those bases that meet all other requirements; if there are no such bases, it returns the values on all bases.
func (p *placement) values(key string, fitting bool) (all []string) {
	var otherwise []string
	for _, d := range p.findings {
		value := d.base.Labels[key]
		if value == "" {
			continue
		}
		all = append(all, value)
		if len(d.unmet) == 1 && d.unmet[0] == key {
			otherwise = append(otherwise, value)
		}
	}
	if fitting && len(otherwise) > 0 {
		return otherwise
	}
	return all
}

// relabel describes how users can change the label of a base. It distinguishes labels that the controller manages,
// because the controller restores them.
func (v *explainer) relabel(key string) string {
	switch {
	case key == "":
		return ""
	case key == labels.BaseCluster:
		return v.in(partRelabelBase, nil)
	case labels.IsNodeLabel(key):
		return v.in(partReportedLabel, nil)
	default:
		return v.in(partLabelNode, nil)
	}
}

// untolerated explains a Pod that does not tolerate a taint on the bases with matching labels.
func untolerated(v *explainer) *Answer {
	p := v.placementOfPod()
	if t, found := p.taint(labels.TaintVirtualNode); found {
		return v.answer(msgTolerationMissing, args{"taint": t.ToString(), "toleration": toleration(t)})
	}
	named := environments(v.Pod) // the controller adds the toleration to Pods that name no environment
	t, found := p.taint(labels.TaintEnv)
	a := args{"taint": t.ToString(), "toleration": toleration(t)}
	switch {
	case found && len(named) == 0 && !v.controllerRuns(t.Value) && v.isOurs(p.decisive[0].base):
		a["last"] = v.lastController(t.Value)
		return v.answer(msgNoControllerAddsToleration, a)
	case found && len(named) == 0 && v.now.Sub(v.Pod.CreationTimestamp.Time) < v.lease(t.Value) &&
		v.isOurs(p.decisive[0].base):
		a["age"] = v.ago(v.Pod.CreationTimestamp.Time)
		return v.answer(msgTolerationNotAddedYet, a)
	case found && len(named) == 0:
		return v.answer(msgEnvironmentTolerationMissing, a)
	case found:
		var have []string
		for _, d := range p.decisive {
			have = append(have, d.taint.Value)
		}
		return v.answer(msgWrongEnvironment, args{"tolerated": v.join(named), "environments": v.join(have),
			"key": t.Key, "value": t.Value, "effect": t.Effect})
	}
	t, _ = p.taint("")
	return v.answer(msgTaintNotTolerated,
		args{"taint": t.ToString(), "bases": v.join(p.names()), "node": p.decisive[0].base.Name})
}

// taint returns a taint with the given key on the decisive bases. An empty key means any taint.
func (p *placement) taint(key string) (corev1.Taint, bool) {
	for _, d := range p.decisive {
		if key == "" || d.taint.Key == key {
			return d.taint, true
		}
	}
	return corev1.Taint{}, false
}

// toleration returns the YAML of a toleration for a taint.
func toleration(t corev1.Taint) string {
	return fmt.Sprintf("{key: %s, operator: Equal, value: %q, effect: %s}", t.Key, t.Value, t.Effect)
}

// environments returns the environments that the tolerations of a Pod name.
func environments(p *corev1.Pod) (values []string) {
	for _, t := range p.Spec.Tolerations {
		if t.Key == labels.TaintEnv {
			values = append(values, t.Value)
		}
	}
	return values
}

// unavailable explains a Pod whose matching bases are cordoned or not Ready.
func unavailable(v *explainer) *Answer {
	p := v.placementOfPod()
	first := p.decisive[0]
	a := args{"bases": v.join(p.names()), "node": first.base.Name, "base": baseName(first.base), "state": first.text}
	switch {
	// Kubernetes marks Nodes as unreachable whose Leases are not renewed
	case p.all(BasesNotReady) && !v.controllerRuns("") && v.isOurs(first.base):
		a["last"] = v.lastController("")
		return v.answer(msgBasesNotObserved, a)
	case p.all(BaseCordoned):
		return v.answer(msgBasesCordoned, a)
	case p.all(BaseLeaving):
		return v.answer(msgBasesLeaving, a)
	}
	return v.answer(msgBasesNotReady, a)
}

// all reports whether all decisive bases are in the state s.
func (p *placement) all(s Reason) bool {
	return !slices.ContainsFunc(p.decisive, func(d finding) bool { return d.state != s })
}

// names returns the names of the decisive bases.
func (p *placement) names() (all []string) {
	for _, d := range p.decisive {
		all = append(all, baseName(d.base))
	}
	return all
}

// limitRanger is the annotation in which the admission plugin LimitRanger lists the resource requests that it has
// added to a Pod (k8s.io/kubernetes/plugin/pkg/admission/limitranger).
const limitRanger = "kubernetes.io/limit-ranger"

// noRoom explains a Pod that requests more resources than its matching bases have free. Either no base has the
// resource, such as ephemeral-storage, or the requested amount is too large. Memory and CPU may be unknown for a
// short time, until a base reports them.
func noRoom(v *explainer) *Answer {
	p := v.placementOfPod()
	for _, name := range slices.Sorted(maps.Keys(p.requests)) {
		has := func(d finding) bool { _, has := d.base.Status.Allocatable[name]; return has }
		asked := p.requests[name]
		if asked.IsZero() || name == corev1.ResourceMemory || name == corev1.ResourceCPU ||
			slices.ContainsFunc(p.findings, has) {
			continue
		}
		a := args{"amount": amount(name, asked), "resource": name, "namespace": v.Pod.Namespace}
		if strings.Contains(v.Pod.Annotations[limitRanger], string(name)+" request") {
			return v.answer(msgLimitRange, a)
		}
		return v.answer(msgNoSuchResource, a)
	}
	best := p.decisive[0]
	for _, d := range p.decisive {
		have, most := p.free[d.base.Name][d.short], p.free[best.base.Name][d.short]
		if d.short == corev1.ResourceMemory && (best.short != corev1.ResourceMemory || have.Cmp(most) > 0) {
			best = d
		}
	}
	name := best.short
	m := msgNoFreeResources
	if name == corev1.ResourceMemory {
		m = msgNoFreeMetaspace
	}
	return v.answer(m, args{"amount": amount(name, p.requests[name]), "resource": resourceName(name),
		"free": amount(name, p.free[best.base.Name][name]), "base": baseName(best.base)})
}
