package vpod

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// The indexes find Pods by their Node, and by namespace and module name.
const (
	indexNode   = "node"
	indexModule = "module"
)

// podWatches are caches of Pods.
type podWatches []cache.SharedIndexInformer

// newPodWatch returns a watch of the Pods that match the selectors. It lists nothing before it runs.
func newPodWatch(client kubernetes.Interface, labelSelector, fieldSelector string) cache.SharedIndexInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector, o.FieldSelector = labelSelector, fieldSelector
		}), informers.WithTransform(slim))
	watch := factory.Core().V1().Pods().Informer()
	_ = watch.AddIndexers(cache.Indexers{ // it does not fail before the informer runs
		indexNode: func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
		indexModule: func(obj any) (keys []string, _ error) {
			pod := obj.(*corev1.Pod)
			for _, c := range pod.Spec.Containers {
				keys = append(keys, pod.Namespace+"/"+c.Name)
			}
			return keys, nil
		},
	})
	return watch
}

// run runs the watches until ctx is done.
func (ws podWatches) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, w := range ws {
		running.Go(func() { w.RunWithContext(ctx) })
	}
	running.Wait()
}

// find returns the Pods with a value of an index.
func (ws podWatches) find(index, value string) (pods []*corev1.Pod) {
	for _, w := range ws {
		objects, _ := w.GetIndexer().ByIndex(index, value) // the index exists
		for _, o := range objects {
			pods = append(pods, o.(*corev1.Pod))
		}
	}
	return pods
}

// Get returns a Pod.
func (ws podWatches) Get(name types.NamespacedName) (*corev1.Pod, bool) {
	for _, w := range ws {
		if o, ok, _ := w.GetIndexer().GetByKey(name.String()); ok { // a cache returns no error
			return o.(*corev1.Pod), true
		}
	}
	return nil, false
}

// Informer caches the module Pods of the cluster. It has one watch for each prefix of the label.
type Informer struct {
	podWatches

	mu    sync.Mutex
	heard []cache.InformerSynced // reports for each handler whether it has received all listed Pods
}

// NewInformer returns an informer. It lists nothing before it runs.
func NewInformer(client kubernetes.Interface) *Informer {
	return &Informer{podWatches: podWatches{
		newPodWatch(client, labels.Component+"="+labels.Module, ""),
		// and not the Pods of the first watch
		newPodWatch(client, labels.OlderComponent+"="+labels.Module+","+labels.Component+"!="+labels.Module, ""),
	}}
}

// slim drops large fields of a Pod that the controller does not use.
func slim(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec.Affinity = nil
		for c := range pod.Spec.Containers {
			pod.Spec.Containers[c].VolumeMounts = nil
		}
	}
	return obj, nil
}

// HasSynced reports whether both watches have listed their Pods and all handlers have received them.
func (i *Informer) HasSynced() bool {
	for _, w := range i.podWatches {
		if !w.HasSynced() {
			return false
		}
	}
	i.mu.Lock()
	heard := slices.Clone(i.heard)
	i.mu.Unlock()
	return !slices.ContainsFunc(heard, func(synced cache.InformerSynced) bool { return !synced() })
}

// Observe calls changed for every event of a module Pod on any Node.
func (i *Informer) Observe(changed func(*corev1.Pod)) error {
	return i.watch(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(obj.(*corev1.Pod)) },
		UpdateFunc: func(before, obj any) {
			if old := before.(*corev1.Pod); old.UID != obj.(*corev1.Pod).UID {
				changed(old) // deleted and recreated while the watch was interrupted
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
	for _, w := range i.podWatches {
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

func podOf(obj any) *corev1.Pod {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// PodsOnNode returns the module Pods that are bound to a Node.
func (i *Informer) PodsOnNode(nodeName string) []*corev1.Pod { return i.find(indexNode, nodeName) }

// elsewhere returns the Pods of a module on other Nodes that are not being deleted.
func (i *Informer) elsewhere(namespace, module, nodeName string) []*corev1.Pod {
	return slices.DeleteFunc(i.find(indexModule, namespace+"/"+module), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == nodeName || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil
	})
}
