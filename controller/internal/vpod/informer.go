package vpod

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
)

// The indexes find Pods by the Node they are bound to, and by namespace and module name.
const (
	indexNode   = "node"
	indexModule = "module"
)

// Informer is the module Pods of the cluster, as PodController of virtual-kubelet sees them: one
// watch for each spelling of the label, only the Pods of Nodes that this controller serves, and
// added anew when it begins to serve a Node.
//
// PodController gets to see no more of a Pod than it needs: see outline.
type Informer struct {
	cache.SharedIndexInformer // the first watch: what PodController does not use of it stays as it is
	watches                   []cache.SharedIndexInformer
	serves                    func(nodeName string) bool

	mu        sync.Mutex
	handler   cache.ResourceEventHandler
	delivered map[types.NamespacedName]bool // false: PodController has it, and knows nothing of its end
	heard     []cache.InformerSynced        // by each handler: it has got all that was listed
}

var _ corev1informers.PodInformer = (*Informer)(nil)

// NewInformer returns an informer that is not running yet. serves says whether this controller
// serves a Node; it must not block.
func NewInformer(client kubernetes.Interface, serves func(nodeName string) bool) *Informer {
	i := &Informer{serves: serves, delivered: map[types.NamespacedName]bool{}}
	// The second watch leaves out what the first has, so that no Pod comes twice.
	selectors := []string{
		labels.Component + "=" + labels.Module,
		labels.OlderComponent + "=" + labels.Module + "," + labels.Component + "!=" + labels.Module,
	}
	for _, selector := range selectors {
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = selector
		}), informers.WithTransform(slim()))
		watch := factory.Core().V1().Pods().Informer()
		// Neither fails before the informer runs.
		_ = watch.AddIndexers(cache.Indexers{
			indexNode: func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
			indexModule: func(obj any) (keys []string, _ error) {
				pod := obj.(*corev1.Pod)
				for _, c := range pod.Spec.Containers {
					keys = append(keys, pod.Namespace+"/"+c.Name)
				}
				return keys, nil
			},
		})
		i.watches = append(i.watches, watch)
	}
	i.SharedIndexInformer = i.watches[0]
	return i
}

// slim returns a transformation that drops what nobody here reads, which is most of a Pod's size, and has
// Pods share what is the same in the one that came before, as most of a workload is. For one watch.
func slim() cache.TransformFunc {
	var before corev1.PodSpec
	return func(obj any) (any, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			drop(pod)
			before.Containers = shared(before.Containers, pod.Spec.Containers)
			before.Tolerations = shared(before.Tolerations, pod.Spec.Tolerations)
			pod.Spec.Containers, pod.Spec.Tolerations = before.Containers, before.Tolerations
		}
		return obj, nil
	}
}

func shared[T any](before, now T) T {
	if equality.Semantic.DeepEqual(before, now) {
		return before
	}
	return now
}

func drop(pod *corev1.Pod) {
	pod.ManagedFields = nil
	pod.Spec.Affinity = nil
	pod.Spec.Volumes = unsupported.Asked(pod.Spec.Volumes)
	for c := range pod.Spec.Containers {
		if pod.Spec.Containers[c].VolumeMounts != nil { // else they may be shared already
			pod.Spec.Containers[c].VolumeMounts = nil
		}
	}
}

// Informer implements corev1informers.PodInformer.
func (i *Informer) Informer() cache.SharedIndexInformer { return i }

// Lister implements corev1informers.PodInformer.
func (i *Informer) Lister() corev1listers.PodLister { return lister{informer: i} }

// Start runs the watches until ctx ends.
func (i *Informer) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, w := range i.watches {
		wg.Go(func() { w.RunWithContext(ctx) })
	}
	wg.Wait()
	return nil
}

// HasSynced says whether both watches have listed, and all who listen have heard of it.
func (i *Informer) HasSynced() bool {
	for _, w := range i.watches {
		if !w.HasSynced() {
			return false
		}
	}
	i.mu.Lock()
	heard := slices.Clone(i.heard)
	i.mu.Unlock()
	return !slices.ContainsFunc(heard, func(synced cache.InformerSynced) bool { return !synced() })
}

// Observe calls changed for every event of a module Pod, of whatever Node.
func (i *Informer) Observe(changed func(*corev1.Pod)) error {
	return i.watch(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(obj.(*corev1.Pod)) },
		UpdateFunc: func(before, obj any) {
			if old := before.(*corev1.Pod); old.UID != obj.(*corev1.Pod).UID {
				changed(old) // deleted and made anew while the watch was away
			}
			changed(obj.(*corev1.Pod))
		},
		DeleteFunc: func(obj any) {
			if pod := podOf(obj); pod != nil {
				changed(pod)
			}
		},
	})
}

func (i *Informer) watch(h cache.ResourceEventHandler) error {
	for _, w := range i.watches {
		registration, err := w.AddEventHandler(h)
		if err != nil {
			return err
		}
		i.mu.Lock()
		i.heard = append(i.heard, registration.HasSynced)
		i.mu.Unlock()
	}
	return nil
}

// AddEventHandler registers PodController's handler, the only one that goes through here. It hears
// of a Pod when this controller serves its Node.
func (i *Informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	i.handler = h
	i.mu.Unlock()
	return nil, i.watch(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { i.deliver(obj.(*corev1.Pod), nil) },
		UpdateFunc: func(before, obj any) {
			if old := before.(*corev1.Pod); old.UID != obj.(*corev1.Pod).UID {
				i.withdraw(old)
			}
			i.deliver(obj.(*corev1.Pod), before.(*corev1.Pod))
		},
		DeleteFunc: func(obj any) {
			if pod := podOf(obj); pod != nil {
				i.withdraw(pod)
			}
		},
	})
}

func podOf(obj any) *corev1.Pod {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// deliver passes a Pod on as added or updated, whichever PodController must hear: it panics at an
// update of a Pod that it never got as an add.
func (i *Informer) deliver(pod, before *corev1.Pod) {
	if pod.Spec.NodeName == "" || !i.serves(pod.Spec.NodeName) || leaving(pod) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.handler == nil {
		return
	}
	key := nameOf(pod)
	if i.delivered[key] && before != nil {
		i.handler.OnUpdate(outline(before), outline(pod))
		return
	}
	i.delivered[key] = true
	i.handler.OnAdd(pod, false)
}

// leaving says that a Pod's deletion follows at once: as an update it would only have PodController
// delete it once more.
func leaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && ptr.Deref(pod.DeletionGracePeriodSeconds, 1) == 0 && len(pod.Finalizers) == 0
}

func (i *Informer) withdraw(pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := nameOf(pod)
	if _, known := i.delivered[key]; known {
		delete(i.delivered, key)
		i.handler.OnDelete(pod)
	}
}

// Deliver hands all Pods of a Node to PodController, as added: this controller began to serve it.
func (i *Informer) Deliver(nodeName string) {
	for _, pod := range i.On(nodeName) {
		i.deliver(pod, nil)
	}
}

// Forget makes the Pods of a Node unknown to PodController without a word to it: this controller
// ceased to serve the Node, and the modules stay.
func (i *Informer) Forget(nodeName string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, pod := range i.On(nodeName) {
		if key := nameOf(pod); i.delivered[key] {
			i.delivered[key] = false // until it is no more: PodController forgets it then
		}
	}
}

// On lists the module Pods that are bound to a Node.
func (i *Informer) On(nodeName string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, w := range i.watches {
		objects, _ := w.GetIndexer().ByIndex(indexNode, nodeName) // the index exists
		for _, o := range objects {
			pods = append(pods, o.(*corev1.Pod))
		}
	}
	return pods
}

// readyElsewhere says whether a module has a Ready Pod on another Node, not counting those Nodes
// where it is being handed over. ready says whether a Pod is Ready.
func (i *Informer) readyElsewhere(namespace, module, nodeName string, gap map[string]int, ready func(*corev1.Pod) bool) bool {
	for _, w := range i.watches {
		objects, _ := w.GetIndexer().ByIndex(indexModule, namespace+"/"+module) // the index exists
		for _, o := range objects {
			pod := o.(*corev1.Pod)
			if n := pod.Spec.NodeName; n != nodeName && gap[n] == 0 && pod.DeletionTimestamp == nil && ready(pod) {
				return true
			}
		}
	}
	return false
}

// elsewhere lists the Pods of a module on other Nodes that are not being deleted.
func (i *Informer) elsewhere(namespace, module, nodeName string) (pods []*corev1.Pod) {
	for _, w := range i.watches {
		objects, _ := w.GetIndexer().ByIndex(indexModule, namespace+"/"+module) // the index exists
		for _, o := range objects {
			if pod := o.(*corev1.Pod); pod.Spec.NodeName != nodeName && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// Get finds a Pod as the API server last showed it.
func (i *Informer) Get(name types.NamespacedName) (*corev1.Pod, bool) {
	for _, w := range i.watches {
		if o, ok, _ := w.GetIndexer().GetByKey(name.String()); ok { // a cache gives no error
			return o.(*corev1.Pod), true
		}
	}
	return nil, false
}

// lister finds Pods for PodController, which lists none.
type lister struct {
	corev1listers.PodLister
	informer *Informer
}

func (l lister) Pods(namespace string) corev1listers.PodNamespaceLister {
	return namespaceLister{informer: l.informer, namespace: namespace}
}

type namespaceLister struct {
	corev1listers.PodNamespaceLister
	informer  *Informer
	namespace string
}

func (l namespaceLister) Get(name string) (*corev1.Pod, error) {
	pod, ok := l.informer.Get(types.NamespacedName{Namespace: l.namespace, Name: name})
	if !ok || !l.informer.serves(pod.Spec.NodeName) { // PodController deletes Pods when their grace period is over
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
	}
	return outline(pod), nil
}

// outline is what PodController gets to see of a Pod: which one it is, and whether it ends. It keeps, compares and
// copies each Pod that it sees, and would keep the Pod as it was first. The provider looks for all else itself.
//
// Each Pod is shown as running until the provider lets go: one that is deleted while its containers
// wait (a module that a newer version replaced) would be taken out of the API at once, before its
// module is uninstalled.
func outline(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, ContainerStatuses: running},
	}
}

var running = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
