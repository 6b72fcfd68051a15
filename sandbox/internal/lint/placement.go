package lint

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// selecting lists the node labels whose values differ between bases. A Pod selects bases by these labels.
var selecting = []string{labels.BaseName, labels.BaseVersion, labels.BaseCluster, labels.BaseHost, labels.OlderBaseName,
	labels.OlderBaseVersion,
	corev1.LabelHostname}

// checkPlacement checks whether the Pods of a workload can be scheduled on bases, and on no other Nodes.
func (l *linter) checkPlacement(w *workload) {
	l.checkTolerations(w)
	spec := w.template.Spec
	selected := spec.NodeName != ""
	label := func(key, at string) {
		selected = selected || slices.Contains(selecting, key)
		l.addUnknownNodeLabel(w, key, at)
	}
	for _, key := range sortedKeys(spec.NodeSelector) {
		label(key, w.in("spec.nodeSelector")+member(key))
		l.checkClusterName(w, key, []string{spec.NodeSelector[key]}, w.in("spec.nodeSelector")+member(key))
	}
	for at, expression := range w.expressions() {
		label(expression.Key, at+".key")
		if expression.Operator == corev1.NodeSelectorOpIn {
			l.checkClusterName(w, expression.Key, expression.Values, at)
		}
	}
	if !selected {
		l.find("affinity-missing", &w.object, w.in("spec"), msgAnyBase, nil)
	}
	for i, c := range spec.TopologySpreadConstraints {
		if key := c.TopologyKey; unknown(key) || labels.IsNodeLabel(key) || l.o.Live.allHave(key) {
			continue
		}
		effect := partNoEffect
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			effect = partPodsPending
		}
		l.find("topology-unknown", &w.object, w.in(fmt.Sprintf("spec.topologySpreadConstraints[%d].topologyKey", i)),
			msgSpreadKeyUnknown, args{"key": strconv.Quote(c.TopologyKey), "effect": effect})
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		l.checkAntiAffinity(w, a.PodAntiAffinity)
	}
}

// expressions yields the match expressions of the required node affinity with their paths.
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

// checkClusterName adds a finding if a Pod selects the cluster name "default", which the examples in the Koupleless
// documentation use. Bases of a sandbox have a different cluster name.
func (l *linter) checkClusterName(w *workload, key string, values []string, at string) {
	if key == labels.BaseCluster && slices.Equal(values, []string{"default"}) && l.o.Live == nil {
		l.find("cluster-name", &w.object, at, msgClusterName, nil)
	}
}

func (l *linter) checkTolerations(w *workload) {
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
			l.invalid(&w.object, field+".operator", fixTolerationOperator, msgTolerationOperator,
				args{"operator": strconv.Quote(string(t.Operator)), "kind": w.kind})
		case t.Operator == corev1.TolerationOpExists && t.Value != "":
			l.invalid(&w.object, field+".value", fixTolerationValue, msgTolerationValue, args{"kind": w.kind})
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
		l.find("toleration-virtual-node", &w.object, at, msgVirtualNode, nil)
	}
	switch {
	case !tolerates(labels.TaintEnv, "") && w.kind == "DaemonSet":
		l.find("daemonset-toleration-env", &w.object, at, msgDaemonSetEnvironment, nil)
	case !tolerates(labels.TaintEnv, "") &&
		slices.ContainsFunc(list, func(t corev1.Toleration) bool { return t.Key == labels.TaintEnv }):
		l.find("toleration-env", &w.object, at, msgEnvironmentEffect, nil).Level = Error
	case !tolerates(labels.TaintEnv, ""):
		l.find("toleration-env", &w.object, at, msgEnvironment, nil)
	case l.o.Env != "" && !tolerates(labels.TaintEnv, l.o.Env):
		l.find("toleration-other-env", &w.object, at, msgOtherEnvironment, args{"env": l.o.Env})
	}
}

// addUnknownNodeLabel adds a finding for a node label that no base has.
func (l *linter) addUnknownNodeLabel(w *workload, key, at string) {
	switch {
	case key == labels.OlderBaseName || key == labels.OlderBaseVersion:
		l.find("node-label-older", &w.object, at, msgOlderNodeLabel, args{"key": key, "name": path.Base(key)})
	case l.o.Live != nil: // the labels of the Nodes decide
	case unknown(key) || labels.IsNodeLabel(key):
	case strings.Contains(key, "koupleless.io/"):
		l.find("node-label-unknown", &w.object, at, msgUnknownNodeLabel,
			args{"key": key, "labels": strings.Join(labels.NodeLabels[:6], ", ")})
	default:
		l.find("node-label-unknown", &w.object, at, msgForeignNodeLabel, args{"key": key}).Level = Warning
	}
}

func (l *linter) checkAntiAffinity(w *workload, a *corev1.PodAntiAffinity) {
	at := w.in("spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution")
	for i, term := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		l.checkSpreadTerm(w, term, fmt.Sprintf("%s[%d]", at, i))
	}
	at = w.in("spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution")
	for i, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		l.checkSpreadTerm(w, term.PodAffinityTerm, fmt.Sprintf("%s[%d].podAffinityTerm", at, i))
	}
}

// checkSpreadTerm adds findings if an anti-affinity term does not spread the Pods across bases.
func (l *linter) checkSpreadTerm(w *workload, term corev1.PodAffinityTerm, at string) {
	switch key := term.TopologyKey; {
	case unknown(key) || key == corev1.LabelTopologyZone && l.o.Live.allHave(key):
	case key == corev1.LabelTopologyZone:
		l.find("topology-zone", &w.object, at+".topologyKey", msgZone, args{"key": key})
	case !slices.Contains(labels.NodeLabels, key) && !l.o.Live.allHave(key):
		l.find("topology-unknown", &w.object, at+".topologyKey", msgSpreadsNothing, args{"key": strconv.Quote(key)})
	case !slices.Contains([]string{corev1.LabelHostname, labels.BaseHost}, key):
		l.find("topology-unknown", &w.object, at+".topologyKey", msgSharedKey, args{"key": key}).Level = Warning
	}
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		l.find("anti-affinity-other", &w.object, at+".labelSelector", msgSelectorUnreadable, args{"error": err})
		return
	}
	own := apilabels.Set(w.template.Labels)
	known := !unknown(fmt.Sprint(term.LabelSelector, w.template.Labels))
	if known && !selector.Matches(own) {
		l.find("anti-affinity-other", &w.object, at+".labelSelector", msgOtherPods, args{"selector": selector})
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// member formats a map key as the last part of a path, in the format of package strictyaml.
func member(key string) string {
	if strings.ContainsAny(key, "./") {
		return "[" + key + "]"
	}
	return "." + key
}
