package traffic

import (
	"context"
	"errors"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// again is the pause before an API server that is away is asked again. It stands in
// for the pauses of informers, which grow to a minute: after an outage the gateway
// would send to the endpoints of before for that long.
const again = 200 * time.Millisecond

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

// patiently asks until somebody listens, or ctx ends.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return answer, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return answer, err
		}
	}
}
