package lint

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	workloads "github.com/koupleless/koupsandbox/controller/workload"
)

// checkOrdinaryDaemonSet adds a finding if an ordinary DaemonSet, that is, one without modules, would create Pods on
// bases.
func (l *linter) checkOrdinaryDaemonSet(w *workload) {
	base := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labels.Component: labels.Vnode}}}
	base.Spec.Taints = []corev1.Taint{
		{Key: labels.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
		{Key: labels.TaintEnv, Value: "dev", Effect: corev1.TaintEffectNoExecute}}
	if _, is := w.typed.(*appsv1.DaemonSet); is && !unknown(w.template.Spec.String()) &&
		workloads.NewPlacement(w.template.Spec, "").Fits(base) {
		l.find("daemonset-on-bases", &w.object, w.in("spec"), msgDaemonSetOnBases, nil)
	}
}
