package vnode

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/koupleless/koupsandbox/controller/internal/base"
)

// reconcileNode creates the Node, or writes what differs.
func (r *Reconciler) reconcileNode(ctx context.Context, b base.Snapshot, s *state) error {
	r.refresh(ctx, s)
	want := r.opts.Node(b, r.opts.Requested(s.nodeName), s.node, r.opts.Clock.Now())
	if s.node == nil {
		created, err := r.client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
		switch {
		case err == nil:
			created.ManagedFields = nil
			s.node, s.written = created, r.opts.Clock.Now()
			r.opts.Logger.Info("created a node", "base", b.Identity, "node", s.nodeName)
			return nil
		case !apierrors.IsAlreadyExists(err):
			return err
		}
		if s.node, err = r.client.CoreV1().Nodes().Get(ctx, s.nodeName, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	if err := r.addTaints(ctx, want, s); err != nil {
		return err
	}
	return r.writeStatus(ctx, want, s)
}

// refresh takes the informer's Node when it is newer than the one known, and forgets a Node that
// somebody deleted. Of a Node that the informer lacks the API server knows whether it is gone, or
// only not there yet.
func (r *Reconciler) refresh(ctx context.Context, s *state) {
	cached, err := r.nodes.Get(s.nodeName)
	switch {
	case err != nil && s.node != nil:
		if _, err := r.client.CoreV1().Nodes().Get(ctx, s.nodeName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			s.node = nil
		}
	case err != nil:
	case s.node == nil:
		s.node = cached
	default:
		if newer, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, s.node.ResourceVersion); err == nil && newer >= 0 { // the same one is kept once
			s.node = cached
		}
	}
}

// addTaints writes the taints that the Node lacks, which a write of its status leaves alone.
func (r *Reconciler) addTaints(ctx context.Context, want *corev1.Node, s *state) error {
	missing := func(n *corev1.Node) []corev1.Taint {
		return slices.DeleteFunc(slices.Clone(want.Spec.Taints), func(t corev1.Taint) bool {
			return slices.ContainsFunc(n.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(&t) && have.Value == t.Value })
		})
	}
	if len(missing(s.node)) == 0 {
		return nil
	}
	return r.update(ctx, s, func(n *corev1.Node) (*corev1.Node, error) {
		n.Spec.Taints = append(n.Spec.Taints, missing(n)...)
		return r.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	})
}

// writeStatus writes labels, annotations and status if any of them differs.
func (r *Reconciler) writeStatus(ctx context.Context, want *corev1.Node, s *state) error {
	if sameStatus(s.node, want) {
		return nil
	}
	now := r.opts.Clock.Now()
	if now.Sub(s.written) < memoryEvery && sameStatus(s.node, withMemory(want, s.node)) {
		return nil // only the free memory moved: the next look writes it
	}
	s.written = now
	return r.update(ctx, s, func(n *corev1.Node) (*corev1.Node, error) {
		n.Labels = merged(n.Labels, want.Labels)
		n.Annotations = merged(n.Annotations, want.Annotations)
		n.Status = want.Status
		return r.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	})
}

// memoryEvery is how often a Node is written when nothing but its free memory changed: every
// install moves it, and the scheduler can do with a value that is a little old.
const memoryEvery = 30 * time.Second

// withMemory is a Node with the memory of another.
func withMemory(n, other *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	for _, of := range [][2]corev1.ResourceList{{n.Status.Capacity, other.Status.Capacity}, {n.Status.Allocatable, other.Status.Allocatable}} {
		if memory, shown := of[1][corev1.ResourceMemory]; shown {
			of[0][corev1.ResourceMemory] = memory
		}
	}
	return n
}

// update writes a changed copy of the known Node; after a conflict once more on the live one.
func (r *Reconciler) update(ctx context.Context, s *state, write func(*corev1.Node) (*corev1.Node, error)) error {
	n, err := write(s.node.DeepCopy())
	if apierrors.IsConflict(err) {
		var live *corev1.Node
		if live, err = r.client.CoreV1().Nodes().Get(ctx, s.nodeName, metav1.GetOptions{}); err == nil {
			n, err = write(live)
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		s.node = nil // deleted by somebody: created anew at the next turn
		return err
	case err != nil:
		return err
	}
	n.ManagedFields = nil
	s.node = n
	return nil
}

// sameStatus compares what the Reconciler writes, leaving out the times.
func sameStatus(have, want *corev1.Node) bool {
	h, w := have.Status, want.Status
	return contains(have.Labels, want.Labels) && contains(have.Annotations, want.Annotations) &&
		equality.Semantic.DeepEqual(h.Capacity, w.Capacity) &&
		equality.Semantic.DeepEqual(h.Allocatable, w.Allocatable) &&
		equality.Semantic.DeepEqual(h.Addresses, w.Addresses) &&
		h.DaemonEndpoints == w.DaemonEndpoints &&
		h.NodeInfo.KubeletVersion == w.NodeInfo.KubeletVersion &&
		h.NodeInfo.ContainerRuntimeVersion == w.NodeInfo.ContainerRuntimeVersion &&
		sameConditions(h.Conditions, w.Conditions)
}

// contains says whether a map has all entries of another.
func contains(have, want map[string]string) bool {
	for key, value := range want {
		if have[key] != value {
			return false
		}
	}
	return true
}

func sameConditions(have, want []corev1.NodeCondition) bool {
	if len(have) != len(want) {
		return false
	}
	byType := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, c := range have {
		byType[c.Type] = c
	}
	for _, w := range want {
		if h := byType[w.Type]; h.Status != w.Status || h.Reason != w.Reason || h.Message != w.Message {
			return false
		}
	}
	return true
}

func merged(into, from map[string]string) map[string]string {
	if into == nil {
		into = map[string]string{}
	}
	maps.Copy(into, from)
	return into
}
