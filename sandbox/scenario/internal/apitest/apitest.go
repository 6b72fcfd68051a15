// Package apitest helps tests that stand on a fake of the Kubernetes API.
package apitest

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

// Object reads an object from YAML.
func Object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// Gapless makes a watch tell everything since the list before it, as the real API does: the fake
// loses what happens between the two.
func Gapless(client *fake.FakeDynamicClient) {
	type place struct{ resource, namespace string }
	var mu sync.Mutex
	begun := map[place][]watch.Interface{}
	client.PrependReactor("list", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		p := place{a.GetResource().Resource, a.GetNamespace()}
		begun[p] = append(begun[p], w)
		return false, nil, nil // the list itself is the fake's
	})
	client.PrependWatchReactor("*", func(a k8stesting.Action) (bool, watch.Interface, error) {
		mu.Lock()
		defer mu.Unlock()
		p := place{a.GetResource().Resource, a.GetNamespace()}
		if len(begun[p]) == 0 {
			return false, nil, nil
		}
		w := begun[p][0]
		begun[p] = begun[p][1:]
		return true, w, nil
	})
}
