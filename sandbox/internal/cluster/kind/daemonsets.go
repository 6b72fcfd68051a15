package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

const (
	// vnodeLabel is the label that the Nodes of bases bear, with the value vnodeValue; vnodeEffect is that of their taints.
	vnodeLabel  = "virtual-kubelet.koupleless.io/component"
	vnodeValue  = "vnode"
	vnodeEffect = corev1.TaintEffectNoExecute
	// moduleValue of vnodeLabel, or of otherLabel, marks what is meant for bases.
	moduleValue = "module"
	otherLabel  = "module-controller.koupleless.io/component"
	// firstRetry and lastRetry bound the time until an API that refused is asked again.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// warden keeps DaemonSets that tolerate everything off the Nodes of bases, where no kubelet would run their Pods: they would be
// Pending for ever, and no rollout of them would end. A DaemonSet of modules is meant for bases and left alone.
//
// A DaemonSet that comes while bases are there may have Pods on them before it is kept off. Its controller deletes those, but what
// waits for a kubelet to confirm the end waits in vain: the warden takes them out of the API.
//
// A policy in the cluster would do it at admission, and without a daemon; but MutatingAdmissionPolicy is served by default only
// since Kubernetes 1.36, and --k8s-version takes older ones.
type warden struct {
	client kubernetes.Interface
	log    *slog.Logger
	// cleared are the generations of DaemonSets after whose roll-out no Pod is left on a base; used by one goroutine only.
	cleared map[types.UID]int64
}

func newWarden(client kubernetes.Interface, log *slog.Logger) *warden {
	return &warden{client: client, log: log, cleared: map[types.UID]int64{}}
}

// sweep keeps off all DaemonSets that are there.
func (w *warden) sweep(ctx context.Context) error {
	list, err := w.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the DaemonSets of the system: %w", err)
	}
	for _, d := range list.Items {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			current, err := w.client.AppsV1().DaemonSets(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("reading DaemonSet %s/%s: %w", d.Namespace, d.Name, err)
			}
			return w.keepOff(ctx, current)
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// run follows the DaemonSets until ctx ends.
func (w *warden) run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry))
	factory := informers.NewSharedInformerFactory(w.client, 0)
	informer := factory.Apps().V1().DaemonSets().Informer()
	enqueue := func(o any) {
		if name, err := cache.DeletionHandlingObjectToName(o); err == nil {
			queue.Add(name)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, o any) { enqueue(o) }})
	if err != nil { // it has not ended
		w.log.Error("following DaemonSets", "err", err)
		return
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { informer.RunWithContext(ctx) })
	defer context.AfterFunc(ctx, queue.ShutDown)()
	for {
		name, end := queue.Get()
		if end {
			return
		}
		if err := w.look(ctx, informer.GetStore(), name); err != nil && ctx.Err() == nil {
			if !apierrors.IsConflict(err) { // the newer one is on its way
				w.log.Warn("keeping a DaemonSet off the Nodes of bases", "daemonSet", name.String(), "err", err)
			}
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

func (w *warden) look(ctx context.Context, store cache.Store, name cache.ObjectName) error {
	o, found, err := store.GetByKey(name.String())
	if err != nil || !found {
		return err
	}
	d, ok := o.(*appsv1.DaemonSet)
	if !ok {
		return nil
	}
	return w.keepOff(ctx, d.DeepCopy())
}

// keepOff makes a DaemonSet stay off the Nodes of bases, and removes what its controller has given up there. It changes d.
func (w *warden) keepOff(ctx context.Context, d *appsv1.DaemonSet) error {
	if !followsBases(d) || d.DeletionTimestamp != nil {
		return nil
	}
	if restrict(&d.Spec.Template.Spec) {
		if _, err := w.client.AppsV1().DaemonSets(d.Namespace).Update(ctx, d, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("keeping DaemonSet %s/%s off the Nodes of bases: %w", d.Namespace, d.Name, err)
		}
		w.log.Info("a DaemonSet that tolerates everything is kept off the Nodes of bases", "daemonSet", d.Namespace+"/"+d.Name)
		return nil // its next status comes with the generation that this made
	}
	// Its controller says that it has seen a generation only when it knows of all Pods that it made before (syncDaemonSet in
	// k8s.io/kubernetes/pkg/controller/daemon), so that no more will come.
	if d.Status.ObservedGeneration != d.Generation || w.cleared[d.UID] == d.Generation || choosesBases(&d.Spec.Template.Spec) {
		return nil
	}
	if err := w.clear(ctx, d); err != nil {
		return err
	}
	w.cleared[d.UID] = d.Generation
	return nil
}

// clear removes the Pods of a DaemonSet that are bound to Nodes of bases.
func (w *warden) clear(ctx context.Context, d *appsv1.DaemonSet) error {
	bases, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: vnodeLabel + "=" + vnodeValue})
	if err != nil {
		return fmt.Errorf("listing the Nodes of bases: %w", err)
	}
	isBase := map[string]bool{}
	for i := range bases.Items {
		isBase[bases.Items[i].Name] = true
	}
	pods, err := w.client.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	if err != nil {
		return fmt.Errorf("listing the Pods of DaemonSet %s/%s: %w", d.Namespace, d.Name, err)
	}
	var errs []error
	for i := range pods.Items {
		p := &pods.Items[i]
		if !metav1.IsControlledBy(p, d) || !isBase[p.Spec.NodeName] {
			continue
		}
		err := w.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("removing Pod %s/%s from the Node of a base: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// followsBases tells whether the Pods of a DaemonSet might go to the Nodes of bases without being meant for them: it tolerates
// whatever taint, and is none of modules.
func followsBases(d *appsv1.DaemonSet) bool {
	for _, labels := range []map[string]string{d.Labels, d.Spec.Template.Labels} {
		if labels[vnodeLabel] == moduleValue || labels[otherLabel] == moduleValue {
			return false
		}
	}
	return slices.ContainsFunc(d.Spec.Template.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == "" && t.Operator == corev1.TolerationOpExists && (t.Effect == "" || t.Effect == vnodeEffect)
	})
}

// restrict adds to a Pod's conditions on its Node that it is no base's, and tells whether that changed anything. Conditions that
// speak of bases already stay as they are.
func restrict(spec *corev1.PodSpec) bool {
	if _, speaks := spec.NodeSelector[vnodeLabel]; speaks {
		return false
	}
	off := corev1.NodeSelectorRequirement{Key: vnodeLabel, Operator: corev1.NodeSelectorOpNotIn, Values: []string{vnodeValue}}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *required == nil {
		*required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{off}}}}
		return true
	}
	changed := false
	for i := range (*required).NodeSelectorTerms { // one of them must hold, so each says it
		term := &(*required).NodeSelectorTerms[i]
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 || slices.ContainsFunc(term.MatchExpressions, ofBases) {
			continue // one that is empty matches no Node
		}
		term.MatchExpressions = append(term.MatchExpressions, off)
		changed = true
	}
	return changed
}

// choosesBases tells, of what restrict leaves as it is, whether it was made for Nodes of bases.
func choosesBases(spec *corev1.PodSpec) bool {
	if spec.NodeSelector[vnodeLabel] == vnodeValue {
		return true
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchExpressions {
			if ofBases(r) && r.Operator != corev1.NodeSelectorOpNotIn && r.Operator != corev1.NodeSelectorOpDoesNotExist {
				return true
			}
		}
	}
	return false
}

func ofBases(r corev1.NodeSelectorRequirement) bool { return r.Key == vnodeLabel }
