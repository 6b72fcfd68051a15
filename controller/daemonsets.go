package controller

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	warn := func(d *appsv1.DaemonSet) {
		if lacksEnv(d, env) {
			recorder.Event(d, corev1.EventTypeWarning, api.ReasonEnvironmentNotTolerated, fmt.Sprintf(
				"no base gets a Pod of this DaemonSet, because its template does not tolerate the taint %s; "+
					"add {key: %[1]s, operator: Equal, value: %s, effect: NoExecute} to spec.template.spec.tolerations",
				labels.TaintEnv, env))
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { warn(obj.(*appsv1.DaemonSet)) },
		UpdateFunc: func(oldObj, obj any) {
			if d := obj.(*appsv1.DaemonSet); oldObj.(*appsv1.DaemonSet).Generation != d.Generation {
				warn(d)
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
