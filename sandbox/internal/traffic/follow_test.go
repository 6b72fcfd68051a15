package traffic

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// TestMaintainStoreRelistsAndReportsChanges checks that maintainStore lists the objects again after each expired
// watch, always after the same delay, and that it reports added, changed and removed objects.
func TestMaintainStoreRelistsAndReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tooOld = 10
		lists, last := 0, watch.NewFake()
		from := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				lists++
				return &corev1.ServiceList{Items: []corev1.Service{named("stays"), named(fmt.Sprint("of-", lists))}},
					nil
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
				if lists <= tooOld {
					return nil, apierrors.NewResourceExpired("too old")
				}
				return last, nil
			},
		}, fake.NewClientset())
		reported, filled := map[string]int{}, 0
		store := &notifyingStore{
			cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
			func(obj any) { reported[obj.(*corev1.Service).Name]++ }, func() { filled++ },
		}
		ctx, cancel := context.WithCancel(t.Context())
		began, ended := time.Now(), make(chan struct{})
		go func() { maintainStore(ctx, from, &corev1.Service{}, store); close(ended) }()
		added := named("added")
		last.Add(&added) // blocks until the last watch is read
		last.Modify(&added)
		last.Delete(&added)
		synctest.Wait()
		if took := time.Since(began); lists != tooOld+1 || took != tooOld*relistDelay {
			t.Errorf("%d lists in %s", lists, took)
		}
		// An object in two lists is reported once for the first list, and twice for the second: as old and as new
		// object.
		want := map[string]int{"stays": 1 + 2*tooOld, "of-1": 2, "of-11": 1, "added": 3}
		for name, times := range want {
			if reported[name] != times {
				t.Errorf("%s was reported %d times, want %d", name, reported[name], times)
			}
		}
		if filled != tooOld+1 ||
			!slices.Equal(slices.Sorted(slices.Values(store.ListKeys())), []string{"n/of-11", "n/stays"}) {
			t.Errorf("filled %d times; %v", filled, store.ListKeys())
		}
		cancel()
		<-ended
	})
}

func named(name string) corev1.Service {
	return corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
}
