package moduleview

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/internal/work"
)

// pods is where the view sees module Pods; internal/vpod's Informer is one.
type pods interface {
	// Observe calls changed for every event of a module Pod. It is called once.
	Observe(changed func(*corev1.Pod)) error
	Get(name types.NamespacedName) (*corev1.Pod, bool)
	On(nodeName string) []*corev1.Pod
	HasSynced() bool
}

// Options says what to show. Client, Pods, Nodes and Logger are required.
type Options struct {
	// Client reads and writes Modules.
	Client dynamic.Interface
	// Pods are the module Pods of the cluster; the caller runs them.
	Pods pods
	// Nodes finds the host names of bases.
	Nodes corelisters.NodeLister
	// Mine says whether this controller shows the Pods of a Node; the empty name is that of Pods
	// that are not scheduled, and one controller of the environment should show them. Call Resync
	// when it begins to be true of a Node. It must not block. Default: all are.
	Mine func(nodeName string) bool
	// Records returns what the base has reported of a module, oldest first. It must not block.
	// Default: nothing.
	Records func(nodeName, module, version string) []Record
	// WritesPerSecond limits the writes. Default: 100.
	WritesPerSecond int
	// Logger gets a line when the view cannot be kept.
	Logger *slog.Logger
}

// gather is how long changes of a Pod are gathered before its Modules follow. A module that begins
// to serve is shown at once: whoever waited for a rollout looks right after it.
const gather = 500 * time.Millisecond

// retryDelay is the delay before the first attempt to write a Module again.
const retryDelay = time.Second

// View keeps Modules. Make it with New.
type View struct {
	o       Options
	queue   *work.Queue[types.NamespacedName]
	modules cache.SharedIndexInformer // of *Module
	limit   *rate.Limiter
	missing sync.Once // the definition of Module is
}

// New returns a View.
func New(o Options) *View {
	if o.Mine == nil {
		o.Mine = func(string) bool { return true }
	}
	if o.Records == nil {
		o.Records = func(string, string, string) []Record { return nil }
	}
	o.WritesPerSecond = cmp.Or(o.WritesPerSecond, 100)
	v := &View{
		o:       o,
		modules: dynamicinformer.NewFilteredDynamicInformer(o.Client, Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		limit:   rate.NewLimiter(rate.Limit(o.WritesPerSecond), o.WritesPerSecond),
	}
	v.queue = work.New(work.Options[types.NamespacedName]{
		Do: v.reconcile, Workers: 1, MinDelay: retryDelay, MaxDelay: time.Minute,
		Message: "showing modules failed", Attrs: func(pod types.NamespacedName) []any { return []any{"pod", pod.String()} }, Logger: o.Logger,
	})
	return v
}

// Start keeps Modules until ctx is done, and returns nil. While the cluster does not know Modules
// it says so once and waits. An error means that the view could not begin to watch. Call it once.
func (v *View) Start(ctx context.Context) error {
	if err := v.watch(ctx); err != nil {
		return fmt.Errorf("keeping the view of modules: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { v.modules.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), v.o.Pods.HasSynced, v.modules.HasSynced) // or until ctx is done
	v.queue.Run(ctx)
	return nil
}

// Resync looks at the Pods of a Node again. It does not block.
func (v *View) Resync(nodeName string) {
	for _, pod := range v.o.Pods.On(nodeName) {
		v.enqueue(pod)
	}
}

// watch has Pods and Modules fill the queue.
func (v *View) watch(ctx context.Context) error {
	if err := v.modules.SetTransform(typed); err != nil {
		return err
	}
	err := v.modules.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			v.missing.Do(func() {
				v.o.Logger.WarnContext(ctx, "the cluster knows no modules.koupleless.io, so kubectl get module shows nothing: apply controller/deploy/crd.yaml")
			})
			return
		}
		v.o.Logger.DebugContext(ctx, "watching Modules failed", "err", err)
	})
	if err != nil {
		return err
	}
	// Somebody else's change of a Module is set right as soon as it is seen.
	changed := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if m, ok := object.(*Module); ok && len(m.OwnerReferences) > 0 {
			v.queue.AddAfter(types.NamespacedName{Namespace: m.Namespace, Name: m.OwnerReferences[0].Name}, gather)
		}
	}
	if _, err := v.modules.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: changed,
	}); err != nil {
		return err
	}
	v.o.Logger.DebugContext(ctx, "keeping the view of modules")
	return v.o.Pods.Observe(v.enqueue)
}

func (v *View) enqueue(pod *corev1.Pod) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if v.o.Mine(pod.Spec.NodeName) && v.serves(pod) {
		v.queue.Add(key)
		return
	}
	v.queue.AddAfter(key, gather)
}

// serves reports whether a module of a Pod is ready and not shown as such.
func (v *View) serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		shown, there, _ := v.modules.GetStore().GetByKey(pod.Namespace + "/" + nameOf(pod, c.Name)) // a cache gives no error
		return c.Ready && (!there || shown.(*Module).Status.Status != Available)
	})
}

// typed turns what the dynamic client brings into a Module, which takes a third of the memory.
func typed(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	m := &Module{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m); err != nil {
		return nil, fmt.Errorf("reading Module %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	m.ManagedFields = nil
	return m, nil
}
