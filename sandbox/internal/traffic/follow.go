package traffic

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// again is the pause before an API server that is away, or starts, is asked again, and before all is
// listed anew. It stands in for the pauses of informers, which grow to half a minute when outages follow
// each other: the gateway would send to the endpoints of before for that long.
const again = 200 * time.Millisecond

// keep keeps a store of objects until ctx ends, by one reflector after the other: whatever has ended
// one, such as a version that is too old for a watch since the API server was started anew, the next
// begins without the pauses of an informer.
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

// noted is a store that tells of each object that has come, changed or gone.
type noted struct {
	cache.Indexer
	note   func(obj any)
	filled func() // it has been filled; it may be called again
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

// slim drops what nobody here reads.
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

func followed(
	client kubernetes.Interface,
	list func(context.Context, metav1.ListOptions) (runtime.Object, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return patiently(ctx, func() (runtime.Object, error) { return list(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return patiently(ctx, func() (watch.Interface, error) { return follow(ctx, o) })
		},
	}, client)
}

// patiently asks until there is an answer that counts, or ctx ends.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if err == nil || ctx.Err() != nil || !passes(err) {
			return answer, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return answer, err
		}
	}
}

// starting are the reasons with which an API server refuses what it will answer soon: one that has just
// started does not know its roles yet, nor all of what it keeps.
var starting = []metav1.StatusReason{
	metav1.StatusReasonForbidden, metav1.StatusReasonInternalError, metav1.StatusReasonServiceUnavailable,
	metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests,
}

// passes tells whether nobody has answered, or an API server that starts. Anything else ends the
// reflector, such as a version that is too old for a watch.
func passes(err error) bool {
	var answered apierrors.APIStatus
	return !errors.As(err, &answered) || slices.Contains(starting, answered.Status().Reason)
}
