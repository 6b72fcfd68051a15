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

// again is the pause before objects are listed again. The pauses of an informer grow to half a minute when one
// outage follows another, and the gateway would use old endpoints for that long.
const again = 200 * time.Millisecond

// keep keeps a store of objects until ctx ends. A new reflector replaces one that an error has ended, such as a
// resource version that is too old after the API server has restarted.
func keep(ctx context.Context, from cache.ListerWatcher, what runtime.Object, store cache.ReflectorStore) {
	for {
		_ = cache.NewReflector(from, what, store, 0).ListAndWatchWithContext(ctx) // the next one tries what has failed
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
}

// noted is a store that calls note for each object that was added, changed or removed.
type noted struct {
	cache.Indexer
	note   func(obj any)
	filled func() // called when the store has been filled, also again
}

func (n *noted) Add(obj any) error { return n.told(n.Indexer.Add, obj) }

func (n *noted) Update(obj any) error { return n.told(n.Indexer.Update, obj) }

func (n *noted) Delete(obj any) error { return n.told(n.Indexer.Delete, obj) }

func (n *noted) told(do func(any) error, obj any) error {
	slim(obj)
	err := do(obj)
	n.note(obj)
	return err
}

func (n *noted) Replace(all []any, version string) error {
	for _, obj := range all {
		slim(obj)
	}
	before := n.List()
	err := n.Indexer.Replace(all, version)
	for _, obj := range append(before, n.List()...) {
		n.note(obj)
	}
	n.filled()
	return err
}

// slim drops fields that the gateway does not read.
func slim(obj any) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
}

func servicesOf(client kubernetes.Interface) cache.ListerWatcher {
	api := client.CoreV1().Services(metav1.NamespaceAll)
	return followed(client,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) }, api.Watch)
}

func slicesOf(client kubernetes.Interface) cache.ListerWatcher {
	api := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
	return followed(client,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) }, api.Watch)
}

func followed(client kubernetes.Interface, list cache.ListWithContextFunc,
	follow cache.WatchFuncWithContext) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(
		&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: follow}, client)
}
