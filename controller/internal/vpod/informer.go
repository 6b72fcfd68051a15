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

// Names of the Pod indexes: by Node, and by namespace and container name.
const (
	indexNode   = "node"
	indexModule = "module"
)

// podWatches is a set of informers that cache Pods.
type podWatches []cache.SharedIndexInformer

// newPodWatch returns an informer of the Pods that match the selectors. The informer sends no requests before it
// runs.
func newPodWatch(client kubernetes.Interface, labelSelector, fieldSelector string) cache.SharedIndexInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector, o.FieldSelector = labelSelector, fieldSelector
		}), informers.WithTransform(dropUnusedFields))
	watch := factory.Core().V1().Pods().Informer()
	_ = watch.AddIndexers(cache.Indexers{ // cannot fail before the informer runs
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

// run runs the informers until ctx is done.
func (ws podWatches) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, w := range ws {
		running.Go(func() { w.RunWithContext(ctx) })
	}
	running.Wait()
}

// find returns the cached Pods that have the given value in an index.
func (ws podWatches) find(index, value string) (pods []*corev1.Pod) {
	for _, w := range ws {
		objects, _ := w.GetIndexer().ByIndex(index, value) // the index exists
		for _, o := range objects {
			pods = append(pods, o.(*corev1.Pod))
		}
	}
	return pods
}

// Get returns a Pod from the cache, or false if the cache does not contain the Pod.
func (ws podWatches) Get(name types.NamespacedName) (*corev1.Pod, bool) {
	for _, w := range ws {
		if o, ok, _ := w.GetIndexer().GetByKey(name.String()); ok { // an in-memory indexer returns no error
			return o.(*corev1.Pod), true
		}
	}
	return nil, false
}

// Informer caches the module Pods of the cluster. It has one watch for each spelling of the component label.
type Informer struct {
	podWatches

	mu             sync.Mutex
	handlersSynced []cache.InformerSynced // functions that report whether a handler has received all listed Pods
}

// NewInformer returns an Informer. The Informer sends no requests before it runs.
func NewInformer(client kubernetes.Interface) *Informer {
	return &Informer{podWatches: podWatches{
		newPodWatch(client, labels.Component+"="+labels.Module, ""),
		// excludes the Pods of the first watch
		newPodWatch(client, labels.OlderComponent+"="+labels.Module+","+labels.Component+"!="+labels.Module, ""),
	}}
}

// dropUnusedFields removes large fields of a Pod that the controller does not use, to save memory.
func dropUnusedFields(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec.Affinity = nil
		for c := range pod.Spec.Containers {
			pod.Spec.Containers[c].VolumeMounts = nil
		}
	}
	return obj, nil
}

// HasSynced reports whether both watches have listed their Pods and all handlers have received these Pods.
func (i *Informer) HasSynced() bool {
	for _, w := range i.podWatches {
		if !w.HasSynced() {
			return false
		}
	}
	i.mu.Lock()
	synced := slices.Clone(i.handlersSynced)
	i.mu.Unlock()
	return !slices.ContainsFunc(synced, func(hasSynced cache.InformerSynced) bool { return !hasSynced() })
}

// Observe registers changed as the handler of all events of module Pods on any Node.
func (i *Informer) Observe(changed func(*corev1.Pod)) error {
	return i.addHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { changed(obj.(*corev1.Pod)) },
		UpdateFunc: func(oldObj, newObj any) {
			if old := oldObj.(*corev1.Pod); old.UID != newObj.(*corev1.Pod).UID {
				changed(old) // the Pod was deleted and recreated while the watch was interrupted
			}
			changed(newObj.(*corev1.Pod))
		},
		DeleteFunc: func(obj any) {
			if pod := podOf(obj); pod != nil {
				changed(pod)
			}
		},
	})
}

func (i *Informer) addHandler(h cache.ResourceEventHandler) error {
	for _, w := range i.podWatches {
		registration, err := w.AddEventHandler(h)
		if err != nil {
			return err
		}
		i.mu.Lock()
		i.handlersSynced = append(i.handlersSynced, registration.HasSynced)
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

// onOtherNodes returns the Pods of a module that are bound to other Nodes, except the Pods that are being deleted.
func (i *Informer) onOtherNodes(namespace, module, nodeName string) []*corev1.Pod {
	return slices.DeleteFunc(i.find(indexModule, namespace+"/"+module), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == nodeName || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil
	})
}
