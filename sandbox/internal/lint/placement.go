package lint

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// choosing are the labels that differ between bases.
var choosing = []string{labels.BaseName, labels.BaseVersion, labels.BaseCluster, labels.BaseHost, labels.OlderBaseName,
	labels.OlderBaseVersion,
	corev1.LabelHostname}

// placement checks whether the Pods get onto bases, and onto the meant ones.
func (l *linter) placement(w *workload) {
	l.tolerations(w)
	spec := w.template.Spec
	chosen := spec.NodeName != ""
	label := func(key, at string) {
		chosen = chosen || slices.Contains(choosing, key)
		l.nodeLabel(w, key, at)
	}
	for _, key := range sortedKeys(spec.NodeSelector) {
		label(key, w.in("spec.nodeSelector")+member(key))
		l.clusterName(w, key, []string{spec.NodeSelector[key]}, w.in("spec.nodeSelector")+member(key))
	}
	for at, expression := range w.expressions() {
		label(expression.Key, at+".key")
		if expression.Operator == corev1.NodeSelectorOpIn {
			l.clusterName(w, expression.Key, expression.Values, at)
		}
	}
	if !chosen {
		l.find("affinity-missing", &w.object, w.in("spec"),
			"the Pods select no bases, so the module is installed on any base, of any name and version")
	}
	for i, c := range spec.TopologySpreadConstraints {
		if key := c.TopologyKey; unknown(key) || labels.IsNodeLabel(key) || l.o.Live.bear(key) {
			continue
		}
		effect := "the constraint has no effect"
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			effect = "the Pods stay Pending"
		}
		l.find("topology-unknown", &w.object, w.in(fmt.Sprintf("spec.topologySpreadConstraints[%d].topologyKey", i)),
			"no base has the label %q, so %s", c.TopologyKey, effect)
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		l.antiAffinity(w, a.PodAntiAffinity)
	}
}

// expressions yields the expressions of the required node affinity, each with its path.
func (w *workload) expressions() iter.Seq2[string, corev1.NodeSelectorRequirement] {
	return func(yield func(string, corev1.NodeSelectorRequirement) bool) {
		a := w.template.Spec.Affinity
		if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return
		}
		at := w.in("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
		for i, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for j, e := range term.MatchExpressions {
				if !yield(fmt.Sprintf("%s[%d].matchExpressions[%d]", at, i, j), e) {
					return
				}
			}
		}
	}
}

// clusterName reports the cluster name in the examples of the Koupleless documentation, which bases of a sandbox do
// not have.
func (l *linter) clusterName(w *workload, key string, values []string, at string) {
	if key == labels.BaseCluster && slices.Equal(values, []string{"default"}) && l.o.Live == nil {
		l.find("cluster-name", &w.object, at,
			"only bases that report the cluster name default fit; bases of a sandbox report the name of the sandbox")
	}
}

func (l *linter) tolerations(w *workload) {
	list := w.template.Spec.Tolerations
	all := slices.ContainsFunc(list,
		func(t corev1.Toleration) bool { return t.Key == "" && t.Operator == corev1.TolerationOpExists })
	at := w.in("spec")
	if len(list) > 0 {
		at = w.in("spec.tolerations")
	}
	operators := []corev1.TolerationOperator{"",
		corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}
	for i, t := range list {
		field := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case !slices.Contains(operators, t.Operator) && !unknown(string(t.Operator)):
			l.invalid(&w.object, field+".operator", "use Equal or Exists",
				"the operator %q of a toleration does not exist, so the API server refuses the %s", t.Operator, w.kind)
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			l.invalid(&w.object, field+".value", "remove the value, or use the operator Equal",
				"a toleration with the operator Exists has no value, so the API server refuses the %s", w.kind)
		}
	}
	tolerates := func(key, value string) bool {
		return all || slices.ContainsFunc(list, func(t corev1.Toleration) bool {
			anyValue := value == "" || t.Operator == corev1.TolerationOpExists ||
				!slices.Contains(operators, t.Operator)
			return t.Key == key && (anyValue || t.Value == value || unknown(t.Value)) &&
				(t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
		})
	}
	if !tolerates(labels.TaintVirtualNode, "True") {
		l.find("toleration-virtual-node", &w.object, at,
			"the taint %s=True:NoExecute of every base is not tolerated, so the Pods stay Pending",
			labels.TaintVirtualNode)
	}
	switch {
	case !tolerates(labels.TaintEnv, "") && w.kind == "DaemonSet":
		l.find("daemonset-toleration-env", &w.object, at,
			"the taint %s of every base is not tolerated: a DaemonSet creates Pods by its template only, so it creates none; tolerations that the controller adds to Pods have no effect", labels.TaintEnv)
	case !tolerates(labels.TaintEnv, ""):
		l.find("toleration-env", &w.object, at,
			"the taint %s of every base is not tolerated, so the Pods stay Pending, unless the controller adds the toleration, as the bundled controller does", labels.TaintEnv)
	case l.o.Env != "" && !tolerates(labels.TaintEnv, l.o.Env):
		l.find("toleration-other-env", &w.object, at, "it tolerates only bases of another environment, not of %s",
			l.o.Env)
	}
}

// nodeLabel reports labels that no base has.
func (l *linter) nodeLabel(w *workload, key, at string) {
	switch {
	case key == labels.OlderBaseName || key == labels.OlderBaseVersion:
		l.find("node-label-older", &w.object, at,
			"%s is the label of older module controllers; newer ones use base.koupleless.io/%s", key, path.Base(key))
	case l.o.Live != nil: // what the Nodes have decides
	case unknown(key) || labels.IsNodeLabel(key):
	case strings.Contains(key, "koupleless.io/"):
		l.find("node-label-unknown", &w.object, at,
			"no base has the label %s, so the Pods stay Pending; the bases' labels are %s", key,
			strings.Join(labels.NodeLabels[:6], ", "))
	default:
		l.find("node-label-unknown", &w.object, at,
			"%s is not a label that the module controller writes to the Nodes of bases: unless you label them, the Pods stay Pending", key).Level = Warning
	}
}

func (l *linter) antiAffinity(w *workload, a *corev1.PodAntiAffinity) {
	at := w.in("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution")
	for i, term := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		l.spreads(w, term, fmt.Sprintf("%s[%d]", at, i))
	}
	at = w.in("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution")
	for i, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		l.spreads(w, term.PodAffinityTerm, fmt.Sprintf("%s[%d].podAffinityTerm", at, i))
	}
}

// spreads checks that a term keeps Pods apart at all.
func (l *linter) spreads(w *workload, term corev1.PodAffinityTerm, at string) {
	switch key := term.TopologyKey; {
	case unknown(key) || key == corev1.LabelTopologyZone && l.o.Live.bear(key):
	case key == corev1.LabelTopologyZone:
		l.find("topology-zone", &w.object, at+".topologyKey",
			"%s spreads nothing over Nodes without that label: ModuleController V2 does not set it, and the bundled controller gives each base its own zone", key)
	case !slices.Contains(labels.NodeLabels, key) && !l.o.Live.bear(key):
		l.find("topology-unknown", &w.object, at+".topologyKey", "no base has the label %q, so this spreads nothing",
			key)
	case !slices.Contains([]string{corev1.LabelHostname, labels.BaseHost}, key):
		l.find("topology-unknown", &w.object, at+".topologyKey",
			"many bases share a value of %s, so this allows a Pod on only one of them", key).Level = Warning
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		l.find("anti-affinity-other", &w.object, at+".labelSelector", "the selector cannot be read: %s", err)
		return
	}
	own := apilabels.Set(w.template.Labels)
	known := !unknown(fmt.Sprint(term.LabelSelector, w.template.Labels))
	if known && !selector.Matches(own) {
		l.find("anti-affinity-other", &w.object, at+".labelSelector",
			"the selector %s does not match the labels of the Pods, so it does not keep them apart", selector)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// member writes a key as part of a path, as package strictyaml does.
func member(key string) string {
	if strings.ContainsAny(key, "./") {
		return "[" + key + "]"
	}
	return "." + key
}
