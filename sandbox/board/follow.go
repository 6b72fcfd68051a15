package board

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/labels"
)

type object interface {
	runtime.Object
	metav1.Object
}

// follower watches objects in the Kubernetes API and adds them to a boardState.
type follower struct {
	state   *boardState
	client  kubernetes.Interface
	now     func() time.Time
	slices  map[string]map[types.UID]*discoveryv1.EndpointSlice // by namespace/name of the Service, then by UID
	watches sync.WaitGroup
}

// client is the part of the typed Kubernetes clients that follow needs.
type client[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// follow waits until known is closed, then watches Nodes and, once it has read them, all other objects, until ctx is
// done. If a list or watch fails, it shows a notice and retries.
func (f *follower) follow(ctx context.Context, known <-chan struct{}) {
	defer f.watches.Wait()
	f.slices = map[string]map[types.UID]*discoveryv1.EndpointSlice{}
	select {
	case <-known:
	case <-ctx.Done():
		return
	}
	w := f.state
	nodes := start(ctx, f, "Nodes", f.client.CoreV1().Nodes(), labels.Component+"="+labels.Vnode,
		func(o *corev1.Node, gone bool) { w.nodeChanged(o, gone, f.now()) })
	if !await(ctx, nodes) {
		return
	}
	apps := f.client.AppsV1()
	told := func(o *corev1.Pod, gone bool) { w.podChanged(o, gone, f.now()) }
	all := []<-chan struct{}{
		start(ctx, f, "Deployments", apps.Deployments(""), "", func(o *appsv1.Deployment, gone bool) {
			w.workloadChanged(deploymentRow(o), isModule(o.Spec.Template), gone)
		}),
		start(ctx, f, "DaemonSets", apps.DaemonSets(""), "", func(o *appsv1.DaemonSet, gone bool) {
			w.workloadChanged(daemonSetRow(o), isModule(o.Spec.Template), gone)
		}),
		start(ctx, f, "StatefulSets", apps.StatefulSets(""), "", func(o *appsv1.StatefulSet, gone bool) {
			w.workloadChanged(statefulSetRow(o), isModule(o.Spec.Template), gone)
		}),
		start(ctx, f, "ReplicaSets", apps.ReplicaSets(""), "", func(o *appsv1.ReplicaSet, gone bool) {
			w.revisionChanged(o.Name, replicaSetRevision(o), isModule(o.Spec.Template), gone)
		}),
		start(ctx, f, "ControllerRevisions", apps.ControllerRevisions(""), "",
			func(o *appsv1.ControllerRevision, gone bool) {
				t := templateOf(o)
				w.revisionChanged(o.Name, controllerRevision(o, t), isModule(t), gone)
			}),
		// A Pod has one of the two spellings of the label, never both.
		start(ctx, f, "Pods", f.client.CoreV1().Pods(""), labels.Component+"="+labels.Module, told),
		start(ctx, f, "Pods", f.client.CoreV1().Pods(""),
			labels.OlderComponent+"="+labels.Module+","+labels.Component+"!="+labels.Module, told),
		start(ctx, f, "EndpointSlices", f.client.DiscoveryV1().EndpointSlices(""), "", f.slice),
	}
	if w.noDaemon {
		all = append(all, start(ctx, f, "Leases of controllers", f.client.CoordinationV1().Leases(""),
			labels.Component+"="+labels.ControllerLease,
			func(o *coordinationv1.Lease, gone bool) { w.leaseChanged(o, gone, f.now()) }))
	}
	if !await(ctx, all...) {
		return
	}
	// Events refer to objects that are known at this point.
	start(ctx, f, "Events", f.client.CoreV1().Events(""), "", func(o *corev1.Event, gone bool) {
		if !gone {
			w.eventChanged(o)
		}
	})
	w.endInitialEvents()
	<-ctx.Done()
}

// await reports whether all channels were closed before ctx was done.
func await(ctx context.Context, all ...<-chan struct{}) bool {
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// start watches the objects of one kind in the background. It returns a channel that is closed when the existing
// objects have been read or cannot be read.
func start[T object, L runtime.Object](ctx context.Context, f *follower, what string, c client[L], selector string,
	changed func(T, bool)) <-chan struct{} {
	filled := make(chan struct{})
	fill := sync.OnceFunc(func() { close(filled) })
	about := what + selector
	options := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector = selector
		return o
	}
	failed := func(err error) {
		if err == nil || ctx.Err() != nil {
			f.state.notice(about, "", f.now())
			return
		}
		f.state.notice(about, readErrorText(what, err), f.now())
		fill()
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := c.List(ctx, options(o))
			failed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := c.Watch(ctx, options(o))
			if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) { // then it lists again
				failed(err)
			}
			return w, err
		},
	}
	var example T
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(lw, f.client), ObjectType: example,
		Transform: func(o any) (any, error) {
			if m, ok := o.(metav1.Object); ok {
				m.SetManagedFields(nil)
			}
			return o, nil
		},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { changed(o.(T), false) },
			UpdateFunc: func(before, after any) {
				old, o := before.(T), after.(T)
				if old.GetUID() != o.GetUID() {
					changed(old, true)
				}
				if old.GetResourceVersion() != o.GetResourceVersion() {
					changed(o, false)
				}
			},
			DeleteFunc: func(o any) {
				if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = unknown.Obj
				}
				changed(o.(T), true)
			},
		},
	})
	f.watches.Go(func() { informer.RunWithContext(ctx) })
	f.watches.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			fill()
		}
	})
	return filled
}

func readErrorText(what string, err error) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return what + " are not shown: the board has no permission to read them"
	case errors.Is(err, context.DeadlineExceeded):
		return what + " are not shown: the Kubernetes API server did not answer in time"
	}
	return fmt.Sprintf("%s may be out of date: %s", what, err)
}

// slice updates the endpoints of the Service to which an EndpointSlice belongs.
func (f *follower) slice(o *discoveryv1.EndpointSlice, gone bool) {
	service := o.Labels[discoveryv1.LabelServiceName]
	key := o.Namespace + "/" + service
	if f.slices[key] == nil {
		f.slices[key] = map[types.UID]*discoveryv1.EndpointSlice{}
	}
	if gone {
		delete(f.slices[key], o.UID)
	} else {
		f.slices[key][o.UID] = o
	}
	all := make([]*discoveryv1.EndpointSlice, 0, len(f.slices[key]))
	for _, s := range f.slices[key] {
		all = append(all, s)
	}
	f.state.endpointsChanged(o.Namespace, service, all, f.now())
}
