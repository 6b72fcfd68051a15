package lint

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// rollout checks how a workload replaces its Pods: whether a base may be without the module in
// between.
func (l *linter) rollout(w *workload) {
	switch x := w.typed.(type) {
	case *appsv1.Deployment:
		l.deployment(w, x.Spec)
	case *appsv1.DaemonSet:
		l.daemonSet(w, x.Spec.UpdateStrategy)
	case nil:
		l.find(NotChecked, &w.object, "", "how a %s of %s replaces its Pods", w.kind, w.apiVersion).Fix = ""
	case *appsv1.StatefulSet:
		l.find("statefulset-deletes-first", &w.object, "kind",
			"a StatefulSet deletes a Pod before it creates the next one, so a base is without the module during each update")
	}
}

func (l *linter) deployment(w *workload, spec appsv1.DeploymentSpec) {
	strategy := labels.Value(w.meta.GetLabels(), "strategy")
	if strategy == "" && labels.Value(w.meta.GetLabels(), "component") == labels.ModuleDeployment {
		l.find("peer-strategy", &w.object, "metadata.labels",
			"it has the label component: module-deployment, but not strategy: peer, so its replicas do not follow "+
				"the number of bases")
	}
	if spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		l.find("deletes-first", &w.object, "spec.strategy.type",
			"Recreate deletes all Pods before it creates new ones, so every base is without the module "+
				"during an update")
		return
	}
	most := intstr.FromString("25%") // what Kubernetes takes if nothing is said
	at := "spec"
	if r := spec.Strategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		most, at = *r.MaxUnavailable, "spec.strategy.rollingUpdate.maxUnavailable"
	}
	replicas := 1
	if spec.Replicas != nil {
		replicas = int(*spec.Replicas)
	}
	if r := spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil && !positive(*r.MaxSurge) && !positive(most) {
		l.invalid(&w.object, "spec.strategy.rollingUpdate.maxSurge", "set maxSurge to 1 or more",
			"maxSurge and maxUnavailable are both 0, so the API server refuses the Deployment")
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, max(replicas, 1), false)
	switch {
	case unknown(most.StrVal):
	case err != nil:
		l.find("shape", &w.object, at, "maxUnavailable is %q, which is neither a number nor a percentage", most.StrVal)
	case n > 0 || strategy == labels.Peer && positive(most):
		l.find("deletes-first", &w.object, at,
			"maxUnavailable is %s: an update may delete old Pods before new ones are Ready, so some bases may be without the module for a while", most.String())
	case at != "spec" && positive(most):
		l.find("deletes-first", &w.object, at,
			"maxUnavailable is %s: with more replicas than the %d now, an update deletes old Pods before new ones are Ready", most.String(), replicas)
	}
}

func positive(v intstr.IntOrString) bool {
	return v.Type == intstr.Int && v.IntVal > 0 || v.Type == intstr.String && strings.TrimRight(v.StrVal, "%") != "0"
}

func (l *linter) daemonSet(w *workload, strategy appsv1.DaemonSetUpdateStrategy) {
	switch r := strategy.RollingUpdate; {
	case strategy.Type == appsv1.OnDeleteDaemonSetStrategyType:
		l.find("daemonset-deletes-first", &w.object, "spec.updateStrategy.type",
			"OnDelete creates a Pod only after the old one was deleted, so a base is without the module in between")
	case r == nil || r.MaxSurge == nil || !positive(*r.MaxSurge):
		at := "spec"
		if r != nil {
			at = "spec.updateStrategy.rollingUpdate"
		}
		l.find("daemonset-deletes-first", &w.object, at,
			"without maxSurge a DaemonSet deletes the old Pod of a base before it creates the new one, so the base is without the module in between")
	}
}
