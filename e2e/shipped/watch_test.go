package shipped

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// changes records what happens to the Pods of a namespace, and to the Nodes and Leases of an environment.
type changes struct {
	mu   sync.Mutex
	list []string
}

// watchChanges records every change from now on. Renewals of Leases and of conditions are ignored.
func watchChanges(t *testing.T, namespace, env string) *changes {
	t.Helper()
	c := &changes{}
	all := informers.NewSharedInformerFactory(client, 0)
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace)).Core().V1().Pods().Informer()
	nodes, leases := all.Core().V1().Nodes().Informer(), all.Coordination().V1().Leases().Informer()
	var group sync.WaitGroup
	stop := make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		group.Wait()
	})
	for _, informer := range []cache.SharedIndexInformer{pods, nodes, leases} {
		handle := cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(object any, initial bool) { c.note(env, nil, object, initial) },
			UpdateFunc: func(before, after any) { c.note(env, before, after, false) },
			DeleteFunc: func(object any) { c.note(env, object, nil, false) },
		}
		registration, err := informer.AddEventHandler(handle)
		must(t, err)
		group.Go(func() { informer.Run(stop) })
		if !cache.WaitForCacheSync(t.Context().Done(), registration.HasSynced) {
			t.Fatal("the watch has not begun")
		}
	}
	return c
}

func (c *changes) note(env string, before, after any, initial bool) {
	of, is := describe(env, before), describe(env, after)
	if initial || cmp.Equal(of, is) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf("%s (-before +after):\n%s", nameOf(before, after), cmp.Diff(of, is)))
}

func nameOf(objects ...any) string {
	for _, object := range objects {
		if o, ok := object.(metav1.Object); ok {
			return fmt.Sprintf("%T %s", object, o.GetName())
		}
	}
	return "object that the watch has missed"
}

// describe returns the fields of an object that must not change, or nil for an object of another environment.
func describe(env string, object any) any {
	switch o := object.(type) {
	case *corev1.Pod:
		o = o.DeepCopy()
		o.ResourceVersion, o.ManagedFields = "", nil
		return o
	case *corev1.Node:
		if o.Labels[labels.Env] != env {
			return nil
		}
		o = o.DeepCopy()
		o.ResourceVersion, o.ManagedFields = "", nil
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
		}
		return o
	case *coordinationv1.Lease:
		if o.Labels[labels.Env] != env && o.Name != labels.PeerLeasePrefix+env {
			return nil
		}
		return map[string]any{
			"uid": o.UID, "labels": o.Labels, "holder": ptr.Deref(o.Spec.HolderIdentity, ""), "transitions": ptr.Deref(o.Spec.LeaseTransitions, 0),
			"duration": ptr.Deref(o.Spec.LeaseDurationSeconds, 0), "owners": o.OwnerReferences,
		}
	}
	return nil
}

func (c *changes) none(t *testing.T, when string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) > 0 {
		t.Errorf("%s there are %d changes, the first ones:\n%s", when, len(c.list), strings.Join(c.list[:min(3, len(c.list))], "\n"))
	}
	c.list = nil
}

// inventory returns resource, namespace, name and UID of every object of the cluster, Events excepted.
func inventory(ctx context.Context) (map[string]string, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if r.Name == "events" || !slices.Contains(r.Verbs, "list") {
				continue
			}
			items, err := objects.Resource(group.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", r.Name, err)
			}
			for _, item := range items.Items {
				found[r.Name+" "+item.Namespace+"/"+item.Name] = string(item.UID)
			}
		}
	}
	return found, nil
}

// sameInventory waits until the cluster has the objects of an earlier inventory again, and no others.
func sameInventory(t *testing.T, before map[string]string) {
	t.Helper()
	eventually(t, "the cluster has the same objects as before", func(ctx context.Context) error {
		now, err := inventory(ctx)
		if err == nil && !maps.Equal(before, now) {
			err = fmt.Errorf("objects (-before +now):\n%s", cmp.Diff(before, now))
		}
		return err
	})
}
