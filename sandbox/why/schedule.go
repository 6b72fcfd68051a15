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

// scheduleRules are for a Pod without a Node.
var scheduleRules = concat([]rule{
	{SchedulingGated, unbound(schedulingGated)},
	{ControllerNotRunning, unbound(noBasesNoController)},
	{NoBases, unbound(noBases)},
	{WrongBaseName, unmet(wrongName)},
	{WrongBaseVersion, unmet(wrongVersion)},
	{WrongEnvironmentLabel, unmet(wrongEnvironmentLabel)},
	{NoBaseMatchesSelector, unmet(noneMatches(true))},
	{NoBaseMatchesAffinity, unmet(noneMatches(false))},
	{TolerationMissing, tainted(tolerationMissing)},
	{ControllerNotRunning, tainted(nobodyAddsToleration)},
	{EnvironmentTolerationMissing, tainted(environmentTolerationMissing)},
	{WrongEnvironment, tainted(wrongEnvironment)},
	{TaintNotTolerated, tainted(taintNotTolerated)},
	{ControllerNotRunning, inState(nobodyRenews)},
	{BaseCordoned, inState(cordoned)},
	{BaseLeaving, inState(leaving)},
	{BasesNotReady, inState(notReady)},
	{NoSuchResource, at(linkRoom, noSuchResource)},
	{NoFreeMetaspace, short(true)},
	{NoFreeResources, short(false)},
}, schedulerRules)

// unbound restricts a rule to Pods without a Node.
func unbound(find func(*view) *finding) func(*view) *finding {
	return func(v *view) *finding {
		if v.Pod.Spec.NodeName != "" {
			return nil
		}
		return find(v)
	}
}

// placed is the comparison with all bases, made once.
func (v *view) placed() *placement {
	if v.places == nil {
		v.places = place(v.Pod, v.Bases, v.OnBases)
	}
	return v.places
}

// at restricts a rule to Pods that some base is the right one for, up to a link.
func at(l link, find func(*view, *placement) *finding) func(*view) *finding {
	return unbound(func(v *view) *finding {
		if p := v.placed(); len(p.verdicts) > 0 && p.furthest == l {
			return find(v, p)
		}
		return nil
	})
}

func unmet(find func(*view, *placement) *finding) func(*view) *finding { return at(linkLabels, find) }
func tainted(find func(*view, *placement) *finding) func(*view) *finding {
	return at(linkTaints, find)
}
func inState(find func(*view, *placement) *finding) func(*view) *finding { return at(linkState, find) }

func schedulingGated(v *view) *finding {
	if len(v.Pod.Spec.SchedulingGates) == 0 {
		return nil
	}
	var gates []string
	for _, g := range v.Pod.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	return &finding{cause: fmt.Sprintf("the scheduler ignores %s while it has the scheduling gate %s", v.name(), strings.Join(gates, ", ")),
		advice: "check that the component that set the gate is running; that component removes the gate"}
}

func noBasesNoController(v *view) *finding {
	if len(v.Bases) > 0 || v.live("") || !v.controllersRead() {
		return nil
	}
	return &finding{cause: "there are no bases, and no module controller runs that would make Nodes of them" + v.lastController(""),
		advice: "start the module controller; in a sandbox: koupsandbox component start module-controller"}
}

func noBases(v *view) *finding {
	if len(v.Bases) > 0 {
		return nil
	}
	return &finding{cause: "there are no bases: no Node bears the label " + labels.Component + "=" + labels.Vnode,
		advice: "start a base, and look whether it reaches the broker or the controller; in a sandbox: koupsandbox base add"}
}

// values are those that bases have under a label; of bases that nothing else is wrong with, if there
// are any.
func (p *placement) values(key string) (all []string) {
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
	if len(otherwise) > 0 {
		return otherwise
	}
	return all
}

// where says which field of the Pod holds a requirement.
func (r requirement) where() string {
	if r.selector {
		return "nodeSelector"
	}
	return "node affinity"
}

func wrongName(_ *view, p *placement) *finding {
	r := p.blamed
	if r.key != labels.BaseName && r.key != labels.OlderBaseName || len(r.values) == 0 {
		return nil
	}
	for _, d := range p.verdicts {
		if slices.Contains(r.values, d.base.Labels[r.key]) {
			return nil // the name is a base's
		}
	}
	var names []string
	for _, d := range p.verdicts {
		names = append(names, d.base.Labels[r.key])
	}
	return &finding{cause: fmt.Sprintf("no base is named %q; base names in this cluster: %s", strings.Join(r.values, " or "), some(names)),
		advice: fmt.Sprintf("change %s in the %s to the name of a base, or start a base of that name%s", r.key, r.where(), plain.Meant(r.values[0], names))}
}

func wrongVersion(_ *view, p *placement) *finding {
	r := p.blamed
	if r.key != labels.BaseVersion && r.key != labels.OlderBaseVersion || len(r.values) == 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("no base that fits otherwise has the version %s; their versions are %s", strings.Join(r.values, " or "), some(p.values(r.key))),
		advice: fmt.Sprintf("start a base of that version, or change %s in the %s; the Pod stays Pending until such a base exists", r.key, r.where())}
}

func wrongEnvironmentLabel(_ *view, p *placement) *finding {
	r := p.blamed
	if r.key != labels.Env || len(r.values) == 0 {
		return nil
	}
	return &finding{cause: fmt.Sprintf("no base is in the environment %s; the environments of the bases are %s", strings.Join(r.values, " or "), some(p.values(r.key))),
		advice: fmt.Sprintf("change %s in the %s, or start a controller and bases of that environment", r.key, r.where())}
}

// noneMatches names the demand on labels that no base fulfils, of the node selector or of the affinity.
func noneMatches(selector bool) func(*view, *placement) *finding {
	return func(_ *view, p *placement) *finding {
		r := p.blamed
		if r.selector != selector {
			return nil
		}
		cause := fmt.Sprintf("none of %s fits: %s", count(len(p.verdicts), "base"), r.text)
		if r.key != "" {
			cause += "; values of that label on bases: " + cmp.Or(some(p.values(r.key)), "none")
		}
		return &finding{cause: cause, advice: fmt.Sprintf("correct the %s of the Pod or its template%s; show the labels with: kubectl get nodes --show-labels", r.where(), relabel(r.key))}
	}
}

// relabel returns how a base can get another value of a label. The controller restores its own labels.
func relabel(key string) string {
	switch {
	case key == "":
		return ""
	case key == labels.BaseCluster:
		return ", or change the cluster name that the base reports (in a sandbox: spec.bases.clusterName); the controller reverts kubectl label"
	case IsNodeLabel(key):
		return ", or start a base that reports another value; the controller reverts kubectl label"
	default:
		return ", or label the Node of a base"
	}
}

// toleration writes the YAML that tolerates a taint.
func toleration(t corev1.Taint) string {
	return fmt.Sprintf("{key: %s, operator: Equal, value: %q, effect: %s}", t.Key, t.Value, t.Effect)
}

// taint is that of the bases that come the furthest which has a key; empty is any.
func (p *placement) taint(key string) (corev1.Taint, bool) {
	for _, d := range p.decisive {
		if key == "" || d.taint.Key == key {
			return d.taint, true
		}
	}
	return corev1.Taint{}, false
}

func tolerationMissing(_ *view, p *placement) *finding {
	t, there := p.taint(labels.TaintVirtualNode)
	if !there {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the Pod does not tolerate the taint %s, which every base has", t.ToString()),
		advice: "add " + toleration(t) + " to the tolerations of the Pod or its template"}
}

// namesEnvironment tells whether a Pod tolerates any environment by its key.
func namesEnvironment(p *corev1.Pod) (values []string, named bool) {
	for _, t := range p.Spec.Tolerations {
		if t.Key == labels.TaintEnv {
			values, named = append(values, t.Value), true
		}
	}
	return values, named
}

// nobodyAddsToleration: the controller adds the toleration of its environment to Pods that name none
// (controller/internal/vpod/toleration.go).
func nobodyAddsToleration(v *view, p *placement) *finding {
	t, there := p.taint(labels.TaintEnv)
	if _, named := namesEnvironment(v.Pod); !there || named || v.live(t.Value) || !v.controllersRead() || !v.markedByOurs(p.decisive[0].base) {
		return nil
	}
	return &finding{cause: "no module controller runs that would let the Pod tolerate " + t.ToString() + v.lastController(t.Value),
		advice: "start the module controller, or add " + toleration(t) + " to the tolerations"}
}

func environmentTolerationMissing(v *view, p *placement) *finding {
	t, there := p.taint(labels.TaintEnv)
	if _, named := namesEnvironment(v.Pod); !there || named {
		return nil
	}
	return &finding{cause: fmt.Sprintf("the Pod does not tolerate the taint %s, and the controller has not added that toleration", t.ToString()),
		advice: "add " + toleration(t) + " to the tolerations; the controller adds it only without LEAVE_POD_TOLERATIONS"}
}

func wrongEnvironment(v *view, p *placement) *finding {
	t, there := p.taint(labels.TaintEnv)
	if !there {
		return nil
	}
	values, _ := namesEnvironment(v.Pod)
	var have []string
	for _, d := range p.decisive {
		have = append(have, d.taint.Value)
	}
	return &finding{cause: fmt.Sprintf("the Pod tolerates bases of the environment %s, and the bases that are otherwise right are of %s", some(values), some(have)),
		advice: fmt.Sprintf("tolerate %s with the value %s and the effect %s, if that environment is meant", t.Key, t.Value, t.Effect)}
}

func taintNotTolerated(_ *view, p *placement) *finding {
	t, _ := p.taint("")
	return &finding{cause: fmt.Sprintf("the Pod does not tolerate the taint %s of %s", t.ToString(), p.names()),
		advice: fmt.Sprintf("tolerate it, or take it away: kubectl taint node %s %s-", p.decisive[0].base.Name, t.ToString())}
}

// all tells whether all bases that come the furthest are in a state.
func (p *placement) all(s state) bool {
	return !slices.ContainsFunc(p.decisive, func(d verdict) bool { return d.state != s })
}

// names are the bases that come the furthest.
func (p *placement) names() string {
	var all []string
	for _, d := range p.decisive {
		all = append(all, baseName(d.base))
	}
	return some(all)
}

// nobodyRenews: Kubernetes takes Nodes for dead whose Leases nobody renews.
func nobodyRenews(v *view, p *placement) *finding {
	if !p.all(stateNotReady) || v.live("") || !v.controllersRead() || !v.markedByOurs(p.decisive[0].base) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("no module controller runs, so nobody says that %s lives%s", p.names(), v.lastController("")),
		advice: "start the module controller; in a sandbox: koupsandbox component start module-controller"}
}

func cordoned(_ *view, p *placement) *finding {
	if !p.all(stateCordoned) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("each base that would do is cordoned, which keeps new Pods away: %s", p.names()),
		advice: "kubectl uncordon " + p.decisive[0].base.Name}
}

func leaving(_ *view, p *placement) *finding {
	if !p.all(stateLeaving) {
		return nil
	}
	return &finding{cause: fmt.Sprintf("each base that would do is cordoned, and its Node is being deleted: %s", p.names()), advice: "start another base; a Node that is held by a finalizer goes when that is taken away"}
}

func notReady(_ *view, p *placement) *finding {
	return &finding{cause: fmt.Sprintf("no base that would do is Ready: %s; of %s, %s", p.names(), baseName(p.decisive[0].base), p.decisive[0].text),
		advice: "look why with: koupsandbox why node/" + baseName(p.decisive[0].base)}
}

// limitRanger is the annotation in which the admission plugin LimitRanger lists the requests that it has
// added to a Pod (k8s.io/kubernetes/plugin/pkg/admission/limitranger).
const limitRanger = "kubernetes.io/limit-ranger"

// noSuchResource is for a requested resource that no base has, such as ephemeral-storage. The base
// reports memory and CPU itself, so they may be unknown for a moment.
func noSuchResource(v *view, p *placement) *finding {
	for _, name := range slices.Sorted(maps.Keys(p.requests)) {
		has := func(d verdict) bool { _, has := d.base.Status.Allocatable[name]; return has }
		asked := p.requests[name]
		if asked.IsZero() || name == corev1.ResourceMemory || name == corev1.ResourceCPU || slices.ContainsFunc(p.verdicts, has) {
			continue
		}
		advice := "remove the request from the Pod or its template"
		if strings.Contains(v.Pod.Annotations[limitRanger], string(name)+" request") {
			advice = fmt.Sprintf("a LimitRange of the namespace %s adds the request: remove %s from it, or request 0 in the template", v.Pod.Namespace, name)
		}
		return &finding{cause: fmt.Sprintf("the Pod requests %s of %s, and no base has any", amount(name, asked), name), advice: advice}
	}
	return nil
}

// short finds the resource of which no base has enough: metaspace, or another resource.
func short(metaspace bool) func(*view) *finding {
	return at(linkRoom, func(_ *view, p *placement) *finding {
		best := p.decisive[0]
		for _, d := range p.decisive {
			have, most := p.free[d.base.Name][d.short], p.free[best.base.Name][d.short]
			if d.short == corev1.ResourceMemory && (best.short != corev1.ResourceMemory || have.Cmp(most) > 0) {
				best = d
			}
		}
		name := best.short
		if (name == corev1.ResourceMemory) != metaspace {
			return nil
		}
		asked, free := p.requests[name], p.free[best.base.Name][name]
		advice := "request less, or add a base"
		if metaspace {
			advice = "request less memory, remove modules, or start a base with a larger -XX:MaxMetaspaceSize"
		}
		return &finding{cause: fmt.Sprintf("the Pod requests %s of %s, and no base that fits otherwise has that much free: the maximum is %s on %s", amount(name, asked), what(name), amount(name, free), baseName(best.base)),
			advice: advice}
	})
}
