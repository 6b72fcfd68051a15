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

// nodeName returns the name of a base's Node. If only ModuleController V2 has created a Node for the base, it returns
// the name of that Node, vnode.<identity>.<env>, so that the Pods on the Node stay.
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
		return nil // the Node of another base, whose identity ends with the environment
	}
	return n
}

// observedLease is the last observed version of a Lease that another controller may renew: the Lease of a Node or of
// a controller.
type observedLease struct {
	name, version string
	changedAt     time.Time
}

// leaseRemaining returns how long a Lease is still valid, based on the time of its last observed change; 0 or less if
// it has expired.
func (r *Reconciler) leaseRemaining(ctx context.Context, name string, s *state) (time.Duration, error) {
	l, err := r.leases.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the Lease %q: %w", name, err)
	}
	return r.observeLease(l, s), nil
}

// observeLease records the current version of a Lease, and returns how long the Lease is still valid.
func (r *Reconciler) observeLease(l *coordinationv1.Lease, s *state) time.Duration {
	now := r.opts.Clock.Now()
	if s.observed.name != l.Name || s.observed.version != l.ResourceVersion {
		s.observed = observedLease{name: l.Name, version: l.ResourceVersion, changedAt: now}
	}
	return s.observed.changedAt.Add(cmp.Or(durationOf(l), r.opts.NodeLease)).Sub(now)
}

// isForeign reports whether a Lease belongs to a Node of another environment.
func (r *Reconciler) isForeign(l *coordinationv1.Lease) bool {
	env := l.Labels[labels.Env]
	return env != "" && env != r.opts.Env
}

// foreignLeaseRemaining returns how long another environment may still create a deleted Node again: the remaining
// validity of the Lease of the Node in that environment. It also records whether the Node has no Lease.
func (r *Reconciler) foreignLeaseRemaining(ctx context.Context, s *state) (time.Duration, error) {
	l, err := r.leases.Get(ctx, s.nodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		s.leaseless = true
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the Lease of Node %q: %w", s.nodeName, err)
	case !r.isForeign(l):
		return 0, nil
	}
	left := r.observeLease(l, s)
	if left > 0 && s.reportedOwnership != otherEnv {
		s.reportedOwnership = otherEnv
		r.opts.Logger.Warn("a base is not served yet because the Lease of its Node belongs to another environment",
			"node", s.nodeName, "env", r.opts.Env, "leaseEnv", l.Labels[labels.Env])
	}
	return left, nil
}

// removeOlderNode deletes the Node that ModuleController V2 created for a base, if the base also has a Node of this
// controller. It also deletes the Pods on the old Node, whose workloads then create new Pods. It returns the delay
// before the next check, or 0 if no check is needed.
func (r *Reconciler) removeOlderNode(ctx context.Context, identity string, s *state) (time.Duration, error) {
	n := r.olderNode(identity)
	if n == nil || n.Name == s.nodeName {
		return 0, nil
	}
	if wait, err := r.leaseRemaining(ctx, n.Name, s); wait > 0 || err != nil {
		return wait, err
	}
	pods, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + n.Name})
	if err != nil {
		return 0, fmt.Errorf("listing the Pods of Node %q: %w", n.Name, err)
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
		return 0, fmt.Errorf("deleting Node %q, which ModuleController V2 created: %w", n.Name, err)
	}
	r.opts.Logger.Info("deleted a Node that ModuleController V2 created for a base, and the Pods on it", "base",
		identity, "node", n.Name, "pods", len(pods.Items))
	return 0, nil
}

// reportOwnership logs why a base is not served and records the reason in an Event, each time the reason changes.
func (r *Reconciler) reportOwnership(s *state, reason ownership) {
	if s.reportedOwnership == reason {
		return
	}
	s.reportedOwnership = reason
	holder, _, _ := holderOf(s.node)
	switch reason {
	case otherEnv:
		r.opts.Recorder.Eventf(s.node, corev1.EventTypeWarning, api.ReasonForeignEnvironment,
			"the base has connected to environment %q, but the Node belongs to environment %q; the base "+
				"is not served; "+
				"if no controller of that environment serves the base, delete the Node",
			r.opts.Env, s.node.Labels[labels.Env])
		r.opts.Logger.Warn("a base is not served because its Node belongs to another environment; if no controller of "+
			"that environment serves it, delete the Node",
			"node", s.nodeName, "env", r.opts.Env, "nodeEnv", s.node.Labels[labels.Env], "holder", holder)
	case upstream:
		r.opts.Recorder.Event(s.node, corev1.EventTypeNormal, api.ReasonWaitingForOtherController,
			"ModuleController V2 may serve this base; the base is taken over when the Lease of the Node expires")
		r.opts.Logger.Info("ModuleController V2 may serve a base; waiting until the Lease of its Node expires", "node",
			s.nodeName)
	case movedEnv:
		r.opts.Logger.Warn("a base is not served yet because its Node belongs to another environment; waiting until "+
			"the Lease of the controller with the same CLIENT_ID in that environment expires",
			"node", s.nodeName, "env", r.opts.Env, "nodeEnv", s.node.Labels[labels.Env], "holder", holder)
	case sameName:
		info, _ := Info(s.node)
		r.opts.Recorder.Eventf(s.node, corev1.EventTypeWarning, api.ReasonSameNodeName,
			"base %q is not served, because its Node would have the same name as this Node of base %q; "+
				"change the identity of one of the bases", s.identity, info.Identity)
		r.opts.Logger.Warn("a base is not served because its Node would have the same name as the Node of another "+
			"base; change the identity of one of the bases",
			"base", s.identity, "node", s.nodeName, "other", info.Identity)
	case unowned, ownedByMe, ownedByPeer:
	}
}
