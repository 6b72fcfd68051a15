package traffic

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// relistDelay is the delay before maintainStore starts a new reflector, which lists the objects again. A client-go
// informer would wait up to 30 s after repeated failures, and the gateway would use outdated endpoints during this
// time.
const relistDelay = 200 * time.Millisecond

// maintainStore keeps a store of objects up to date and blocks until ctx ends. After an error, it starts a new
// reflector. For example, the resource version is too old after a restart of the API server.
func maintainStore(ctx context.Context, from cache.ListerWatcher, what runtime.Object, store cache.ReflectorStore) {
	for {
		_ = cache.NewReflector(from, what, store, 0).ListAndWatchWithContext(ctx) // the next reflector retries
		select {
		case <-time.After(relistDelay):
		case <-ctx.Done():
			return
		}
	}
}

// notifyingStore is a store that calls onChange for each object that is added, updated or removed.
type notifyingStore struct {
	cache.Indexer
	onChange func(obj any)
	filled   func() // called after each complete list
}

func (n *notifyingStore) Add(obj any) error { return n.apply(n.Indexer.Add, obj) }

func (n *notifyingStore) Update(obj any) error { return n.apply(n.Indexer.Update, obj) }

func (n *notifyingStore) Delete(obj any) error { return n.apply(n.Indexer.Delete, obj) }

func (n *notifyingStore) apply(do func(any) error, obj any) error {
	dropUnusedFields(obj)
	err := do(obj)
	n.onChange(obj)
	return err
}

func (n *notifyingStore) Replace(all []any, version string) error {
	for _, obj := range all {
		dropUnusedFields(obj)
	}
	before := n.List()
	err := n.Indexer.Replace(all, version)
	for _, obj := range append(before, n.List()...) {
		n.onChange(obj)
	}
	n.filled()
	return err
}

// dropUnusedFields removes fields that the gateway does not read.
func dropUnusedFields(obj any) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
}

func servicesOf(client kubernetes.Interface) cache.ListerWatcher {
	api := client.CoreV1().Services(metav1.NamespaceAll)
	return listWatch(client,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) }, api.Watch)
}

func slicesOf(client kubernetes.Interface) cache.ListerWatcher {
	api := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
	return listWatch(client,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) }, api.Watch)
}

func listWatch(client kubernetes.Interface, list cache.ListWithContextFunc,
	follow cache.WatchFuncWithContext) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(
		&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: follow}, client)
}
