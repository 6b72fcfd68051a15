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

// templates knows what Deployments and DaemonSets request of their Pods now. This decides which of two Pods on a base must
// serve: during a rollback the older one must, and a ReplicaSet that is scaled down may recreate a Pod.
type templates struct{ deployments, daemonSets cache.SharedIndexInformer }

// newTemplates requests the informers, so that the caller starts them.
func newTemplates(workloads appsinformers.Interface) templates {
	return templates{workloads.Deployments().Informer(), workloads.DaemonSets().Informer()}
}

// watch calls changed with each workload that is new or whose specification has changed.
func (t templates) watch(changed func(workload string)) error {
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

// daemonSet is the prefix of the names of DaemonSets. Deployments have none.
const daemonSet = "DaemonSet "

func workloadName(obj any) string {
	name := cache.MetaObjectToName(obj.(metav1.Object)).String()
	if _, is := obj.(*appsv1.DaemonSet); is {
		return daemonSet + name
	}
	return name
}

// workloadOf returns the name of the Deployment or DaemonSet of a Pod; empty if it has none.
func workloadOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return daemonSet + pod.Namespace + "/" + owner.Name
	}
	return deploymentOf(pod)
}

// outdated reports whether the workload of a Pod is known and requests another module than the Pod does.
func (t templates) outdated(pod *corev1.Pod) bool {
	name, isDaemonSet := strings.CutPrefix(workloadOf(pod), daemonSet)
	known := t.deployments.GetIndexer()
	if isDaemonSet {
		known = t.daemonSets.GetIndexer()
	}
	obj, _, _ := known.GetByKey(name) // an indexer in memory has no error
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return !workload.MatchesTemplate(pod, &w.Spec.Template)
	case *appsv1.DaemonSet:
		return !workload.MatchesTemplate(pod, &w.Spec.Template)
	}
	return false
}
