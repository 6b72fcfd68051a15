package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// link is a check of a Pod against a base. The checks are made in this order.
type link int

const (
	linkLabels link = iota // node selector and required affinity
	linkTaints             // taints, except those of the state
	linkState              // not Ready, cordoned, or being deleted
	linkRoom               // requested resources
	linkFits               // the base fits
)

// verdict is the first check of a base that fails.
type verdict struct {
	base  *corev1.Node
	link  link
	text  string
	group string              // the same for all bases that fail for the same reason
	unmet []string            // with linkLabels: the keys
	taint corev1.Taint        // with linkTaints
	state Reason              // with linkState: BasesNotReady, BaseCordoned or BaseLeaving
	short corev1.ResourceName // with linkRoom: the resource
}

// placement is the comparison of a Pod with all bases.
type placement struct {
	verdicts []verdict // sorted by the names of the bases
	// furthest is the last check that any base reaches, and decisive has the bases that reach it.
	furthest link
	decisive []verdict
	// blamed is the requirement to report with linkLabels.
	blamed   requirement
	requests corev1.ResourceList
	free     map[string]corev1.ResourceList // by Node
	rules    workload.Placement
}

// requirement is one demand on the labels of a Node.
type requirement struct {
	key, text string
	values    []string // accepted values; nil for operators other than In
	selector  bool     // of the node selector, not of the affinity
	fits      func(*corev1.Node) bool
}

// place compares a Pod with all bases.
func place(pod *corev1.Pod, bases []corev1.Node, onBases []corev1.Pod) *placement {
	p := &placement{requests: helpers.PodRequests(pod, helpers.PodResourcesOptions{}), free: room(bases, onBases),
		rules: workload.NewPlacement(pod.Spec, "")}
	requirements := requirementsOf(pod)
	for i := range bases {
		d := p.verdict(&bases[i], requirements)
		p.furthest = max(p.furthest, d.link)
		p.verdicts = append(p.verdicts, d)
	}
	slices.SortFunc(p.verdicts, func(a, b verdict) int { return cmp.Compare(baseName(a.base), baseName(b.base)) })
	for _, d := range p.verdicts {
		if d.link == p.furthest {
			p.decisive = append(p.decisive, d)
		}
	}
	if p.furthest == linkLabels {
		p.blamed = blame(requirements, bases)
	}
	return p
}

// fit is the text of a base that fits.
const fit = "labels, taints, state and free resources fit the Pod"

func (p *placement) verdict(n *corev1.Node, requirements []requirement) verdict {
	var unmet, wanted, keys []string
	for _, r := range requirements {
		if !r.fits(n) {
			unmet, wanted, keys = append(unmet, r.text+has(n, r.key)), append(wanted, r.text), append(keys, r.key)
		}
	}
	if len(unmet) > 0 {
		return verdict{base: n, link: linkLabels, text: strings.Join(unmet, "; "), group: strings.Join(wanted, "; "),
			unmet: keys}
	}
	d := verdict{base: n, link: linkState}
	t, untolerated := p.rules.Untolerated(n)
	cordoned := p.rules.Cordoned(n)
	switch {
	case untolerated:
		d.link, d.taint, d.group = linkTaints, t, "its taint "+t.ToString()+" is not tolerated"
	case cordoned && n.DeletionTimestamp != nil: // the deletion alone keeps no Pods away
		d.state, d.group = BaseLeaving, "it is cordoned, and its Node is being deleted"
	case cordoned:
		d.state, d.group = BaseCordoned, "it is cordoned"
	case !nodeReady(n):
		c := nodeCondition(n, corev1.NodeReady)
		d.state, d.group, d.text = BasesNotReady, "it is not Ready", "it is not Ready: "+
			cmp.Or(sentence(c.Message), c.Reason, "it has not reported yet")
	default:
		d.link, d.group = linkFits, fit
	}
	d.text = cmp.Or(d.text, d.group)
	if d.link != linkFits {
		return d
	}
	for _, name := range slices.Sorted(maps.Keys(p.requests)) {
		asked, free := p.requests[name], p.free[n.Name][name]
		if !asked.IsZero() && asked.Cmp(free) > 0 {
			return verdict{base: n, link: linkRoom, short: name,
				text: fmt.Sprintf("%s of %s are free, %s are requested", amount(name, free), what(name),
					amount(name, asked)),
				group: fmt.Sprintf("less of %s is free than the %s that are requested", what(name),
					amount(name, asked))}
		}
	}
	return d
}

// has describes the value of a label of a base.
func has(n *corev1.Node, key string) string {
	switch value, there := n.Labels[key]; {
	case key == "":
		return ""
	case !there:
		return ", and it has no such label"
	default:
		return ", and it has " + value
	}
}

// requirementsOf splits the node selector and the required affinity of a Pod, so that one of them can be reported.
// Several terms of an affinity are alternatives, and therefore one requirement.
func requirementsOf(pod *corev1.Pod) []requirement {
	var all []requirement
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		all = append(all, requirement{key: key, values: []string{value}, selector: true,
			text: "the nodeSelector requires " + key + "=" + value,
			fits: fits(corev1.PodSpec{NodeSelector: map[string]string{key: value}})})
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return all
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 {
		texts := make([]string, len(terms))
		for i, t := range terms {
			texts[i] = fmt.Sprintf("term %d (%s)", i+1, strings.Join(expressions(t), " and "))
		}
		return append(all, requirement{text: "the affinity requires " + strings.Join(texts, " or "),
			fits: fits(corev1.PodSpec{Affinity: a})})
	}
	one := func(t corev1.NodeSelectorTerm) func(*corev1.Node) bool {
		return fits(corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{t}},
		}}})
	}
	for _, e := range terms[0].MatchExpressions {
		r := requirement{key: e.Key, text: "the affinity requires " + expression(e),
			fits: one(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{e}})}
		if e.Operator == corev1.NodeSelectorOpIn {
			r.values = e.Values
		}
		all = append(all, r)
	}
	for _, e := range terms[0].MatchFields {
		all = append(all, requirement{text: "the affinity requires " + expression(e),
			fits: one(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{e}})})
	}
	return all
}

// fits returns the check of the scheduler. A requirement that cannot be parsed fits no base.
func fits(spec corev1.PodSpec) func(*corev1.Node) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec})
	return func(n *corev1.Node) bool {
		match, err := affinity.Match(n)
		return match && err == nil
	}
}

func expressions(t corev1.NodeSelectorTerm) (all []string) {
	for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
		all = append(all, expression(e))
	}
	return all
}

func expression(e corev1.NodeSelectorRequirement) string {
	if len(e.Values) == 0 {
		return fmt.Sprintf("%s %s", e.Key, e.Operator)
	}
	return fmt.Sprintf("%s %s [%s]", e.Key, e.Operator, strings.Join(e.Values, ", "))
}

// blame returns the requirement without which a base would match; if there is none, the first requirement that no base
// meets. Of several, a name that no base has precedes a version.
func blame(requirements []requirement, bases []corev1.Node) requirement {
	hopeless := func(r requirement) bool {
		return !slices.ContainsFunc(bases, func(n corev1.Node) bool { return r.fits(&n) })
	}
	without := func(i int) bool {
		return slices.ContainsFunc(bases, func(n corev1.Node) bool {
			for j, r := range requirements {
				if j != i && !r.fits(&n) {
					return false
				}
			}
			return true
		})
	}
	var best requirement
	rank := -1
	for i, r := range requirements {
		n := 0
		if without(i) {
			n += 8
		}
		if hopeless(r) {
			n += 4
		}
		switch r.key {
		case labels.BaseName, labels.OlderBaseName:
			n++
			if hopeless(r) {
				n += 2
			}
		case labels.BaseVersion, labels.OlderBaseVersion:
			n += 2
		}
		if n > rank {
			best, rank = r, n
		}
	}
	return best
}

// room returns the free resources of each base: allocatable resources minus the requests of its Pods.
func room(bases []corev1.Node, onBases []corev1.Pod) map[string]corev1.ResourceList {
	free := map[string]corev1.ResourceList{}
	for _, n := range bases {
		free[n.Name] = n.Status.Allocatable.DeepCopy()
	}
	for i := range onBases {
		p := &onBases[i]
		left, there := free[p.Spec.NodeName]
		if !there || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for name, q := range helpers.PodRequests(p, helpers.PodResourcesOptions{}) {
			if have, counted := left[name]; counted {
				have.Sub(q)
				left[name] = have
			}
		}
	}
	return free
}

// what returns the name of a resource. The memory of a base is its metaspace.
func what(name corev1.ResourceName) string {
	if name == corev1.ResourceMemory {
		return "metaspace"
	}
	return string(name)
}

// amount formats a quantity, memory in Mi.
func amount(name corev1.ResourceName, q resource.Quantity) string {
	if name == corev1.ResourceMemory {
		return fmt.Sprintf("%d Mi", max(q.Value(), 0)>>20)
	}
	return q.String()
}
