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

// check is one of the checks that determine whether a Pod fits a base. They are made in the order of the constants.
type check int

const (
	checkLabels check = iota // node selector and required affinity
	checkTaints              // taints, except those of the state
	checkState               // not Ready, cordoned, or being deleted
	checkRoom                // requested resources
	checkFits                // the base fits
)

// finding is the result of comparing a Pod with a base: the first check that the base fails, or checkFits if the base
// passes all checks.
type finding struct {
	base  *corev1.Node
	check check
	text  string
	group string              // the same for all bases that fail for the same reason
	unmet []string            // for checkLabels: label keys of the unmet requirements
	taint corev1.Taint        // for checkTaints: the taint that is not tolerated
	state Reason              // for checkState: BasesNotReady, BaseCordoned or BaseLeaving
	short corev1.ResourceName // for checkRoom: the insufficient resource
}

// placement is the result of comparing a Pod with all bases.
type placement struct {
	findings []finding // sorted by base name
	// furthest is the latest check at which any base fails, or checkFits. decisive contains the findings of the bases
	// that reach this check.
	furthest check
	decisive []finding
	// blamed is the requirement to report if furthest is checkLabels.
	blamed   requirement
	requests corev1.ResourceList
	free     map[string]corev1.ResourceList // free resources, by Node
	// constraints are the node selector, affinity and tolerations of the Pod.
	constraints workload.Placement
}

// requirement is one requirement on the labels of a Node.
type requirement struct {
	key, text string
	values    []string // accepted values; nil for operators other than In
	selector  bool     // true for the node selector, false for the node affinity
	fits      func(*corev1.Node) bool
}

// place compares a Pod with all bases. The Pods in onBases reduce the free resources of their bases by their resource
// requests.
func (v *explainer) place(pod *corev1.Pod, onBases []corev1.Pod) *placement {
	p := &placement{requests: helpers.PodRequests(pod, helpers.PodResourcesOptions{}), free: room(v.Bases, onBases),
		constraints: workload.NewPlacement(pod.Spec, "")}
	requirements := v.requirementsOf(pod)
	for i := range v.Bases {
		d := v.compare(p, &v.Bases[i], requirements)
		p.furthest = max(p.furthest, d.check)
		p.findings = append(p.findings, d)
	}
	slices.SortFunc(p.findings, func(a, b finding) int { return cmp.Compare(baseName(a.base), baseName(b.base)) })
	for _, d := range p.findings {
		if d.check == p.furthest {
			p.decisive = append(p.decisive, d)
		}
	}
	if p.furthest == checkLabels {
		p.blamed = chooseRequirement(requirements, v.Bases)
	}
	return p
}

// compare returns the finding of a base: the first check that the base fails for the Pod.
func (v *explainer) compare(p *placement, n *corev1.Node, requirements []requirement) finding {
	var unmet, wanted, keys []string
	for _, r := range requirements {
		if !r.fits(n) {
			unmet, wanted, keys = append(unmet, v.has(n, r)), append(wanted, r.text), append(keys, r.key)
		}
	}
	if len(unmet) > 0 {
		return finding{base: n, check: checkLabels, text: strings.Join(unmet, "; "), group: strings.Join(wanted, "; "),
			unmet: keys}
	}
	d := finding{base: n, check: checkState}
	t, untolerated := p.constraints.Untolerated(n)
	cordoned := p.constraints.Cordoned(n)
	switch {
	case untolerated:
		d.check, d.taint, d.group = checkTaints, t, v.in(partTaintNotTolerated, args{"taint": t.ToString()})
	case cordoned && n.DeletionTimestamp != nil: // the deletion alone keeps no Pods away
		d.state, d.group = BaseLeaving, v.in(partCordonedAndLeaving, nil)
	case cordoned:
		d.state, d.group = BaseCordoned, v.in(partCordoned, nil)
	case !nodeReady(n):
		c := nodeCondition(n, corev1.NodeReady)
		d.state, d.group = BasesNotReady, v.in(partNotReady, nil)
		d.text = v.in(partNotReadyBecause,
			args{"message": cmp.Or(sentence(c.Message), c.Reason, v.in(partNotReported, nil))})
	default:
		d.check, d.group = checkFits, v.in(fits, nil)
	}
	d.text = cmp.Or(d.text, d.group)
	if d.check != checkFits {
		return d
	}
	for _, name := range slices.Sorted(maps.Keys(p.requests)) {
		asked, free := p.requests[name], p.free[n.Name][name]
		if !asked.IsZero() && asked.Cmp(free) > 0 {
			a := args{"resource": resourceName(name), "free": amount(name, free), "amount": amount(name, asked)}
			return finding{base: n, check: checkRoom, short: name, text: v.in(partFree, a),
				group: v.in(partLessFree, a)}
		}
	}
	return d
}

// has describes an unmet requirement, and the actual value of its label on the Node n.
func (v *explainer) has(n *corev1.Node, r requirement) string {
	switch value, found := n.Labels[r.key]; {
	case r.key == "":
		return r.text
	case !found:
		return v.in(partNoLabel, args{"requirement": r.text})
	default:
		return v.in(partOtherLabel, args{"requirement": r.text, "value": value})
	}
}

// requirementsOf splits the node selector and the required node affinity of a Pod into requirements, so that an
// answer can report a single requirement. If an affinity has several terms, the terms are alternatives and therefore
// form one requirement.
func (v *explainer) requirementsOf(pod *corev1.Pod) []requirement {
	var all []requirement
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		all = append(all, requirement{key: key, values: []string{value}, selector: true,
			text: v.in(partSelectorRequires, args{"expression": key + "=" + value}),
			fits: matcher(corev1.PodSpec{NodeSelector: map[string]string{key: value}})})
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return all
	}
	affinityRequires := func(text string) string { return v.in(partAffinityRequires, args{"expression": text}) }
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 {
		texts := make([]string, len(terms))
		for i, t := range terms {
			texts[i] = v.in(partTerm,
				args{"n": i + 1, "expressions": strings.Join(expressions(t), v.in(partAnd, nil))})
		}
		return append(all, requirement{text: affinityRequires(strings.Join(texts, v.in(partOr, nil))),
			fits: matcher(corev1.PodSpec{Affinity: a})})
	}
	one := func(t corev1.NodeSelectorTerm) func(*corev1.Node) bool {
		return matcher(corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{t}},
		}}})
	}
	for _, e := range terms[0].MatchExpressions {
		r := requirement{key: e.Key, text: affinityRequires(expression(e)),
			fits: one(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{e}})}
		if e.Operator == corev1.NodeSelectorOpIn {
			r.values = e.Values
		}
		all = append(all, r)
	}
	for _, e := range terms[0].MatchFields {
		all = append(all, requirement{text: affinityRequires(expression(e)),
			fits: one(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{e}})})
	}
	return all
}

// matcher returns a function that checks a requirement as the scheduler does. A requirement that cannot be parsed
// matches no base.
func matcher(spec corev1.PodSpec) func(*corev1.Node) bool {
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

// chooseRequirement returns the requirement to report. It prefers a requirement that is the only unmet requirement of
// at least one base. Otherwise, it prefers a requirement that no base meets. Among equally good requirements, a base
// name that no base has comes before a version.
func chooseRequirement(requirements []requirement, bases []corev1.Node) requirement {
	unmet := func(r requirement) bool {
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
		if unmet(r) {
			n += 4
		}
		switch r.key {
		case labels.BaseName, labels.OlderBaseName:
			n++
			if unmet(r) {
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

// room returns the free resources of each base, which are its allocatable resources minus the requests of its Pods.
func room(bases []corev1.Node, onBases []corev1.Pod) map[string]corev1.ResourceList {
	free := map[string]corev1.ResourceList{}
	for _, n := range bases {
		free[n.Name] = n.Status.Allocatable.DeepCopy()
	}
	for i := range onBases {
		p := &onBases[i]
		left, isBase := free[p.Spec.NodeName]
		if !isBase || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for name, q := range helpers.PodRequests(p, helpers.PodResourcesOptions{}) {
			if have, reported := left[name]; reported {
				have.Sub(q)
				left[name] = have
			}
		}
	}
	return free
}

// resourceName returns the display name of a resource. The memory of a base is its metaspace.
func resourceName(name corev1.ResourceName) string {
	if name == corev1.ResourceMemory {
		return "metaspace"
	}
	return string(name)
}

// amount formats a quantity. Memory is formatted in Mi.
func amount(name corev1.ResourceName, q resource.Quantity) string {
	if name == corev1.ResourceMemory {
		return fmt.Sprintf("%d Mi", max(q.Value(), 0)>>20)
	}
	return q.String()
}
