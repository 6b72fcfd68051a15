package vnode

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// writeNode creates or updates the Node of a base, with this controller as the holder. It returns errConflict if
// another client has changed the Node.
func (r *Reconciler) writeNode(ctx context.Context, b base.Snapshot, s *state) error {
	want := r.opts.Node(b, r.opts.Requested(s.nodeName), s.node, r.opts.Clock.Now())
	want.Name = s.nodeName
	fence, epoch := s.fence, r.ownLease.Epoch()
	taking := s.node == nil || r.ownership(s) != ownedByMe
	if taking {
		if s.node != nil {
			_, fence, _ = holderOf(s.node)
		}
		fence++
	}
	want.Annotations[labels.Holder] = r.opts.Holder
	want.Annotations[labels.Fence] = strconv.FormatInt(fence, 10)
	fresh := s.node == nil
	if fresh {
		created, err := r.client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return r.readNode(ctx, s)
		}
		if err != nil {
			return err
		}
		created.ManagedFields = nil
		s.setNode(created)
		r.opts.Logger.Info("created a Node", "base", b.Identity, "node", s.nodeName)
	} else if err := r.writeStatus(ctx, want, s); err != nil {
		return err
	}
	if taking {
		r.opts.Logger.Info("serving a base", "base", b.Identity, "node", s.nodeName, "fence", fence)
	}
	s.fence, s.epoch, s.cleanupPending, s.takeAfter = fence, epoch, false, time.Time{}
	return r.setTaints(ctx, want, s, fresh)
}

// refresh updates the known Node from the informer, and reports whether the Node was deleted. If the informer cache
// does not contain the Node, refresh reads the Node from the API server.
func (r *Reconciler) refresh(ctx context.Context, s *state) (deleted bool) {
	cached, err := r.nodes.Get(s.nodeName)
	switch {
	case err != nil && s.node != nil:
		if _, err := r.client.CoreV1().Nodes().Get(ctx, s.nodeName, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			s.node = nil
		}
	case err != nil:
	case s.node == nil || s.node.UID != cached.UID:
		s.setNode(cached)
	default:
		// An equal version replaces the known Node, so that only one copy stays in memory.
		if newer, err := resourceversion.CompareResourceVersion(cached.ResourceVersion,
			s.node.ResourceVersion); err == nil && newer >= 0 {
			s.setNode(cached)
		}
	}
	if s.node != nil || !s.hadNode {
		return false
	}
	s.clearNode(r.Owns(s.identity) || !r.opts.Cluster && len(r.ownLease.renewing()) == 0)
	return true
}

// setTaints adds missing taints and corrects their values. It keeps all other taints, except the not-ready taint that
// the API server adds to new Nodes: kube-controller-manager would remove that taint from only 20 Nodes per second.
func (r *Reconciler) setTaints(ctx context.Context, want *corev1.Node, s *state, isNewNode bool) error {
	n := s.node.DeepCopy()
	changed := false
	if isNewNode && conditionOf(n, corev1.NodeReady).Status == corev1.ConditionTrue {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(existing corev1.Taint) bool {
			return existing.Key == corev1.TaintNodeNotReady && existing.Effect == corev1.TaintEffectNoSchedule
		})
		changed = len(n.Spec.Taints) < len(s.node.Spec.Taints)
	}
	for _, t := range want.Spec.Taints {
		i := slices.IndexFunc(n.Spec.Taints, func(existing corev1.Taint) bool { return existing.MatchTaint(&t) })
		switch {
		case i < 0:
			n.Spec.Taints = append(n.Spec.Taints, t)
		case n.Spec.Taints[i].Value != t.Value: // the environment has changed
			n.Spec.Taints[i] = t
		default:
			continue
		}
		changed = true
	}
	if !changed {
		return nil
	}
	written, err := r.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
	return r.recordWrite(ctx, s, written, err)
}

// writeStatus writes the labels, annotations and status of a Node if they differ from the desired ones.
func (r *Reconciler) writeStatus(ctx context.Context, want *corev1.Node, s *state) error {
	want.Status = withForeign(want.Status, s.node.Status)
	if sameStatus(s.node, want) {
		s.memoryChangedAt = time.Time{}
		return nil
	}
	if sameStatus(s.node, withMemory(want, s.node)) {
		now := r.opts.Clock.Now()
		if s.memoryChangedAt.IsZero() {
			s.memoryChangedAt = now
		}
		// Leases have priority
		if now.Sub(s.memoryChangedAt) < r.opts.TimeScale.Of(memoryInterval) || r.queue.Len() > workers {
			return nil // a later reconciliation writes it
		}
	}
	n := s.node.DeepCopy()
	n.Labels = mergeMaps(n.Labels, want.Labels)
	maps.DeleteFunc(n.Labels, staleRole(want.Labels))
	for name := range reportedLabels(n) {
		if _, wanted := want.Labels[name]; !wanted {
			delete(n.Labels, name) // the base no longer reports it
		}
	}
	n.Annotations = mergeMaps(n.Annotations, want.Annotations)
	n.Status = want.Status
	before := s.node
	if err := r.updateNode(ctx, s, n); err != nil {
		return err
	}
	s.memoryChangedAt = time.Time{}
	r.recordObserved(before, s.node)
	return nil
}

// withForeign returns the desired status want, extended by the parts of the current status existing that other
// components have written. A kubelet does the same. These parts are resources that the controller does not report (such
// as extended resources), conditions that it does not write (such as the conditions of node-problem-detector), and all
// other fields.
func withForeign(want, existing corev1.NodeStatus) corev1.NodeStatus {
	s := *existing.DeepCopy()
	s.Phase, s.Addresses, s.DaemonEndpoints, s.NodeInfo = want.Phase, want.Addresses, want.DaemonEndpoints,
		want.NodeInfo
	s.Capacity, s.Allocatable = mergeMaps(s.Capacity, want.Capacity), mergeMaps(s.Allocatable, want.Allocatable)
	foreign := slices.DeleteFunc(s.Conditions, func(c corev1.NodeCondition) bool {
		return slices.ContainsFunc(want.Conditions, func(w corev1.NodeCondition) bool { return w.Type == c.Type })
	})
	s.Conditions = slices.Concat(want.Conditions, foreign)
	return s
}

// memoryInterval is the minimum time between two writes of a Node if only its allocatable memory has changed. The
// interval limits the writes, because each install changes the allocatable memory.
const memoryInterval = 30 * time.Second

// withMemory returns a copy of a Node with the memory resources of another Node.
func withMemory(n, other *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	for _, of := range [][2]corev1.ResourceList{{n.Status.Capacity, other.Status.Capacity},
		{n.Status.Allocatable, other.Status.Allocatable}} {
		if memory, shown := of[1][corev1.ResourceMemory]; shown {
			of[0][corev1.ResourceMemory] = memory
		}
	}
	return n
}

// updateNode writes labels, annotations and status of a Node. It returns errConflict if another client has changed the
// Node.
func (r *Reconciler) updateNode(ctx context.Context, s *state, n *corev1.Node) error {
	written, err := r.client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	return r.recordWrite(ctx, s, written, err)
}

// recordWrite updates the known Node after a write of the Node.
func (r *Reconciler) recordWrite(ctx context.Context, s *state, written *corev1.Node, err error) error {
	switch {
	case apierrors.IsConflict(err):
		return r.readNode(ctx, s)
	case apierrors.IsNotFound(err):
		s.node = nil
		return err
	case err != nil:
		return err
	}
	written.ManagedFields = nil
	s.setNode(written)
	return nil
}

// readNode reads a Node again after another client has changed it. It always returns an error: errConflict, or the
// error of the read.
func (r *Reconciler) readNode(ctx context.Context, s *state) error {
	live, err := r.client.CoreV1().Nodes().Get(ctx, s.nodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.node = nil
	case err != nil:
		return err
	default:
		live.ManagedFields = nil
		s.setNode(live)
	}
	return errConflict
}

// recordObserved records an Event when this controller can no longer observe the base, and therefore ignores its
// missed heartbeats.
func (r *Reconciler) recordObserved(oldNode, n *corev1.Node) {
	if now := conditionOf(n, api.ConditionObserved); now.Status == corev1.ConditionFalse &&
		conditionOf(oldNode, api.ConditionObserved).Reason != now.Reason {
		r.opts.Recorder.Event(n, corev1.EventTypeWarning, now.Reason, now.Message)
	}
}

func conditionOf(n *corev1.Node, of corev1.NodeConditionType) corev1.NodeCondition {
	_, c := nodeutil.GetNodeCondition(&n.Status, of)
	return ptr.Deref(c, corev1.NodeCondition{})
}

// sameStatus reports whether two Nodes have the same values in the fields that the Reconciler writes. It ignores
// timestamps.
func sameStatus(existing, want *corev1.Node) bool {
	h, w := existing.Status, want.Status
	return contains(existing.Labels, want.Labels) && contains(existing.Annotations, want.Annotations) &&
		equality.Semantic.DeepEqual(h.Capacity, w.Capacity) &&
		equality.Semantic.DeepEqual(h.Allocatable, w.Allocatable) &&
		equality.Semantic.DeepEqual(h.Addresses, w.Addresses) &&
		h.DaemonEndpoints == w.DaemonEndpoints &&
		h.NodeInfo.KubeletVersion == w.NodeInfo.KubeletVersion &&
		h.NodeInfo.ContainerRuntimeVersion == w.NodeInfo.ContainerRuntimeVersion &&
		sameConditions(h.Conditions, w.Conditions)
}

func contains(actual, want map[string]string) bool {
	for key, value := range want {
		if actual[key] != value {
			return false
		}
	}
	return true
}

func sameConditions(existing, want []corev1.NodeCondition) bool {
	if len(existing) != len(want) {
		return false
	}
	byType := map[corev1.NodeConditionType]corev1.NodeCondition{}
	for _, c := range existing {
		byType[c.Type] = c
	}
	for _, w := range want {
		if h := byType[w.Type]; h.Status != w.Status || h.Reason != w.Reason || h.Message != w.Message {
			return false
		}
	}
	return true
}

func mergeMaps[M ~map[K]V, K comparable, V any](into, from M) M {
	if into == nil {
		into = M{}
	}
	maps.Copy(into, from)
	return into
}
