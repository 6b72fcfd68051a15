package vpod

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/workload"
)

// templates compares Pods with the current templates of Deployments and DaemonSets. This decides which of two Pods on a
// base must serve: during a rollback, it is the older one; a ReplicaSet that is scaled down may recreate a Pod.
type templates struct{ deployments, daemonSets cache.SharedIndexInformer }

// newTemplates requests the informers from the factory. The caller starts the factory afterwards.
func newTemplates(workloads appsinformers.Interface) templates {
	return templates{workloads.Deployments().Informer(), workloads.DaemonSets().Informer()}
}

// registerHandlers registers handlers that call changed with the name of each workload that is new or whose spec has
// changed.
func (t templates) registerHandlers(changed func(workload string)) error {
	for _, informer := range []cache.SharedIndexInformer{t.deployments, t.daemonSets} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) {
				changed(workloadName(obj))
			},
			UpdateFunc: func(before, obj any) {
				if before.(metav1.Object).GetGeneration() != obj.(metav1.Object).GetGeneration() {
					changed(workloadName(obj))
				}
			},
		})
		if err != nil {
			return fmt.Errorf("watching workloads: %w", err)
		}
	}
	return nil
}

// daemonSetPrefix distinguishes the names of DaemonSets from those of Deployments, which have no prefix.
const daemonSetPrefix = "DaemonSet "

func workloadName(obj any) string {
	name := cache.MetaObjectToName(obj.(metav1.Object)).String()
	if _, is := obj.(*appsv1.DaemonSet); is {
		return daemonSetPrefix + name
	}
	return name
}

// workloadOf returns the name of a Pod's Deployment or DaemonSet, as workloadName does; empty if there is none.
func workloadOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return daemonSetPrefix + pod.Namespace + "/" + owner.Name
	}
	return deploymentOf(pod)
}

// outdated reports whether the workload of a Pod is known and its template requests another module than the Pod does.
func (t templates) outdated(pod *corev1.Pod) bool {
	name, isDaemonSet := strings.CutPrefix(workloadOf(pod), daemonSetPrefix)
	known := t.deployments.GetIndexer()
	if isDaemonSet {
		known = t.daemonSets.GetIndexer()
	}
	obj, _, _ := known.GetByKey(name) // an in-memory indexer returns no error
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return !workload.MatchesTemplate(pod, &w.Spec.Template)
	case *appsv1.DaemonSet:
		return !workload.MatchesTemplate(pod, &w.Spec.Template)
	}
	return false
}
