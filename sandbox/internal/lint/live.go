package lint

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// Live is the cluster with which manifests are compared.
type Live struct {
	// Bases contains the bases and their Pods at the time Now, as read by why.GatherBases. Required.
	Bases *why.Snapshot
	Now   time.Time
	// Namespace is the namespace of objects whose manifests specify no namespace.
	Namespace string
	// Why explains the state of a Pod or a workload, in the language Options.Language. It returns an error that wraps
	// why.ErrNotFound if the object does not exist. Required.
	Why func(why.Target) (why.Answer, error)
}

// allHave reports whether every base has the label. It returns false if c is nil or if there are no bases.
func (c *Live) allHave(label string) bool {
	return c != nil && len(c.Bases.Bases) > 0 &&
		!slices.ContainsFunc(c.Bases.Bases, func(n corev1.Node) bool { return n.Labels[label] == "" })
}

// checkLive checks whether at least one base can run the Pods of a workload, and whether the existing object with the
// same name in the cluster is Ready. It does not report a missing toleration of virtual-node, because the rule
// toleration-virtual-node reports it.
func (l *linter) checkLive(w *workload) {
	c := l.o.Live
	namespace := cmp.Or(w.meta.GetNamespace(), c.Namespace)
	refused := func(f Finding) bool {
		return (f.Rule == "label-value" || f.Rule == "shape") && f.Object == w.title() && f.File == w.file
	}
	if unknown(w.template.Spec.String()) || unknown(namespace+w.meta.GetName()) ||
		slices.ContainsFunc(l.findings, refused) {
		return
	}
	pod := &corev1.Pod{ObjectMeta: w.template.ObjectMeta, Spec: w.template.Spec}
	pod.Namespace, pod.Name = namespace, w.meta.GetName()
	nowhere, found := why.Nowhere(l.o.Language, c.without(w, namespace), pod, c.Now)
	if found && nowhere.Reason != why.TolerationMissing {
		l.explained("live-nowhere", w, w.in("spec"), quoted, nowhere)
	}
	target, err := why.ParseTarget(w.kind+"/"+w.meta.GetName(), namespace)
	if err != nil || w.typed == nil {
		return // why does not know the kind, or the API server gives the name
	}
	switch existing, err := c.Why(target); {
	case errors.Is(err, why.ErrNotFound):
	case err != nil:
		l.find("live-unready", &w.object, "", msgLiveUnreadable, args{"error": err}).Level = Error
	case existing.Ready || existing.Young:
		// otherwise live-nowhere has reported it
	case !found || nowhere.Reason != cmp.Or(existing.Because, existing.Reason):
		l.explained("live-unready", w, "", msgLiveUnready, existing)
	}
}

// explained adds a finding with the cause and the advice from a, an answer of package why.
func (l *linter) explained(rule string, w *workload, field string, message language.Text, a why.Answer) {
	f := l.find(rule, &w.object, field, message, args{"error": a.Cause})
	f.Fix = cmp.Or(a.Advice, f.Fix)
}

// without returns a copy of the snapshot that omits the existing Pods of the workload, because new Pods would replace
// those Pods.
func (c *Live) without(w *workload, namespace string) *why.Snapshot {
	selector, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil || w.selector == nil {
		selector = apilabels.Nothing()
	}
	s := *c.Bases
	s.OnBases = slices.DeleteFunc(slices.Clone(s.OnBases), func(p corev1.Pod) bool {
		return p.Namespace == namespace &&
			(w.kind == "Pod" && p.Name == w.meta.GetName() || selector.Matches(apilabels.Set(p.Labels)))
	})
	return &s
}
