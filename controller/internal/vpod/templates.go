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

// templates compares Pods with the current templates of Deployments and DaemonSets. The comparison decides which of
// two Pods on a base must serve requests. The newer Pod can be outdated: during a rollback, or if a ReplicaSet that
// is being scaled down recreates a Pod.
type templates struct{ deployments, daemonSets cache.SharedIndexInformer }

// newTemplates creates the informers of Deployments and DaemonSets in the factory. The caller must start the factory
// afterwards.
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
			UpdateFunc: func(oldObj, obj any) {
				if oldObj.(metav1.Object).GetGeneration() != obj.(metav1.Object).GetGeneration() {
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

// daemonSetPrefix precedes the names of DaemonSets, to distinguish them from the names of Deployments, which have no
// prefix.
const daemonSetPrefix = "DaemonSet "

func workloadName(obj any) string {
	name := cache.MetaObjectToName(obj.(metav1.Object)).String()
	if _, is := obj.(*appsv1.DaemonSet); is {
		return daemonSetPrefix + name
	}
	return name
}

// workloadOf returns the name of a Pod's Deployment or DaemonSet in the format of workloadName; empty if the Pod has
// neither.
func workloadOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return daemonSetPrefix + pod.Namespace + "/" + owner.Name
	}
	return deploymentOf(pod)
}

// isOutdated reports whether the current template of a Pod's workload requests another module than the Pod does. It
// returns false if the workload is unknown.
func (t templates) isOutdated(pod *corev1.Pod) bool {
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
