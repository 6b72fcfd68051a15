package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// guardRetry is the interval between retries of rejected updates.
const guardRetry = 2 * time.Second

// notABase is the node selector requirement that excludes the Nodes of bases.
var notABase = corev1.NodeSelectorRequirement{
	Key: labels.Component, Operator: corev1.NodeSelectorOpNotIn, Values: []string{labels.Vnode},
}

// guard keeps DaemonSets that tolerate every taint off the Nodes of bases, except DaemonSets of modules. These Nodes
// have no kubelet, so the Pods would stay Pending and the rollouts would never complete.
//
// A new DaemonSet may already have Pods on bases before the guard updates it. The DaemonSet controller then deletes
// these Pods, but no kubelet confirms the deletion, so the guard removes the Pods from the API.
//
// The guard does not use a MutatingAdmissionPolicy, because this API is enabled by default only since Kubernetes
// 1.36.
type guard struct {
	client kubernetes.Interface
	log    *slog.Logger
	// cleared contains, for each DaemonSet, the last generation whose Pods on the Nodes of bases were removed. Only
	// one goroutine uses cleared.
	cleared map[types.UID]int64
}

func newGuard(client kubernetes.Interface, log *slog.Logger) *guard {
	return &guard{client: client, log: log, cleared: map[types.UID]int64{}}
}

// restrictAll keeps all existing DaemonSets off the Nodes of bases.
func (g *guard) restrictAll(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		list, err := g.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing DaemonSets: %w", err)
		}
		for i := range list.Items {
			if err := g.restrictDaemonSet(ctx, &list.Items[i]); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// run watches the DaemonSets and restricts each of them until ctx ends. Every guardRetry, the informer resyncs, which
// sends no API requests and makes run retry rejected updates.
func (g *guard) run(ctx context.Context) {
	informer := informers.NewSharedInformerFactory(g.client, guardRetry).Apps().V1().DaemonSets().Informer()
	keepOff := func(o any) {
		d, ok := o.(*appsv1.DaemonSet)
		if !ok || ctx.Err() != nil {
			return
		}
		err := g.restrictDaemonSet(ctx, d.DeepCopy())
		// after a conflict, the watch delivers the newer version
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			g.log.Warn("could not exclude the Nodes of bases from a DaemonSet", "daemonSet", nameOf(d), "err", err)
		}
	}
	_, err := informer.AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: keepOff, UpdateFunc: func(_, o any) { keepOff(o) }})
	if err != nil { // only if the informer has already stopped
		g.log.Error("could not watch DaemonSets", "err", err)
		return
	}
	informer.RunWithContext(ctx)
}

// restrictDaemonSet excludes the Nodes of bases from a DaemonSet that tolerates every taint. Once the DaemonSet
// controller has observed this change, a later call removes the remaining Pods from these Nodes. restrictDaemonSet
// modifies d.
func (g *guard) restrictDaemonSet(ctx context.Context, d *appsv1.DaemonSet) error {
	if !toleratesAll(d) || d.DeletionTimestamp != nil {
		return nil
	}
	if excludeBases(&d.Spec.Template.Spec) {
		if _, err := g.client.AppsV1().DaemonSets(d.Namespace).Update(ctx, d, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("excluding the Nodes of bases from DaemonSet %s: %w", nameOf(d), err)
		}
		g.log.Info("excluded the Nodes of bases from a DaemonSet that tolerates every taint", "daemonSet", nameOf(d))
		return nil // continue when the status has the new generation
	}
	// The DaemonSet controller sets ObservedGeneration only after it has seen all Pods that it created earlier
	// (syncDaemonSet in k8s.io/kubernetes/pkg/controller/daemon), so it will create no more Pods on bases.
	if d.Status.ObservedGeneration != d.Generation || g.cleared[d.UID] == d.Generation ||
		selectsBases(&d.Spec.Template.Spec) {
		return nil
	}
	if err := g.removePods(ctx, d); err != nil {
		return err
	}
	g.cleared[d.UID] = d.Generation
	return nil
}

// removePods removes the Pods of a DaemonSet that are bound to the Nodes of bases.
func (g *guard) removePods(ctx context.Context, d *appsv1.DaemonSet) error {
	bases, err := g.client.CoreV1().Nodes().List(ctx,
		metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.Vnode})
	if err != nil {
		return fmt.Errorf("listing the Nodes of bases: %w", err)
	}
	pods, err := g.client.CoreV1().Pods(d.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
	if err != nil {
		return fmt.Errorf("listing the Pods of DaemonSet %s: %w", nameOf(d), err)
	}
	var errs []error
	for i := range pods.Items {
		p := &pods.Items[i]
		onBase := slices.ContainsFunc(bases.Items, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName })
		if !onBase || !metav1.IsControlledBy(p, d) {
			continue
		}
		err := g.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("deleting Pod %s/%s on the Node of a base: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(errs...)
}

func nameOf(d *appsv1.DaemonSet) string { return d.Namespace + "/" + d.Name }

// toleratesAll reports whether a DaemonSet would run on the Nodes of bases unintentionally: it tolerates every taint
// and is not a DaemonSet of modules.
func toleratesAll(d *appsv1.DaemonSet) bool {
	for _, l := range []map[string]string{d.Labels, d.Spec.Template.Labels} {
		if l[labels.Component] == labels.Module || l[labels.OlderComponent] == labels.Module {
			return false
		}
	}
	return slices.ContainsFunc(d.Spec.Template.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.Key == "" && t.Operator == corev1.TolerationOpExists &&
			(t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
	})
}

// excludeBases adds a node affinity that excludes the Nodes of bases, and reports whether it changed spec. It does
// not change node selectors and affinity terms that already refer to bases.
func excludeBases(spec *corev1.PodSpec) (changed bool) {
	if _, explicit := spec.NodeSelector[labels.Component]; explicit {
		return false
	}
	if requiredTerms(spec) == nil {
		if spec.Affinity == nil {
			spec.Affinity = &corev1.Affinity{}
		}
		if spec.Affinity.NodeAffinity == nil {
			spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
		}
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{notABase}}}}
		return true
	}
	terms := requiredTerms(spec)
	for i := range terms { // terms are alternatives, so each needs the requirement
		t := &terms[i]
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 ||
			slices.ContainsFunc(t.MatchExpressions, isBaseRequirement) {
			continue // an empty term matches no Node
		}
		t.MatchExpressions = append(t.MatchExpressions, notABase)
		changed = true
	}
	return changed
}

// selectsBases reports whether a spec explicitly selects the Nodes of bases. Call it only for a spec that
// excludeBases has left unchanged.
func selectsBases(spec *corev1.PodSpec) bool {
	return spec.NodeSelector[labels.Component] == labels.Vnode ||
		slices.ContainsFunc(requiredTerms(spec), func(t corev1.NodeSelectorTerm) bool {
			return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
				return isBaseRequirement(r) && r.Operator != corev1.NodeSelectorOpNotIn &&
					r.Operator != corev1.NodeSelectorOpDoesNotExist
			})
		})
}

func requiredTerms(spec *corev1.PodSpec) []corev1.NodeSelectorTerm {
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

func isBaseRequirement(r corev1.NodeSelectorRequirement) bool { return r.Key == labels.Component }
