package lint

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/sandbox/why"
)

// Live is the cluster that manifests are for.
type Live struct {
	// Bases are its bases at Now, with the Pods on them, as why.GatherBases reads them. Required.
	Bases *why.Snapshot
	Now   time.Time
	// Namespace is that of objects which name none.
	Namespace string
	// Why tells of a Pod or a workload; why.ErrNotFound, wrapped, if it is not there. Required.
	Why func(why.Target) (why.Answer, error)
}

// bear tells whether the bases have a label; none does if no cluster is asked.
func (c *Live) bear(label string) bool {
	return c != nil && len(c.Bases.Bases) > 0 && !slices.ContainsFunc(c.Bases.Bases, func(n corev1.Node) bool { return n.Labels[label] == "" })
}

// live checks whether a base takes the Pods, and what there is already. That no toleration of
// virtual-node is there has been told.
func (l *linter) live(w *workload) {
	c := l.o.Live
	namespace := cmp.Or(w.meta.GetNamespace(), c.Namespace)
	if unknown(w.template.Spec.String()) || unknown(namespace+w.meta.GetName()) {
		return
	}
	pod := &corev1.Pod{ObjectMeta: w.template.ObjectMeta, Spec: w.template.Spec}
	pod.Namespace, pod.Name = namespace, w.meta.GetName()
	nowhere, found := why.Nowhere(c.without(w, namespace), pod, c.Now)
	if found && nowhere.Reason != why.TolerationMissing {
		l.concluded("live-nowhere", w, w.in("spec"), nowhere, "")
	}
	target, err := why.ParseTarget(w.kind+"/"+w.meta.GetName(), namespace)
	if err != nil {
		return // another kind, or a name that the API server gives
	}
	switch there, err := c.Why(target); {
	case errors.Is(err, why.ErrNotFound):
	case err != nil:
		l.find("live-unready", &w.object, "", "what is there already cannot be looked at: %s", err)
		l.findings[len(l.findings)-1].Level = Error
	case !there.Ready && nowhere.Reason != cmp.Or(there.Because, there.Reason): // else it has been said
		l.concluded("live-unready", w, "", there, "it is there already, and not Ready: ")
	}
}

// concluded notes what package why says as a finding.
func (l *linter) concluded(rule string, w *workload, field string, a why.Answer, before string) {
	l.find(rule, &w.object, field, "%s%s", before, a.Cause)
	if a.Advice != "" {
		l.findings[len(l.findings)-1].Fix = a.Advice
	}
}

// without are the bases without the Pods that the workload has there: they give way to its new ones.
func (c *Live) without(w *workload, namespace string) *why.Snapshot {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil || w.selector == nil {
		selector = apilabels.Nothing()
	}
	s := *c.Bases
	s.OnBases = slices.DeleteFunc(slices.Clone(s.OnBases), func(p corev1.Pod) bool {
		return p.Namespace == namespace && (w.kind == "Pod" && p.Name == w.meta.GetName() || selector.Matches(apilabels.Set(p.Labels)))
	})
	return &s
}
