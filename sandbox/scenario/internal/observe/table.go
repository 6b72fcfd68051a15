package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// Subject selects the objects that a watch observes: a resource, a namespace (empty for all namespaces and for
// cluster-scoped objects), and a label selector (empty for all objects).
type Subject struct {
	Resource            schema.GroupVersionResource
	Namespace, Selector string
}

// table contains the objects of a subject. It is the store of a reflector, which calls the table's methods in the
// order of the watch events.
type table struct {
	w       *Recorder
	subject Subject
	topic   string
	objects map[string]*unstructured.Unstructured // objects by name
	deleted map[string]*unstructured.Unstructured // last states of deleted objects, by name
	version uint64                                // newest resource version so far
	listing bool                                  // true while a list is being applied
	filled  bool
	synced  chan struct{} // closed when filled is set
}

// Follow watches the objects of a subject while Start is running, and blocks until the existing objects are listed.
// ctx limits only this wait. Further calls for the same subject share the watch.
func (w *Recorder) Follow(ctx context.Context, s Subject) error {
	t := w.table(s)
	select {
	case <-t.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("listing %s: %w", s.Resource.Resource, context.Cause(ctx))
	}
}

// table returns the table of a subject. It creates the table and its reflector on the first call.
func (w *Recorder) table(s Subject) *table {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t, known := w.tables[s]; known {
		return t
	}
	t := &table{w: w, subject: s, topic: topics[s.Resource.GroupResource()],
		objects: map[string]*unstructured.Unstructured{}, deleted: map[string]*unstructured.Unstructured{},
		synced: make(chan struct{})}
	w.tables[s] = t
	reflector := cache.NewReflectorWithOptions(listWatch(w.o.Client, s), &unstructured.Unstructured{}, t,
		cache.ReflectorOptions{Name: "scenario", TypeDescription: s.Resource.Resource})
	if w.startReflector == nil {
		w.unstarted = append(w.unstarted, reflector)
	} else {
		w.startReflector(reflector)
	}
	return t
}

func apiOf(client dynamic.Interface, s Subject) dynamic.ResourceInterface {
	if s.Namespace != "" {
		return client.Resource(s.Resource).Namespace(s.Namespace)
	}
	return client.Resource(s.Resource)
}

func listWatch(client dynamic.Interface, s Subject) cache.ListerWatcher {
	api := apiOf(client, s)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = s.Selector
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = s.Selector
			return api.Watch(ctx, o)
		},
	}, client)
}

// WaitForVersion blocks until the watch of a subject has delivered the resource version of o, or a later one. It
// returns immediately if the subject is not watched.
func (w *Recorder) WaitForVersion(ctx context.Context, s Subject, o *unstructured.Unstructured) error {
	version := versionOf(o)
	return w.WaitUntil(ctx, func(v Snapshot) (bool, error) {
		t := v.w.tables[s]
		if t == nil {
			return true, nil // the subject is not watched
		}
		held, exists := t.objects[o.GetName()]
		if !exists {
			held = t.deleted[o.GetName()]
		}
		return held != nil && versionOf(held) >= version || t.filled && t.version >= version, nil
	})
}

// CatchUpAll calls CatchUp for all watched subjects.
func (w *Recorder) CatchUpAll(ctx context.Context) error {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.tables))
	w.mu.Unlock()
	for _, s := range all {
		if err := w.CatchUp(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoList is the error that CatchUp returns if the API cannot list objects.
var ErrNoList = errors.New("cannot list objects")

// CatchUp blocks until the watch of a subject has delivered all objects that the API contains when CatchUp is called.
// Watches of different resources are not synchronized: the status of a workload may be complete before the last event
// of its Pods arrives. CatchUp returns ErrNoList if the API cannot list the objects. It returns nil immediately if
// the subject is not watched.
func (w *Recorder) CatchUp(ctx context.Context, s Subject) error {
	w.mu.Lock()
	t := w.tables[s]
	w.mu.Unlock()
	if t == nil {
		return nil
	}
	all, at, err := w.listObjects(ctx, s)
	if err != nil {
		return fmt.Errorf("%w of resource %s: %w", ErrNoList, s.Resource.Resource, err)
	}
	listed := map[string]bool{}
	for _, o := range all {
		listed[o.GetName()] = true
		if err := w.WaitForVersion(ctx, s, o); err != nil {
			return err
		}
	}
	return w.WaitUntil(ctx, func(Snapshot) (bool, error) { // objects that were deleted before the list
		for name, o := range t.objects {
			if !listed[name] && versionOf(o) <= at {
				return false, nil
			}
		}
		return true, nil
	})
}

// listObjects returns the objects of a subject and the resource version of the list. It requests the list in pages,
// because a busy API server takes a long time to list 10,000 Pods.
func (w *Recorder) listObjects(ctx context.Context, s Subject) (all []*unstructured.Unstructured, at uint64,
	err error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		list, err := apiOf(w.o.Client, s).List(asking, o)
		if err != nil {
			return nil, err
		}
		at = numberOf(list.GetResourceVersion()) // the same for every page
		return list, nil
	})
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: s.Selector}, func(o runtime.Object) error {
		all = append(all, o.(*unstructured.Unstructured))
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return all, at, nil
}

// versionOf returns the resource version of an object, which increases with each write to the API.
func versionOf(o *unstructured.Unstructured) uint64 { return numberOf(o.GetResourceVersion()) }

func numberOf(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Objects returns the objects of a subject with the given name, sorted by name. If the name is empty, it returns the
// objects with the given labels. ever reports whether a matching object exists or has existed.
func (v Snapshot) Objects(s Subject, name string, with map[string]string) (found []*unstructured.Unstructured,
	ever bool) {
	t := v.w.tables[s]
	if t == nil {
		return nil, false
	}
	selector := labels.SelectorFromSet(with)
	matches := func(o *unstructured.Unstructured) bool {
		if name != "" {
			return o.GetName() == name
		}
		return selector.Matches(labels.Set(o.GetLabels()))
	}
	for _, key := range slices.Sorted(maps.Keys(t.objects)) {
		if o := t.objects[key]; matches(o) {
			found = append(found, o)
		}
	}
	ever = len(found) > 0
	for _, o := range t.deleted {
		ever = ever || matches(o)
	}
	return found, ever
}

// Add implements cache.Store. It stores a new object.
func (t *table) Add(o any) error { return t.set(o) }

// Update implements cache.Store. It stores a changed object.
func (t *table) Update(o any) error { return t.set(o) }

func (t *table) object(o any) (*unstructured.Unstructured, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("watching %s: unexpected type %T", t.subject.Resource.Resource, o)
	}
	return u, nil
}

func (t *table) set(o any) error {
	u, err := t.object(o)
	if err != nil {
		return err
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.put(u)
	return nil
}

// put stores an object. The mutex of the Recorder must be held.
func (t *table) put(u *unstructured.Unstructured) {
	before := t.objects[u.GetName()]
	if before != nil && before.GetUID() == u.GetUID() && u.GetResourceVersion() != "" &&
		before.GetResourceVersion() == u.GetResourceVersion() {
		return // the watch has delivered this version before the list
	}
	if before != nil && before.GetUID() != u.GetUID() { // the deletion was not observed
		t.remove(before)
	}
	t.objects[u.GetName()] = u
	t.version = max(t.version, versionOf(u))
	t.w.notifyWatchers(t.topic, t.w.record(t.subject.Resource, u, false, t.listing))
}

// Delete implements cache.Store. It removes a deleted object.
func (t *table) Delete(o any) error {
	u, err := t.object(o)
	if err != nil {
		return err
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.version = max(t.version, versionOf(u))
	if _, exists := t.objects[u.GetName()]; exists {
		t.remove(u)
	}
	return nil
}

// remove removes an object. The mutex of the Recorder must be held.
func (t *table) remove(u *unstructured.Unstructured) {
	delete(t.objects, u.GetName())
	t.deleted[u.GetName()] = u
	t.w.notifyWatchers(t.topic, t.w.record(t.subject.Resource, u, true, t.listing))
}

// Replace implements cache.Store. It replaces all objects with the result of a list. The reflector calls Replace when
// it starts, and again after its watch was interrupted.
func (t *table) Replace(list []any, version string) error {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.listing = true
	defer func() { t.listing = false }()
	left := maps.Clone(t.objects)
	objects := make([]*unstructured.Unstructured, len(list))
	for i, o := range list {
		u, err := t.object(o)
		if err != nil {
			return err
		}
		objects[i] = u
		delete(left, u.GetName())
	}
	for _, u := range left {
		t.remove(u)
	}
	slices.SortStableFunc(objects, t.compareListed)
	for _, u := range objects {
		t.put(u)
	}
	t.version = max(t.version, numberOf(version))
	if !t.filled {
		t.filled = true
		close(t.synced)
	}
	t.w.notifyWatchers("", t.subject.Resource.Resource+" were listed")
	return nil
}

// compareListed defines the order in which the changes in a list are recorded, because their actual order is unknown.
// Pods that are Not Ready come first. Otherwise, Pods that were Ready one after the other could appear to be Ready at
// the same time.
func (t *table) compareListed(a, b *unstructured.Unstructured) int {
	if t.subject.Resource == Pods && isReady(a) != isReady(b) {
		if isReady(b) {
			return -1
		}
		return 1
	}
	return cmp.Compare(versionOf(a), versionOf(b))
}

// Resync implements cache.Store. It does nothing.
func (t *table) Resync() error { return nil }
