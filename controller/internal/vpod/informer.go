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

// The indexes find Pods by their Node, by namespace and module name, and by the result of deploymentOf.
const (
	indexNode       = "node"
	indexModule     = "module"
	indexDeployment = "deployment"
)

// Informer caches the module Pods of the cluster. It has one watch for each prefix of the label.
type Informer struct {
	watches []cache.SharedIndexInformer

	mu    sync.Mutex
	heard []cache.InformerSynced // reports for each handler whether it has received all listed Pods
}

// NewInformer returns an informer. It lists nothing before Start.
func NewInformer(client kubernetes.Interface) *Informer {
	i := &Informer{}
	// The second watch excludes the Pods of the first one.
	selectors := []string{
		labels.Component + "=" + labels.Module,
		labels.OlderComponent + "=" + labels.Module + "," + labels.Component + "!=" + labels.Module,
	}
	for _, selector := range selectors {
		factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = selector
		}), informers.WithTransform(slim))
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
			indexDeployment: func(obj any) ([]string, error) {
				if deployment := deploymentOf(obj.(*corev1.Pod)); deployment != "" {
					return []string{deployment}, nil
				}
				return nil, nil
			},
		})
		i.watches = append(i.watches, watch)
	}
	return i
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

// Start runs the watches until ctx ends.
func (i *Informer) Start(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, w := range i.watches {
		wg.Go(func() { w.RunWithContext(ctx) })
	}
	wg.Wait()
	return nil
}

// HasSynced reports whether both watches have listed their Pods and all handlers have received them.
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

func podOf(obj any) *corev1.Pod {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// On returns the module Pods that are bound to a Node.
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

// elsewhere returns the Pods of a module on other Nodes that are not being deleted.
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

// Get returns a Pod from the cache.
func (i *Informer) Get(name types.NamespacedName) (*corev1.Pod, bool) {
	for _, w := range i.watches {
		if o, ok, _ := w.GetIndexer().GetByKey(name.String()); ok { // a cache gives no error
			return o.(*corev1.Pod), true
		}
	}
	return nil, false
}
