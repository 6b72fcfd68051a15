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

// templates knows what Deployments and DaemonSets want of their Pods now. That decides which of two
// Pods of one of them is to serve on a base, and not which was created later: a rollout that is taken
// back has its old Pods yet, and a ReplicaSet that is on its way down makes a Pod anew whose
// predecessor was deleted by somebody.
type templates struct {
	deployments appsinformers.DeploymentInformer // nil = nothing is known
	daemonSets  appsinformers.DaemonSetInformer
}

// newTemplates asks for the informers, so that whoever starts them does so.
func newTemplates(workloads appsinformers.Interface) templates {
	if workloads == nil {
		return templates{}
	}
	t := templates{workloads.Deployments(), workloads.DaemonSets()}
	t.deployments.Informer()
	t.daemonSets.Informer()
	return t
}

// watch calls changed with the workload whenever one wants something else, or comes.
func (t templates) watch(changed func(workload string)) error {
	if t.deployments == nil {
		return nil
	}
	for _, informer := range []cache.SharedIndexInformer{t.deployments.Informer(), t.daemonSets.Informer()} {
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

func workloadName(obj any) string {
	name := cache.MetaObjectToName(obj.(metav1.Object)).String()
	if _, is := obj.(*appsv1.DaemonSet); is {
		return daemonSet + name
	}
	return name
}

// daemonSet sets the names of DaemonSets apart from those of Deployments.
const daemonSet = "DaemonSet "

// workloadOf names the Deployment or DaemonSet of a Pod; empty if it has none.
func workloadOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return daemonSet + pod.Namespace + "/" + owner.Name
	}
	deployment, _ := deploymentOf(pod)
	return deployment
}

// outdated says whether the workload of a Pod wants another module than the Pod does. What is not
// known is not outdated.
func (t templates) outdated(pod *corev1.Pod) bool {
	if t.deployments == nil {
		return false
	}
	name, isDaemonSet := strings.CutPrefix(workloadOf(pod), daemonSet)
	known := t.deployments.Informer().GetIndexer()
	if isDaemonSet {
		known = t.daemonSets.Informer().GetIndexer()
	}
	obj, _, _ := known.GetByKey(name) // an indexer in memory has no error
	switch w := obj.(type) {
	case *appsv1.Deployment:
		return !workload.Meets(pod, &w.Spec.Template)
	case *appsv1.DaemonSet:
		return !workload.Meets(pod, &w.Spec.Template)
	}
	return false
}
