package check

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
)

// FakeClient is a fake client-go clientset, either typed or dynamic.
type FakeClient interface {
	Tracker() clienttesting.ObjectTracker
	PrependReactor(verb, resource string, reaction clienttesting.ReactionFunc)
	PrependWatchReactor(resource string, reaction clienttesting.WatchReactionFunc)
}

// Gapless makes each watch of a fake client start with the changes since the preceding list, as with a real API
// server. Without Gapless, the informer of a fake client misses changes between its list and its watch. Call Gapless
// before the client is used.
func Gapless(client FakeClient) {
	type scope struct{ resource, namespace string }
	var mu sync.Mutex
	begun := map[scope][]watch.Interface{} // watches since lists that no watch has followed yet, oldest first
	client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		s := scope{a.GetResource().Resource, a.GetNamespace()}
		begun[s] = append(begun[s], w)
		return false, nil, nil // the fake client answers the list
	})
	client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		mu.Lock()
		defer mu.Unlock()
		s := scope{a.GetResource().Resource, a.GetNamespace()}
		if len(begun[s]) == 0 {
			return false, nil, nil
		}
		w := begun[s][0]
		begun[s] = begun[s][1:]
		return true, w, nil
	})
}
