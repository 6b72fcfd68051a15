package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func unscheduled(v *view) *Answer {
	if v.bound() {
		return nil
	}
	return schedule(v)
}

// schedule explains a Pod without a Node.
func schedule(v *view) *Answer {
	var gates []string
	for _, g := range v.Pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	switch {
	case len(gates) > 0:
		return &Answer{Reason: SchedulingGated,
			Cause: fmt.Sprintf("the scheduler ignores %s while it has the scheduling gate %s", v.name(),
				strings.Join(gates, ", ")),
			Advice: "check that the component that set the gate is running; that component removes the gate"}
	case len(v.Bases) == 0 && !v.live("") && !v.ControllersUnread:
		return &Answer{Reason: ControllerNotRunning,
			Cause: "there are no bases, and no module controller is running to create their Nodes" +
				v.lastController(""), Advice: startController}
	case len(v.Bases) == 0:
		return &Answer{Reason: NoBases,
			Cause:  "there are no bases: no Node has the label " + labels.Component + "=" + labels.Vnode,
			Advice: "start a base, and check that it reaches the broker or the controller; in a sandbox: koupsandbox base add"}
	}
	switch v.placed().furthest {
	case linkLabels:
		return v.placed().unmatched()
	case linkTaints:
		return untolerated(v)
	case linkState:
		return unavailable(v)
	case linkRoom:
		return noRoom(v)
	case linkFits:
	}
	return rejected(v)
}

// placed returns the comparison with all bases.
func (v *view) placed() *placement {
	if v.places == nil {
		v.places = place(v.Pod, v.Bases, v.OnBases)
	}
	return v.places
}

// unmatched explains a Pod whose labels no base has.
func (p *placement) unmatched() *Answer {
	r := p.blamed
	isName := r.key == labels.BaseName || r.key == labels.OlderBaseName
	isVersion := r.key == labels.BaseVersion || r.key == labels.OlderBaseVersion
	names := p.values(r.key, false)
	switch {
	case isName && len(r.values) > 0 &&
		!slices.ContainsFunc(names, func(name string) bool { return slices.Contains(r.values, name) }):
		return &Answer{Reason: WrongBaseName,
			Cause: fmt.Sprintf("no base is named %q; base names in this cluster: %s", strings.Join(r.values, " or "),
				some(names)),
			Advice: fmt.Sprintf("change %s in the %s to the name of a base, or start a base of that name%s", r.key,
				r.where(), plain.DidYouMean(r.values[0], names))}
	case isVersion && len(r.values) > 0:
		return &Answer{Reason: WrongBaseVersion,
			Cause: fmt.Sprintf("no base that fits otherwise has the version %s; their versions are %s",
				strings.Join(r.values, " or "), some(p.values(r.key, true))),
			Advice: fmt.Sprintf(
				"start a base of that version, or change %s in the %s; the Pod stays Pending until such a base exists",
				r.key, r.where())}
	}
	reason := NoBaseMatchesAffinity
	if r.selector {
		reason = NoBaseMatchesSelector
	}
	cause := fmt.Sprintf("none of %s fits: %s", plain.Count(len(p.verdicts), "base"), r.text)
	if r.key != "" {
		cause += "; values of that label on bases: " + cmp.Or(some(p.values(r.key, true)), "none")
	}
	return &Answer{Reason: reason, Cause: cause,
		Advice: fmt.Sprintf("correct the %s of the Pod or its template%s; show the labels with: kubectl get "+
			"nodes --show-labels", r.where(), relabel(r.key))}
}

// values returns the values of a label of bases; with fitting, only of bases that nothing else is wrong with, if there are
// any.
func (p *placement) values(key string, fitting bool) (all []string) {
	var otherwise []string
	for _, d := range p.verdicts {
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

// where returns the field of the Pod that holds a requirement.
func (r requirement) where() string {
	if r.selector {
		return "nodeSelector"
	}
	return "node affinity"
}

// relabel returns how a base can get another value of a label. The controller restores its own labels.
func relabel(key string) string {
	switch {
	case key == "":
		return ""
	case key == labels.BaseCluster:
		return ", or change the cluster name that the base reports (in a sandbox: spec.bases.clusterName); the controller reverts kubectl label"
	case labels.IsNodeLabel(key):
		return ", or start a base that reports another value; the controller reverts kubectl label"
	default:
		return ", or label the Node of a base"
	}
}

// untolerated explains a Pod that does not tolerate a taint of the bases with its labels.
func untolerated(v *view) *Answer {
	p := v.placed()
	if t, found := p.taint(labels.TaintVirtualNode); found {
		return &Answer{Reason: TolerationMissing,
			Cause:  fmt.Sprintf("the Pod does not tolerate the taint %s, which every base has", t.ToString()),
			Advice: "add " + toleration(t) + " to the tolerations of the Pod or its template"}
	}
	named := environments(v.Pod) // the controller adds the toleration to Pods that name no environment
	switch t, found := p.taint(labels.TaintEnv); {
	case found && len(named) == 0 && !v.live(t.Value) && v.ours(p.decisive[0].base):
		return &Answer{Reason: ControllerNotRunning,
			Cause: "no module controller is running to add a toleration of " + t.ToString() +
				v.lastController(t.Value),
			Advice: "start the module controller, or add " + toleration(t) + " to the tolerations"}
	case found && len(named) == 0:
		return &Answer{Reason: EnvironmentTolerationMissing,
			Cause: fmt.Sprintf(
				"the Pod does not tolerate the taint %s, and the controller has not added that toleration",
				t.ToString()),
			Advice: "add " + toleration(t) +
				" to the tolerations; the controller adds it only without LEAVE_POD_TOLERATIONS"}
	case found:
		var have []string
		for _, d := range p.decisive {
			have = append(have, d.taint.Value)
		}
		return &Answer{Reason: WrongEnvironment,
			Cause: fmt.Sprintf(
				"the Pod tolerates bases of the environment %s, and the bases that fit otherwise belong to %s",
				some(named), some(have)),
			Advice: fmt.Sprintf("tolerate %s with the value %s and the effect %s, if you mean that environment", t.Key,
				t.Value, t.Effect)}
	}
	t, _ := p.taint("")
	return &Answer{Reason: TaintNotTolerated,
		Cause: fmt.Sprintf("the Pod does not tolerate the taint %s of %s", t.ToString(), p.names()),
		Advice: fmt.Sprintf("tolerate it, or remove it: kubectl taint node %s %s-", p.decisive[0].base.Name,
			t.ToString())}
}

// taint returns a taint of the decisive bases with the key; empty is any.
func (p *placement) taint(key string) (corev1.Taint, bool) {
	for _, d := range p.decisive {
		if key == "" || d.taint.Key == key {
			return d.taint, true
		}
	}
	return corev1.Taint{}, false
}

// toleration writes the YAML that tolerates a taint.
func toleration(t corev1.Taint) string {
	return fmt.Sprintf("{key: %s, operator: Equal, value: %q, effect: %s}", t.Key, t.Value, t.Effect)
}

// environments returns the environments that a Pod tolerates by their key.
func environments(p *corev1.Pod) (values []string) {
	for _, t := range p.Spec.Tolerations {
		if t.Key == labels.TaintEnv {
			values = append(values, t.Value)
		}
	}
	return values
}

// unavailable explains a Pod whose bases are cordoned or not Ready.
func unavailable(v *view) *Answer {
	p := v.placed()
	first := p.decisive[0]
	switch {
	// Kubernetes marks Nodes as unreachable whose Leases are not renewed
	case p.all(BasesNotReady) && !v.live("") && v.ours(first.base):
		return &Answer{Reason: ControllerNotRunning,
			Cause: fmt.Sprintf("no module controller is running to report that %s is alive%s", p.names(),
				v.lastController("")), Advice: startController}
	case p.all(BaseCordoned):
		return &Answer{Reason: BaseCordoned,
			Cause:  fmt.Sprintf("each base that fits otherwise is cordoned, and accepts no new Pods: %s", p.names()),
			Advice: "kubectl uncordon " + first.base.Name}
	case p.all(BaseLeaving):
		return &Answer{Reason: BaseLeaving,
			Cause: fmt.Sprintf("each base that fits otherwise is cordoned, and its Node is being deleted: %s",
				p.names()),
			Advice: "start another base; if the Node has a finalizer, its deletion ends when the finalizer is removed"}
	}
	return &Answer{Reason: BasesNotReady,
		Cause: fmt.Sprintf("no base that fits otherwise is Ready: %s; %s: %s", p.names(), baseName(first.base),
			first.text),
		Advice: "see: koupsandbox why node/" + baseName(first.base)}
}

// all reports whether all decisive bases are in a state.
func (p *placement) all(s Reason) bool {
	return !slices.ContainsFunc(p.decisive, func(d verdict) bool { return d.state != s })
}

// names returns the names of the decisive bases.
func (p *placement) names() string {
	var all []string
	for _, d := range p.decisive {
		all = append(all, baseName(d.base))
	}
	return some(all)
}

// limitRanger is the annotation in which the admission plugin LimitRanger lists the requests that it has
// added to a Pod (k8s.io/kubernetes/plugin/pkg/admission/limitranger).
const limitRanger = "kubernetes.io/limit-ranger"

// noRoom explains a Pod that requests more than its bases have free: a resource that no base has, such as
// ephemeral-storage, or too much of a resource. The base reports memory and CPU itself, so they may be unknown for a
// moment.
func noRoom(v *view) *Answer {
	p := v.placed()
	for _, name := range slices.Sorted(maps.Keys(p.requests)) {
		has := func(d verdict) bool { _, has := d.base.Status.Allocatable[name]; return has }
		asked := p.requests[name]
		if asked.IsZero() || name == corev1.ResourceMemory || name == corev1.ResourceCPU ||
			slices.ContainsFunc(p.verdicts, has) {
			continue
		}
		advice := "remove the request from the Pod or its template"
		if strings.Contains(v.Pod.Annotations[limitRanger], string(name)+" request") {
			advice = fmt.Sprintf(
				"a LimitRange of the namespace %s adds the request: remove %s from it, or request 0 in the template",
				v.Pod.Namespace, name)
		}
		return &Answer{Reason: NoSuchResource,
			Cause:  fmt.Sprintf("the Pod requests %s of %s, and no base has any", amount(name, asked), name),
			Advice: advice}
	}
	best := p.decisive[0]
	for _, d := range p.decisive {
		have, most := p.free[d.base.Name][d.short], p.free[best.base.Name][d.short]
		if d.short == corev1.ResourceMemory && (best.short != corev1.ResourceMemory || have.Cmp(most) > 0) {
			best = d
		}
	}
	name := best.short
	a := &Answer{Reason: NoFreeResources, Advice: "request less, or add a base",
		Cause: fmt.Sprintf("the Pod requests %s of %s, and no base that fits otherwise has that much free: the "+
			"maximum is %s on %s", amount(name, p.requests[name]), what(name),
			amount(name, p.free[best.base.Name][name]), baseName(best.base))}
	if name == corev1.ResourceMemory {
		a.Reason, a.Advice = NoFreeMetaspace, "request less memory, remove modules, or start a base with a larger "+
			"-XX:MaxMetaspaceSize"
	}
	return a
}
