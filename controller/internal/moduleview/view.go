// Package moduleview writes the Module objects that `kubectl get module` shows (Module Controller V2 document 5.5): one
// object for each module container of a Pod, with the state of the module on its base. The Pod owns its Module objects,
// so that the garbage collector of Kubernetes deletes them.
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

// pods is the cache of all module Pods in the cluster. vpod.Informer implements it.
type pods interface {
	// Observe registers a callback that is called for every event of a module Pod.
	Observe(changed func(*corev1.Pod)) error
	Get(name types.NamespacedName) (*corev1.Pod, bool)
	PodsOnNode(nodeName string) []*corev1.Pod
	HasSynced() bool
}

// Options configure a Syncer. All fields are required.
type Options struct {
	Client dynamic.Interface
	// Pods is the cache of the module Pods in the cluster. The caller starts the watch that fills the cache.
	Pods pods
	// Nodes lists the Nodes of bases. A label of each Node contains the host name of the base.
	Nodes corelisters.NodeLister
	// Owns reports whether this controller writes the Module objects for the Pods of a Node. The empty name stands
	// for unscheduled Pods, which only one controller of an environment should own. Call Resync when the result for a
	// Node changes to true. Owns must not block.
	Owns func(nodeName string) bool
	// Records returns the states that the base has reported for a module, the oldest state first. It must not block.
	Records func(nodeName, module, version string) []Record
	Logger  *slog.Logger
}

const (
	// batchDelay is how long changes of a Pod are collected before they are written. A module that becomes Ready is
	// written immediately, so that the Module objects are up to date when a rollout completes.
	batchDelay = 500 * time.Millisecond
	// retryDelay is the delay before the first retry of a failed write.
	retryDelay = time.Second
	// writesPerSecond is the maximum number of writes per second.
	writesPerSecond = 100
)

// Syncer keeps Module objects in sync with module Pods. Create it with New.
type Syncer struct {
	o       Options
	queue   *work.Queue[types.NamespacedName]
	modules cache.SharedIndexInformer // informer of *Module objects
	limit   *rate.Limiter
	missing sync.Once // ensures that a missing CustomResourceDefinition is logged only once
}

// New returns a Syncer. It does not read or write objects before Start is called.
func New(o Options) *Syncer {
	v := &Syncer{
		o: o,
		modules: dynamicinformer.NewFilteredDynamicInformer(o.Client, Resource, metav1.NamespaceAll, 0,
			cache.Indexers{}, nil).Informer(),
		limit: rate.NewLimiter(writesPerSecond, writesPerSecond),
	}
	v.queue = work.New(work.Options[types.NamespacedName]{
		Do: v.reconcile, Workers: 1, MinDelay: retryDelay, MaxDelay: time.Minute,
		Message: "could not write the Module objects of a Pod",
		Attrs:   func(pod types.NamespacedName) []any { return []any{"pod", pod.String()} }, Logger: o.Logger,
	})
	return v
}

// Start writes Module objects until ctx is done, and returns nil. If the cluster lacks the CustomResourceDefinition,
// Start logs a warning and waits until it exists. Call Start once.
func (v *Syncer) Start(ctx context.Context) error {
	if err := v.registerHandlers(); err != nil {
		return fmt.Errorf("watching Pods and Modules: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { v.modules.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), v.o.Pods.HasSynced, v.modules.HasSynced)
	v.queue.Run(ctx)
	return nil
}

// Resync queues the Pods of a Node for reconciliation. It does not block.
func (v *Syncer) Resync(nodeName string) {
	for _, pod := range v.o.Pods.PodsOnNode(nodeName) {
		v.enqueue(pod)
	}
}

func (v *Syncer) registerHandlers() error {
	if err := v.modules.SetTransform(toModule); err != nil {
		return err
	}
	err := v.modules.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) {
			v.missing.Do(func() {
				v.o.Logger.WarnContext(ctx,
					"the cluster does not have the CustomResourceDefinition modules.koupleless.io, so "+
						"kubectl get module "+
						"shows nothing; apply controller/deploy/crd.yaml")
			})
			return
		}
		v.o.Logger.DebugContext(ctx, "could not watch Modules", "err", err)
	})
	if err != nil {
		return err
	}
	changed := func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if m, ok := object.(*Module); ok && len(m.OwnerReferences) > 0 {
			v.queue.AddAfter(types.NamespacedName{Namespace: m.Namespace, Name: m.OwnerReferences[0].Name}, batchDelay)
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
	if v.o.Owns(pod.Spec.NodeName) && v.needsUpdate(pod) {
		v.queue.Add(key)
		return
	}
	v.queue.AddAfter(key, batchDelay)
}

// needsUpdate reports whether a container of a Pod is Ready but its Module object does not show this yet.
func (v *Syncer) needsUpdate(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			// an in-memory cache returns no error
			shown, exists, _ := v.modules.GetStore().GetByKey(pod.Namespace + "/" + nameOf(pod, c.Name))
			return c.Ready && (!exists || shown.(*Module).Status.Status != Available)
		})
}

// toModule converts an object from the dynamic client to a Module, which uses less memory.
func toModule(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	m := &Module{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, m); err != nil {
		return nil, fmt.Errorf("decoding Module %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	m.ManagedFields = nil
	return m, nil
}
