package vpod

import (
	"context"
	"sync"

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

// strangers are the Pods that bear no label of modules and are bound to a base all the same: they
// tolerate its taints, or name its Node. Nobody runs them, and without this nobody lets them go.
type strangers struct {
	p     *Provider
	watch cache.SharedIndexInformer

	mu   sync.Mutex
	told map[types.UID]bool
}

// newStrangers watches Pods without the label while they are bound and Pending, which ordinary ones
// are for a moment only.
func newStrangers(p *Provider, client kubernetes.Interface) *strangers {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Component + "!=" + labels.Module + "," + labels.OlderComponent + "!=" + labels.Module
		o.FieldSelector = fields.AndSelectors(
			fields.OneTermEqualSelector("status.phase", string(corev1.PodPending)),
			fields.OneTermNotEqualSelector("spec.nodeName", ""),
		).String()
	}), informers.WithTransform(slim()))
	s := &strangers{p: p, watch: factory.Core().V1().Pods().Informer(), told: map[types.UID]bool{}}
	// Neither fails before the informer runs.
	_ = s.watch.AddIndexers(cache.Indexers{indexNode: func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }})
	_, _ = s.watch.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.look(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { s.look(obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if pod := podOf(obj); pod != nil {
				s.mu.Lock()
				delete(s.told, pod.UID)
				s.mu.Unlock()
			}
		},
	})
	return s
}

// look tells once what a Pod on a base lacks, by an Event and in its status, which kubectl debug
// prints, and takes it out of the API when it is deleted: there is nothing to wait for.
func (s *strangers) look(pod *corev1.Pod) {
	if !s.p.Serves(pod.Spec.NodeName) {
		return
	}
	if pod.DeletionTimestamp != nil {
		s.p.chores.Add(podKey(nameOf(pod)))
		return
	}
	s.mu.Lock()
	told := s.told[pod.UID]
	s.told[pod.UID] = true
	s.mu.Unlock()
	if !told {
		s.p.opts.Recorder.Event(pod, corev1.EventTypeWarning, api.ReasonNotAModule, notAModule(pod))
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		s.p.chores.Add(podKey(nameOf(pod)))
	}
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

// get finds a Pod as the API server last showed it; nil if there is none.
func (s *strangers) get(name types.NamespacedName) *corev1.Pod {
	obj, _, _ := s.watch.GetIndexer().GetByKey(name.String()) // an indexer in memory has no error
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// tend writes what a Pod lacks, or takes it out of the API when it is deleted.
func (s *strangers) tend(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return s.p.writer.delete(ctx, pod)
	case len(pod.Status.ContainerStatuses) == 0:
		return s.write(ctx, pod)
	}
	return nil
}

// write has the containers of a Pod wait with what it lacks as the reason.
func (s *strangers) write(ctx context.Context, pod *corev1.Pod) error {
	status := *pod.Status.DeepCopy()
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: api.ReasonNotAModule, Message: notAModule(pod)}},
		})
	}
	update := &corev1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Status: status} // the API server keeps the spec at a write of status
	_, err := s.p.writer.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, update, metav1.UpdateOptions{})
	return err
}

// served looks at the Pods of a Node that is served from now on.
func (s *strangers) served(nodeName string) {
	for _, pod := range s.on(nodeName) {
		s.look(pod)
	}
}

// on lists the Pods that are bound to a Node.
func (s *strangers) on(nodeName string) (pods []*corev1.Pod) {
	objects, _ := s.watch.GetIndexer().ByIndex(indexNode, nodeName) // the index exists
	for _, o := range objects {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}
