package vpod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// newUnmanagedWatch returns a watch of the unmanaged Pods: Pods that are bound to bases but lack the module label.
// Unmanaged Pods tolerate the taints of bases, or set spec.nodeName. No kubelet runs or deletes them. The watch
// selects Pods that are bound and Pending, a state that Pods on other Nodes leave quickly.
func (p *Provider) newUnmanagedWatch(client kubernetes.Interface) podWatches {
	watch := newPodWatch(client,
		labels.Component+"!="+labels.Module+","+labels.OlderComponent+"!="+labels.Module,
		fields.AndSelectors(fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)),
			fields.OneTermNotEqualSelector("spec.nodeName", "")).String())
	_, _ = watch.AddEventHandler(cache.ResourceEventHandlerFuncs{ // cannot fail before the informer runs
		AddFunc:    func(obj any) { p.enqueueUnmanaged(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { p.enqueueUnmanaged(obj.(*corev1.Pod)) },
	})
	return podWatches{watch}
}

// enqueueUnmanaged queues an unmanaged Pod that must be reported or deleted.
func (p *Provider) enqueueUnmanaged(pod *corev1.Pod) {
	if p.Serves(pod.Spec.NodeName) && (pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0) {
		p.podWrites.Add(podKey(nameOf(pod)))
	}
}

// syncUnmanaged reports an unmanaged Pod once, in an Event and in its status. It removes a terminating unmanaged Pod
// from the API.
func (p *Provider) syncUnmanaged(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		return p.writer.delete(ctx, pod)
	}
	if len(pod.Status.ContainerStatuses) > 0 {
		return nil
	}
	status := *pod.Status.DeepCopy()
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: api.ReasonNotAModule, Message: notAModule(pod)}},
		})
	}
	update := &corev1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Status: status} // the API server ignores the spec
	_, err := p.writer.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
	if err == nil {
		p.opts.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonNotAModule, notAModule(pod))
	}
	return err
}

// notAModule returns the message for a Pod that is on a base but is not a module Pod. The message explains why the
// Pod does not run, and how to keep such Pods off bases. A DaemonSet that tolerates all taints usually needs its
// tolerations, so the message suggests a node affinity.
func notAModule(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	isDaemonSet := owner != nil && owner.Kind == "DaemonSet"
	text := "this Pod is bound to a base, but bases run only modules: if the Pod is a module, add the label " +
		labels.Component + "=" + labels.Module + " to its template"
	if isDaemonSet {
		return text + "; otherwise keep DaemonSet " + owner.Name +
			" off bases with a required node affinity in its template: " + labels.Component + " NotIn [" +
			labels.Vnode +
			"]"
	}
	return text + "; otherwise remove its toleration of " + labels.TaintVirtualNode
}
