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

// link is a link of the chain from a Pod to a base, in the order in which they are looked at.
type link int

const (
	linkLabels link = iota // node selector and required affinity
	linkTaints             // taints that somebody chose
	linkState              // Ready, cordoned, leaving
	linkRoom               // metaspace, and what else is requested
	linkFits               // nothing of these
)

// verdict is what keeps a Pod off one base: the first link that fails.
type verdict struct {
	base  *corev1.Node
	link  link
	text  string
	group string              // what bases that fail for the same reason have in common
	unmet []string            // with linkLabels: the keys
	taint corev1.Taint        // with linkTaints
	state state               // with linkState
	short corev1.ResourceName // with linkRoom: what lacks
}

// state is why a base that would do takes no Pods.
type state int

const (
	stateNotReady state = iota
	stateCordoned
	stateLeaving
)

// placement is what keeps a Pod off each base.
type placement struct {
	verdicts []verdict // by the bases' names
	// furthest is the last link that any base reaches, and decisive are those that do.
	furthest link
	decisive []verdict
	// blamed is the requirement that decides, with linkLabels.
	blamed   requirement
	requests corev1.ResourceList
	free     map[string]corev1.ResourceList // by Node
	rules    workload.Placement
}

// requirement is one demand on the labels of a Node.
type requirement struct {
	key, text string
	values    []string // one of which is wanted; nil for other operators
	selector  bool     // it stands in the node selector, not in the affinity
	fits      func(*corev1.Node) bool
}

// place compares a Pod with all bases.
func place(pod *corev1.Pod, bases []corev1.Node, onBases []corev1.Pod) *placement {
	p := &placement{requests: helpers.PodRequests(pod, helpers.PodResourcesOptions{}), free: room(bases, onBases), rules: workload.NewPlacement(pod.Spec, "")}
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

// fit is said of a base with which nothing is wrong.
const fit = "labels, taints, state and room are as the Pod wants them"

func (p *placement) verdict(n *corev1.Node, requirements []requirement) verdict {
	var unmet, wanted, keys []string
	for _, r := range requirements {
		if !r.fits(n) {
			unmet, wanted, keys = append(unmet, r.text+has(n, r.key)), append(wanted, r.text), append(keys, r.key)
		}
	}
	if len(unmet) > 0 {
		return verdict{base: n, link: linkLabels, text: strings.Join(unmet, "; "), group: strings.Join(wanted, "; "), unmet: keys}
	}
	d := verdict{base: n, link: linkState}
	t, untolerated := p.rules.Untolerated(n)
	cordoned := p.rules.Cordoned(n)
	switch {
	case untolerated:
		d.link, d.taint, d.group = linkTaints, t, "its taint "+t.ToString()+" is not tolerated"
	case cordoned && n.DeletionTimestamp != nil: // the deletion alone keeps no Pods away
		d.state, d.group = stateLeaving, "it is cordoned, and its Node is being deleted"
	case cordoned:
		d.state, d.group = stateCordoned, "it is cordoned"
	case !nodeReady(n):
		c := nodeCondition(n, corev1.NodeReady)
		d.state, d.group, d.text = stateNotReady, "it is not Ready", "it is not Ready: "+cmp.Or(sentence(c.Message), c.Reason, "it has not said anything yet")
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
			return verdict{base: n, link: linkRoom, short: name, text: fmt.Sprintf("%s of %s are free, %s are requested", amount(name, free), what(name), amount(name, asked)),
				group: fmt.Sprintf("less of %s is free than the %s that are requested", what(name), amount(name, asked))}
		}
	}
	return d
}

// has says what a base has under the key of a requirement.
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

// requirementsOf takes a Pod's demands on labels apart, so that the one that decides can be named.
// Terms of an affinity are alternatives: several of them count as one.
func requirementsOf(pod *corev1.Pod) []requirement {
	var all []requirement
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		all = append(all, requirement{key: key, values: []string{value}, selector: true, text: "nodeSelector wants " + key + "=" + value,
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
		return append(all, requirement{text: "the affinity wants " + strings.Join(texts, " or "), fits: fits(corev1.PodSpec{Affinity: a})})
	}
	one := func(t corev1.NodeSelectorTerm) func(*corev1.Node) bool {
		return fits(corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{t}},
		}}})
	}
	for _, e := range terms[0].MatchExpressions {
		r := requirement{key: e.Key, text: "the affinity wants " + expression(e), fits: one(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{e}})}
		if e.Operator == corev1.NodeSelectorOpIn {
			r.values = e.Values
		}
		all = append(all, r)
	}
	for _, e := range terms[0].MatchFields {
		all = append(all, requirement{text: "the affinity wants " + expression(e), fits: one(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{e}})})
	}
	return all
}

// fits asks as the scheduler does. What it cannot parse fits nothing.
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

// blame is the requirement without which a base would match; if that is no single one, the first
// that no base fulfils. Of several, a name that no base has comes first, and then the version.
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
			if n++; hopeless(r) {
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

// room is what each base has free: what is allocatable, less what Pods there request.
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

// what is a resource in the words of bases: their metaspace is shown as memory.
func what(name corev1.ResourceName) string {
	if name == corev1.ResourceMemory {
		return "metaspace"
	}
	return string(name)
}

// amount writes memory in mebibytes, and all else as it is.
func amount(name corev1.ResourceName, q resource.Quantity) string {
	if name == corev1.ResourceMemory {
		return fmt.Sprintf("%d Mi", max(q.Value(), 0)>>20)
	}
	return q.String()
}
