package peer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/work"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// fieldManager is the field manager that owns spec.replicas of a Deployment.
const fieldManager = "module-controller"

// allDeployments is the queue key for all peer Deployments.
var allDeployments = types.NamespacedName{}

// leadership is a period of leadership of this controller.
type leadership struct {
	o       Options
	queue   *work.Queue[types.NamespacedName]
	patched map[types.NamespacedName]time.Time // time of the last patch of each Deployment; only the worker uses it
}

// lead sets the replicas until ctx is done or lost is closed. It starts with all existing Deployments, because
// informers report them as additions to new handlers.
func (c *Controller) lead(ctx context.Context, lost <-chan struct{}) error {
	ctx, done := context.WithCancel(ctx)
	t := &leadership{o: c.o, patched: map[types.NamespacedName]time.Time{}}
	t.queue = work.New(work.Options[types.NamespacedName]{
		Do: t.reconcile, Workers: 1, MinDelay: c.o.TimeScale.Of(firstPause), MaxDelay: c.o.TimeScale.Of(lastPause),
		Message: "could not set the replicas of a peer Deployment",
		Attrs:   func(key types.NamespacedName) []any { return []any{"deployment", key.String()} }, Logger: c.o.Logger,
	})
	var running sync.WaitGroup
	running.Go(func() { t.queue.Run(ctx) })
	defer running.Wait()
	defer done()

	nodes := c.o.Nodes.Informer()
	onNodes, err := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { t.nodeChanged(nil, object) },
		UpdateFunc: t.nodeChanged,
		DeleteFunc: func(object any) { t.nodeChanged(object, nil) },
	})
	if err != nil {
		return fmt.Errorf("watching Nodes: %w", err)
	}
	defer func() { _ = nodes.RemoveEventHandler(onNodes) }()

	deployments := c.o.Deployments.Informer()
	onDeployments, err := deployments.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { t.deploymentChanged(nil, object) },
		UpdateFunc: t.deploymentChanged,
	})
	if err != nil {
		return fmt.Errorf("watching Deployments: %w", err)
	}
	defer func() { _ = deployments.RemoveEventHandler(onDeployments) }()

	select {
	case <-ctx.Done():
	case <-lost:
	}
	return nil
}

// nodeChanged queues all Deployments if a change of a base may affect their replicas.
func (t *leadership) nodeChanged(oldObj, newObj any) {
	a, b := asBase(oldObj), asBase(newObj)
	if a == nil && b == nil {
		return
	}
	if a != nil && b != nil && isReady(a) == isReady(b) && a.Spec.Unschedulable == b.Spec.Unschedulable &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) {
		return
	}
	t.queue.AddAfter(allDeployments, t.o.TimeScale.Of(debounce))
}

// asBase returns the Node in an informer event if the Node represents a base. Otherwise, it returns nil.
func asBase(object any) *corev1.Node {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	if node, ok := object.(*corev1.Node); ok && workload.IsBase(node) {
		return node
	}
	return nil
}

// deploymentChanged queues a Deployment if its specification or labels have changed.
func (t *leadership) deploymentChanged(oldObj, newObj any) {
	now, ok := newObj.(*appsv1.Deployment)
	if !ok || !t.controls(now) {
		return
	}
	if was, ok := oldObj.(*appsv1.Deployment); ok && was.Generation == now.Generation &&
		maps.Equal(was.Labels, now.Labels) {
		return
	}
	t.queue.Add(types.NamespacedName{Namespace: now.Namespace, Name: now.Name})
}

// controls reports whether this controller sets the replicas of a Deployment.
func (t *leadership) controls(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp == nil && workload.IsPeer(d, t.o.Env) && !workload.KeepsReplicas(d)
}

func (t *leadership) enqueueAll() error {
	deployments, err := t.o.Deployments.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing Deployments: %w", err)
	}
	for _, d := range deployments {
		if t.controls(d) {
			t.queue.Add(types.NamespacedName{Namespace: d.Namespace, Name: d.Name})
		}
	}
	return nil
}

// reconcile sets the replicas of a Deployment. It returns the delay before the next call; 0 means that no call is
// needed until the next change.
func (t *leadership) reconcile(ctx context.Context, key types.NamespacedName) (requeueAfter time.Duration, err error) {
	if key == allDeployments {
		return 0, t.enqueueAll()
	}
	d, err := t.o.Deployments.Lister().Deployments(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		delete(t.patched, key)
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	if !t.controls(d) {
		return 0, nil
	}
	nodes, err := t.o.Nodes.Lister().List(labels.Everything())
	if err != nil {
		return 0, fmt.Errorf("listing Nodes: %w", err)
	}
	have := ptr.Deref(d.Spec.Replicas, 1)
	want, requeueAfter := bases{
		placement: workload.NewPlacement(d.Spec.Template.Spec, t.o.AddTolerationFor),
		nodes:     nodes,
		runs: func(node *corev1.Node) bool {
			return slices.ContainsFunc(t.o.Pods(node.Name), func(pod *corev1.Pod) bool {
				return isCurrentPodOf(pod,
					d)
			})
		},
	}.replicas(have, time.Now(), t.o.Grace)
	if want == have {
		return requeueAfter, nil
	}
	// The Deployment is queued again after each patch.
	if early := t.o.TimeScale.Of(debounce) - time.Since(t.patched[key]); early > 0 {
		return early, nil
	}

	change := ReplicaChange{Namespace: key.Namespace, Name: key.Name, From: have, To: want}
	change.Err = t.scale(ctx, key, want)
	if apierrors.IsNotFound(change.Err) {
		return 0, nil
	}
	if ctx.Err() == nil {
		t.o.Changed(change)
	}
	if change.Err == nil {
		t.patched[key] = time.Now()
		t.o.Logger.InfoContext(ctx, "set the replicas of a peer Deployment", "deployment", key.String(), "from", have,
			"to", want)
	}
	return requeueAfter, change.Err
}

func (t *leadership) scale(ctx context.Context, key types.NamespacedName, want int32) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, want)
	_, err := t.o.Client.AppsV1().Deployments(key.Namespace).Patch(ctx, key.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager}, "scale")
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return errcode.Wrap(errcode.OtherUpstreamSecretAKError, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return errcode.Wrap(errcode.ModuleControllerRescaleRequirementNotMet, err)
	}
	return errcode.Wrap(errcode.ModuleControllerDBAccessError, err)
}
