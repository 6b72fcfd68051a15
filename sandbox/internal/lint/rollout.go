package lint

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// checkRollout adds a finding if a base can temporarily be without the module while the workload replaces its Pods.
func (l *linter) checkRollout(w *workload) {
	switch x := w.typed.(type) {
	case *appsv1.Deployment:
		l.checkDeployment(w, x.Spec)
	case *appsv1.DaemonSet:
		l.checkDaemonSet(w, x.Spec.UpdateStrategy)
	case nil:
		l.find(NotChecked, &w.object, "", msgUnknownUpdate,
			args{"kind": w.kind, "apiVersion": w.apiVersion}).Fix = ""
	case *appsv1.StatefulSet:
		l.find("statefulset-deletes-first", &w.object, "kind", msgStatefulSetUpdates, nil)
	}
}

func (l *linter) checkDeployment(w *workload, spec appsv1.DeploymentSpec) {
	strategy := labels.Value(w.meta.GetLabels(), "strategy")
	if strategy == "" && labels.Value(w.meta.GetLabels(), "component") == labels.ModuleDeployment {
		l.find("peer-strategy", &w.object, "metadata.labels", msgPeerStrategy, nil)
	}
	if spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		l.find("deletes-first", &w.object, "spec.strategy.type", msgRecreate, nil)
		return
	}
	most := intstr.FromString("25%") // the default of Kubernetes
	at := "spec"
	if r := spec.Strategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		most, at = *r.MaxUnavailable, "spec.strategy.rollingUpdate.maxUnavailable"
	}
	replicas := 1
	if spec.Replicas != nil {
		replicas = int(*spec.Replicas)
	}
	if r := spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil && !positive(*r.MaxSurge) && !positive(most) {
		l.invalid(&w.object, "spec.strategy.rollingUpdate.maxSurge", fixNoSurge, msgNoSurge, nil)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, max(replicas, 1), false)
	switch {
	case unknown(most.StrVal):
	case err != nil:
		l.find("shape", &w.object, at, msgMaxUnavailable, args{"value": strconv.Quote(most.StrVal)})
	case n > 0 || strategy == labels.Peer && positive(most):
		l.find("deletes-first", &w.object, at, msgDeletesFirst, args{"value": most.String()})
	case at != "spec" && positive(most):
		l.find("deletes-first", &w.object, at, msgDeletesFirstLater,
			args{"value": most.String(), "replicas": replicas})
	}
}

func positive(v intstr.IntOrString) bool {
	return v.Type == intstr.Int && v.IntVal > 0 || v.Type == intstr.String && strings.TrimRight(v.StrVal, "%") != "0"
}

func (l *linter) checkDaemonSet(w *workload, strategy appsv1.DaemonSetUpdateStrategy) {
	switch r := strategy.RollingUpdate; {
	case strategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
		l.find("daemonset-deletes-first", &w.object, "spec.updateStrategy.type", msgOnDelete, nil)
	case r == nil || r.MaxSurge == nil || !positive(*r.MaxSurge):
		at := "spec"
		if r != nil {
			at = "spec.updateStrategy.rollingUpdate"
		}
		l.find("daemonset-deletes-first", &w.object, at, msgNoMaxSurge, nil)
	}
}
