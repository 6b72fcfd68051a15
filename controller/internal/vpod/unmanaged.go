package vpod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// unmanagedPods are Pods on bases that do not have the label of modules: they tolerate the taints of bases, or name a Node.
// No kubelet would delete them.
type unmanagedPods struct {
	p     *Provider
	watch cache.SharedIndexInformer
}

// newUnmanagedPods watches the Pods without the label that are bound and Pending. Other Pods are in that state only for a
// moment.
func newUnmanagedPods(p *Provider, client kubernetes.Interface) *unmanagedPods {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Component + "!=" + labels.Module + "," + labels.OlderComponent + "!=" + labels.Module
		o.FieldSelector = fields.AndSelectors(
			fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)),
			fields.OneTermNotEqualSelector("spec.nodeName", ""),
		).String()
	}), informers.WithTransform(slim))
	u := &unmanagedPods{p: p, watch: factory.Core().V1().Pods().Informer()}
	// Neither fails before the informer runs.
	_ = u.watch.AddIndexers(cache.Indexers{indexNode: func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }})
	_, _ = u.watch.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { u.changed(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { u.changed(obj.(*corev1.Pod)) },
	})
	return u
}

// changed queues a Pod that must be reported or deleted.
func (u *unmanagedPods) changed(pod *corev1.Pod) {
	if u.p.Serves(pod.Spec.NodeName) && (pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0) {
		u.p.chores.Add(podKey(nameOf(pod)))
	}
}

// tend reports a Pod once by an Event and in its status, which kubectl debug prints, and deletes a Pod that is being deleted.
func (u *unmanagedPods) tend(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return u.p.writer.delete(ctx, pod)
	}
	if len(pod.Status.ContainerStatuses) > 0 {
		return nil
	}
	status := *pod.Status.DeepCopy()
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: api.ReasonNotAModule, Message: notAModule(pod)}},
		})
	}
	update := &corev1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Status: status} // the API server ignores the spec
	_, err := u.p.writer.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
	if err == nil {
		u.p.opts.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonNotAModule, notAModule(pod))
	}
	return err
}

// notAModule returns why a Pod on a base does not run, and how to keep a Pod that is not a module off
// bases. A DaemonSet that tolerates all taints usually needs its tolerations, so it gets a node affinity.
func notAModule(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	isDaemonSet := owner != nil && owner.Kind == "DaemonSet"
	text := "this Pod is bound to a base, which runs modules only: if it is a module, its template lacks the label " + labels.Component + "=" + labels.Module
	if isDaemonSet {
		return text + "; otherwise keep DaemonSet " + owner.Name + " off bases by a required node affinity in its template: " + labels.Component + " NotIn [" + labels.Vnode + "]"
	}
	return text + "; otherwise its toleration of " + labels.TaintVirtualNode + " brings it here: remove it"
}

// get returns a Pod from the cache; nil if it does not have the Pod.
func (u *unmanagedPods) get(name types.NamespacedName) *corev1.Pod {
	obj, _, _ := u.watch.GetIndexer().GetByKey(name.String()) // an indexer in memory has no error
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// on returns the Pods that are bound to a Node.
func (u *unmanagedPods) on(nodeName string) (pods []*corev1.Pod) {
	objects, _ := u.watch.GetIndexer().ByIndex(indexNode, nodeName) // the index exists
	for _, o := range objects {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}
