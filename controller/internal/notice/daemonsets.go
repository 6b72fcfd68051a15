package notice

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// DaemonSets tells a DaemonSet of modules, when it comes and whenever its spec changes, that its
// template names no environment. The DaemonSet controller makes Pods by the template alone, so the
// toleration that module controllers add to Pods is no help: DESIRED stays 0. env is the
// environment of this controller; a DaemonSet that is labelled with another one is left to that
// one's. It returns at once; an error means that DaemonSets cannot be watched.
func DaemonSets(informer appsinformers.DaemonSetInformer, env string, recorder record.EventRecorder) error {
	tell := func(d *appsv1.DaemonSet) {
		if lacksEnv(d, env) {
			recorder.Event(d, corev1.EventTypeWarning, api.ReasonEnvironmentNotTolerated, fmt.Sprintf(
				"a DaemonSet makes a Pod only where its template tolerates the taints of the Node, and it does not tolerate %s of any base: "+
					"add {key: %[1]s, operator: Equal, value: %s, effect: NoExecute} to spec.template.spec.tolerations", labels.TaintEnv, env))
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if d, ok := object.(*appsv1.DaemonSet); ok {
				tell(d)
			}
		},
		UpdateFunc: func(before, after any) {
			was, ok := before.(*appsv1.DaemonSet)
			if d, is := after.(*appsv1.DaemonSet); ok && is && was.Generation != d.Generation {
				tell(d)
			}
		},
	})
	return err
}

// lacksEnv reports whether a DaemonSet of modules, of this environment or of none, means to get onto
// bases and names no environment.
func lacksEnv(d *appsv1.DaemonSet, env string) bool {
	template := d.Spec.Template
	names := func(key string) bool {
		return slices.ContainsFunc(template.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists
		})
	}
	return d.DeletionTimestamp == nil && workload.IsModule(template.Labels) && cmp.Or(labels.Value(d.Labels, labels.Env), env) == env &&
		names(labels.TaintVirtualNode) && !names(labels.TaintEnv)
}
