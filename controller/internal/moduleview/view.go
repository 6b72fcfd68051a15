// Package moduleview keeps the resource behind `kubectl get module` (Module Controller V2 document
// 5.5): one Module for each container of a module Pod, with the state of the module on its base.
// A Pod owns its Modules, so the garbage collector of Kubernetes deletes them.
package moduleview

import (
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

// pods are the module Pods of the cluster, as vpod.Informer has them.
type pods interface {
	// Observe calls changed for every event of a module Pod.
	Observe(changed func(*corev1.Pod)) error
	Get(name types.NamespacedName) (*corev1.Pod, bool)
	PodsOnNode(nodeName string) []*corev1.Pod
	HasSynced() bool
}

// Options configure a View. All are required.
type Options struct {
	Client dynamic.Interface
	// Pods are the module Pods of the cluster. The caller starts their watch.
	Pods pods
	// Nodes has the host names of bases.
	Nodes corelisters.NodeLister
	// Owns reports whether this controller shows the Pods of a Node. The empty name stands for Pods that are not
	// scheduled, which one controller of the environment should show. Call Resync when the result for a Node becomes
	// true. Mine must not block.
	Owns func(nodeName string) bool
	// Records returns the states that the base has reported of a module, oldest first. It must not block.
	Records func(nodeName, module, version string) []Record
	Logger  *slog.Logger
}

const (
	// gather is how long changes of a Pod are collected before they are written. A module that becomes ready is written
	// immediately, for users who have waited for a rollout.
	gather = 500 * time.Millisecond
	// retryDelay is the delay before the first attempt to write a Module again.
	retryDelay = time.Second
	// writesPerSecond is the maximum rate of writes.
	writesPerSecond = 100
)

// Syncer keeps Modules. Make it with New.
type Syncer struct {
	o       Options
	queue   *work.Queue[types.NamespacedName]
	modules cache.SharedIndexInformer // of *Module
	limit   *rate.Limiter
	missing sync.Once // the log has a warning that the cluster does not have the CustomResourceDefinition
}

// New returns a View. It does nothing before Start.
func New(o Options) *Syncer {
	v := &Syncer{
		o: o,
		modules: dynamicinformer.NewFilteredDynamicInformer(o.Client, Resource, metav1.NamespaceAll, 0,
			cache.Indexers{}, nil).Informer(),
		limit: rate.NewLimiter(writesPerSecond, writesPerSecond),
	}
	v.queue = work.New(work.Options[types.NamespacedName]{
		Do: v.reconcile, Workers: 1, MinDelay: retryDelay, MaxDelay: time.Minute,
		Message: "showing modules failed",
		Attrs:   func(pod types.NamespacedName) []any { return []any{"pod", pod.String()} }, Logger: o.Logger,
	})
	return v
}

// Start keeps Modules until ctx is done, and returns nil. If the cluster does not have the CustomResourceDefinition, Start
// logs a warning and waits for it. Call it once.
func (v *Syncer) Start(ctx context.Context) error {
	if err := v.watch(); err != nil {
		return fmt.Errorf("keeping the view of modules: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { v.modules.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), v.o.Pods.HasSynced, v.modules.HasSynced)
	v.queue.Run(ctx)
	return nil
}

// Resync queues the Pods of a Node. It does not block.
func (v *Syncer) Resync(nodeName string) {
	for _, pod := range v.o.Pods.PodsOnNode(nodeName) {
		v.enqueue(pod)
	}
}

func (v *Syncer) watch() error {
	if err := v.modules.SetTransform(typed); err != nil {
		return err
	}
	err := v.modules.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			v.missing.Do(func() {
				v.o.Logger.WarnContext(ctx,
					"the cluster does not have modules.koupleless.io, so kubectl get module shows nothing: apply "+
						"controller/deploy/crd.yaml")
			})
			return
		}
		v.o.Logger.DebugContext(ctx, "watching Modules failed", "err", err)
	})
	if err != nil {
		return err
	}
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
	return v.o.Pods.Observe(v.enqueue)
}

func (v *Syncer) enqueue(pod *corev1.Pod) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if v.o.Owns(pod.Spec.NodeName) && v.serves(pod) {
		v.queue.Add(key)
		return
	}
	v.queue.AddAfter(key, gather)
}

// serves reports whether a container of a Pod is ready while its Module does not show that yet.
func (v *Syncer) serves(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			// a cache gives no error
			shown, there, _ := v.modules.GetStore().GetByKey(pod.Namespace + "/" + nameOf(pod, c.Name))
			return c.Ready && (!there || shown.(*Module).Status.Status != Available)
		})
}

// typed converts an object of the dynamic client to a Module, which takes less memory.
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
