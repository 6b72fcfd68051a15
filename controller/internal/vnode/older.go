package vnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// nodeName returns the name of a base's Node. It is vnode.<identity>.<env> if ModuleController V2 has created one and
// this controller has not, so that its Pods stay.
func (r *Reconciler) nodeName(identity string) string {
	name := Name(identity)
	if _, err := r.nodes.Get(name); err == nil {
		return name
	}
	if n := r.olderNode(identity); n != nil {
		return n.Name
	}
	return name
}

// olderNode returns the Node that ModuleController V2 has created for a base, or nil.
func (r *Reconciler) olderNode(identity string) *corev1.Node {
	n, err := r.nodes.Get(namePrefix + identity + "." + r.opts.Env)
	if err != nil || n.Labels[labels.Component] != labels.Vnode || n.Labels[labels.Env] != r.opts.Env {
		return nil
	}
	if _, _, named := holderOf(n); named && n.Annotations[labels.Identity] != identity {
		return nil // another base's, whose identity ends like that
	}
	return n
}

// seenLease is an observed version of a Lease that another controller may renew: that of a Node, which
// ModuleController V2 renews, or that of a controller.
type seenLease struct {
	name, version string
	changed       time.Time
}

// leaseLeft returns how long a Lease is valid, from its observed changes; 0 or less if it has expired.
func (r *Reconciler) leaseLeft(ctx context.Context, name string, s *state) (time.Duration, error) {
	l, err := r.leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the lease %q: %w", name, err)
	}
	return r.seeLease(l, s), nil
}

func (r *Reconciler) seeLease(l *coordinationv1.Lease, s *state) time.Duration {
	now := r.opts.Clock.Now()
	if s.older.name != l.Name || s.older.version != l.ResourceVersion {
		s.older = seenLease{name: l.Name, version: l.ResourceVersion, changed: now}
	}
	return s.older.changed.Add(cmp.Or(durationOf(l), r.opts.NodeLease)).Sub(now)
}

// isForeign reports whether a Lease belongs to a Node of another environment.
func (r *Reconciler) isForeign(l *coordinationv1.Lease) bool {
	env := l.Labels[labels.Env]
	return env != "" && env != r.opts.Env
}

// foreignLeaseLeft returns how long the Lease of a Node that does not exist is valid in another environment, whose
// controller is about to create the Node again. It records if there is no Lease.
func (r *Reconciler) foreignLeaseLeft(ctx context.Context, s *state) (time.Duration, error) {
	l, err := r.leases.Get(ctx, s.nodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.leaseless = true
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the lease of node %q: %w", s.nodeName, err)
	case !r.isForeign(l):
		return 0, nil
	}
	left := r.seeLease(l, s)
	if left > 0 && s.reportedStanding != foreign {
		s.reportedStanding = foreign
		r.opts.Logger.Warn("a base is not served yet: the lease of its node belongs to another environment", "node",
			s.nodeName, "env", r.opts.Env, "theirs", l.Labels[labels.Env])
	}
	return left, nil
}

// removeOlder deletes the Node that ModuleController V2 has left next to the Node of this controller, and its Pods;
// their workloads create new ones. It returns when to look again, or 0.
func (r *Reconciler) removeOlder(ctx context.Context, identity string, s *state) (time.Duration, error) {
	n := r.olderNode(identity)
	if n == nil || n.Name == s.nodeName {
		return 0, nil
	}
	if wait, err := r.leaseLeft(ctx, n.Name, s); wait > 0 || err != nil {
		return wait, err
	}
	pods, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return 0, fmt.Errorf("listing the pods of node %q: %w", n.Name, err)
	}
	// The Node is deleted first: otherwise a DaemonSet creates Pods for it.
	errs := []error{ignoreNotFound(
		r.client.CoreV1().Nodes().Delete(ctx, n.Name, *metav1.NewPreconditionDeleteOptions(string(n.UID))))}
	for _, p := range pods.Items {
		if p.Spec.NodeName == n.Name {
			o := *metav1.NewPreconditionDeleteOptions(string(p.UID))
			o.GracePeriodSeconds = ptr.To[int64](0)
			errs = append(errs, ignoreNotFound(r.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, o)))
		}
	}
	errs = append(errs, ignoreNotFound(r.leases.Delete(ctx, n.Name, metav1.DeleteOptions{})))
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("removing node %q of another controller: %w", n.Name, err)
	}
	r.opts.Logger.Info("removed the node that another controller had left, with its pods", "base", identity, "node",
		n.Name, "pods", len(pods.Items))
	return 0, nil
}

// reportStanding reports once why a base is not served.
func (r *Reconciler) reportStanding(s *state, why standing) {
	if s.reportedStanding == why {
		return
	}
	s.reportedStanding = why
	holder, _, _ := holderOf(s.node)
	switch why {
	case foreign:
		r.opts.Recorder.Eventf(s.node, corev1.EventTypeWarning, api.ReasonForeignEnvironment,
			"environment %q wants this base, but the node belongs to environment %q: it is left alone. If nobody serves it there any more, delete the node",
			r.opts.Env, s.node.Labels[labels.Env])
		r.opts.Logger.Warn("a base is not served: its node belongs to another environment; if nobody serves it there any more, delete the node",
			"node", s.nodeName, "env", r.opts.Env, "theirs", s.node.Labels[labels.Env], "holder", holder)
	case older:
		r.opts.Recorder.Event(s.node, corev1.EventTypeNormal, api.ReasonWaitingForOtherController,
			"a controller of another kind may serve this base: it is taken over when the node's lease has not been renewed for as long as it holds")
		r.opts.Logger.Info("a controller of another kind may serve a base: waiting until it does not renew the node's lease any more", "node", s.nodeName)
	case moved:
		r.opts.Logger.Warn("a base is not served yet: its node belongs to another environment, where a controller of the same CLIENT_ID holds its lease",
			"node", s.nodeName, "env", r.opts.Env, "theirs", s.node.Labels[labels.Env], "holder", holder)
	case namesake:
		info, _ := Info(s.node)
		r.opts.Recorder.Eventf(s.node, corev1.EventTypeWarning, api.ReasonSameNodeName,
			"base %q would have the name of this node too, which is that of base %q: it is not served until this node is gone; give it another identity", s.identity, info.Identity)
		r.opts.Logger.Warn("a base is not served: the name of its node is that of another base; give it another identity", "base", s.identity, "node", s.nodeName, "other", info.Identity)
	case free, mine, another:
	}
}
