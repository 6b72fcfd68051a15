package controller

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// soakAPI is a fake Kubernetes API with optimistic concurrency, UIDs, and watches that respect label selectors.
type soakAPI struct {
	*fake.Clientset
	watches sync.Map
}

// end drains the result channels of the watches, because a stopped watch.Filter blocks until its results are read.
func (a *soakAPI) end() {
	a.watches.Range(func(key, _ any) bool {
		one := key.(watch.Interface)
		one.Stop()
		for range one.ResultChan() {
		}
		return true
	})
}

// newSoakAPI returns a fake Kubernetes API whose objects have resource versions and UIDs, and whose watches respect
// label selectors.
func newSoakAPI() *soakAPI {
	watch.DefaultChanSize = 1 << 16 // a fake watch panics if 100 events are not read
	// NewClientset takes a minute for managed fields.
	api := &soakAPI{Clientset: fake.NewSimpleClientset()} //nolint:staticcheck // see above
	var version atomic.Int64
	stamp := func(o runtime.Object) (runtime.Object, error) {
		m, err := meta.Accessor(o)
		if err == nil {
			m.SetResourceVersion(strconv.FormatInt(version.Add(1), 10))
		}
		return o, err
	}
	api.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o, err := stamp(a.(clienttesting.CreateAction).GetObject())
		if m, is := o.(interface{ SetUID(types.UID) }); is {
			m.SetUID(types.UID("uid-" + strconv.FormatInt(version.Load(), 10)))
		}
		return err != nil, nil, err
	})
	api.PrependReactor("update", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		u := a.(clienttesting.UpdateAction)
		m, err := meta.Accessor(u.GetObject())
		if err != nil {
			return true, nil, err
		}
		stored, err := api.Tracker().Get(a.GetResource(), a.GetNamespace(), m.GetName())
		if err != nil {
			return true, nil, err
		}
		if s, err := meta.Accessor(stored); err != nil || s.GetResourceVersion() != m.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), m.GetName(),
				errors.New("the object has been modified"))
		}
		_, err = stamp(u.GetObject())
		return err != nil, nil, err
	})
	api.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		all, err := api.Tracker().Watch(a.GetResource(), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		selected := a.(clienttesting.WatchAction).GetWatchRestrictions().Labels
		one := watch.Filter(all, func(e watch.Event) (watch.Event, bool) {
			m, err := meta.Accessor(e.Object)
			return e, err == nil && (selected == nil || selected.Matches(k8slabels.Set(m.GetLabels())))
		})
		api.watches.Store(one, true)
		return true, one, nil
	})
	return api
}
