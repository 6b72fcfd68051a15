package controller

import (
	"cmp"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// warnAboutDaemonSets records an Event for each module DaemonSet whose Pod template tolerates the taint of bases, but
// not the environment taint. The toleration that the controller adds to Pods has no effect here: the DaemonSet
// controller creates Pods only for Nodes whose taints the template tolerates. DaemonSets with the label of another
// environment are ignored.
func warnAboutDaemonSets(informer appsinformers.DaemonSetInformer, env string, recorder record.EventRecorder) error {
	return onSpec(informer.Informer(), func(d *appsv1.DaemonSet) {
		if lacksEnv(d, env) {
			recorder.Event(d, corev1.EventTypeWarning, api.ReasonEnvironmentNotTolerated, fmt.Sprintf(
				"no base gets a Pod of this DaemonSet, because its template does not tolerate the taint %s; "+
					"add {key: %[1]s, operator: Equal, value: %s, effect: NoExecute} to spec.template.spec.tolerations",
				labels.TaintEnv, env))
		}
	})
}

// warnAboutDeployments records an Event for each Deployment that has the component label of a peer Deployment, but no
// strategy label. The example of the Koupleless documentation (5.2) is such a Deployment.
func warnAboutDeployments(informer appsinformers.DeploymentInformer, env string, recorder record.EventRecorder) error {
	return onSpec(informer.Informer(), func(d *appsv1.Deployment) {
		if lacksStrategy(d, env) {
			recorder.Event(d, corev1.EventTypeWarning, api.ReasonNoPeerStrategy, fmt.Sprintf(
				"the replicas of this Deployment do not follow the number of bases, because it has the label "+
					"component: %s without a strategy; add the label %s: %s, or remove the component label",
				labels.ModuleDeployment, labels.Strategy, labels.Peer))
		}
	})
}

// onSpec calls do for each object of an informer, and again when the specification or the labels of the object change.
func onSpec[T metav1.Object](informer cache.SharedIndexInformer, do func(T)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { do(obj.(T)) },
		UpdateFunc: func(oldObj, obj any) {
			was, now := oldObj.(T), obj.(T)
			if was.GetGeneration() != now.GetGeneration() || !maps.Equal(was.GetLabels(), now.GetLabels()) {
				do(now)
			}
		},
	})
	return err
}

// lacksEnv reports whether a module DaemonSet of the environment tolerates the taint of bases, but not the
// environment taint.
func lacksEnv(d *appsv1.DaemonSet, env string) bool {
	template := d.Spec.Template
	tolerations := template.Spec.Tolerations
	return d.DeletionTimestamp == nil && workload.IsModule(template.Labels) &&
		cmp.Or(labels.Value(d.Labels, labels.Env), env) == env &&
		workload.Tolerates(tolerations, labels.TaintVirtualNode) && !workload.Tolerates(tolerations, labels.TaintEnv)
}

// lacksStrategy reports whether a Deployment of the environment has the component label of a peer Deployment, but no
// strategy label. A Deployment with the label replicas-control=true needs none.
func lacksStrategy(d *appsv1.Deployment, env string) bool {
	return d.DeletionTimestamp == nil && labels.Value(d.Labels, labels.Component) == labels.ModuleDeployment &&
		cmp.Or(labels.Value(d.Labels, labels.Env), env) == env &&
		labels.Value(d.Labels, labels.Strategy) == "" && !workload.KeepsReplicas(d)
}
