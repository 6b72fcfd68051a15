package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// Owner identifies the Nodes and Leases of one sandbox in a shared cluster.
type Owner struct {
	// Env is the environment of the sandbox.
	Env string
	// HolderPrefix is the prefix of the CLIENT_ID of every controller of the sandbox. Other controllers do not use
	// this prefix.
	HolderPrefix string
	// Bases contains the identities of bases whose Nodes the controllers of the sandbox have created.
	Bases map[string]bool
}

// InUseError means that an environment has Nodes or Leases that the sandbox did not create.
type InUseError struct {
	Env string
	// Found describes these Nodes and Leases, one per element.
	Found []string
}

const foundInError = 6

// Error returns a message that lists some of the Nodes and Leases, and suggests a fix.
func (e *InUseError) Error() string {
	shown := e.Found[:min(len(e.Found), foundInError)]
	var more string
	if n := len(e.Found) - len(shown); n > 0 {
		more = fmt.Sprintf("\n  and %d more", n)
	}
	return fmt.Sprintf("environment %q is used by a module controller or bases of another user:\n  %s%s\n"+
		"omit --env (spec.env) to use a generated environment, or choose an unused one; if no controller renews "+
		"these Leases any more, delete these Nodes and Leases and try again", e.Env, strings.Join(shown, "\n  "), more)
}

// CheckUnused returns an *InUseError if the environment has Nodes of bases, Leases of such Nodes, or Leases of
// controllers that the sandbox did not create. It does not change the cluster.
func (o Owner) CheckUnused(ctx context.Context, client kubernetes.Interface) error {
	leases, err := o.leases(ctx, client)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.Env + "=" + o.Env})
	if err != nil {
		return fmt.Errorf("listing the Nodes of environment %q: %w", o.Env, err)
	}
	created := map[string]bool{} // by name of the Node; a killed daemon may not have recorded the base
	var ofControllers, found, ofNodes []string
	for i := range nodes.Items {
		n := &nodes.Items[i]
		created[n.Name] = o.CreatedNode(n)
		if !created[n.Name] && labels.Value(n.Labels, labels.Component) == labels.Vnode {
			found = append(found, fmt.Sprintf("Node %s, held by controller %q", n.Name, n.Annotations[labels.Holder]))
		}
	}
	for i := range leases {
		l := &leases[i]
		switch {
		case o.createdLease(l) || created[l.Name]: // the Lease of a Node has the name of the Node
		case l.Labels[labels.Component] == labels.VnodeLease:
			ofNodes = append(ofNodes, describeLease(l))
		default:
			ofControllers = append(ofControllers, describeLease(l))
		}
	}
	found = slices.Concat(ofControllers, found, ofNodes)
	if len(found) > 0 {
		return &InUseError{Env: o.Env, Found: found}
	}
	return nil
}

func describeLease(l *coordinationv1.Lease) string {
	text := fmt.Sprintf("Lease %s/%s, held by %q", l.Namespace, l.Name, ptr.Deref(l.Spec.HolderIdentity, ""))
	if t := l.Spec.AcquireTime; t != nil {
		text += " since " + t.UTC().Format(time.RFC3339)
	}
	if t := l.Spec.RenewTime; t != nil {
		text += ", last renewed at " + t.UTC().Format(time.RFC3339)
	}
	return text
}

// CreatedNode reports whether a controller of the sandbox created a Node, and no other controller manages the Node
// now.
func (o Owner) CreatedNode(n *corev1.Node) bool {
	holder := n.Annotations[labels.Holder]
	return o.holds(holder) && (n.Annotations[labels.Fence] == firstFence || o.Bases[identityOf(n.Name)]) ||
		holder == "" && o.Bases[identityOf(n.Name)]
}

// createdLease reports whether the sandbox created a Lease, which must be in the environment of the sandbox.
func (o Owner) createdLease(l *coordinationv1.Lease) bool {
	if l.Labels[labels.Component] == labels.VnodeLease {
		return o.Bases[identityOf(l.Name)]
	}
	return o.holds(ptr.Deref(l.Spec.HolderIdentity, ""))
}

func (o Owner) holds(holder string) bool {
	return o.HolderPrefix != "" && strings.HasPrefix(holder, o.HolderPrefix)
}

// identityOf returns the identity of a base from the name of its Node. The identity is a UUID.
func identityOf(node string) string {
	identity, _, _ := strings.Cut(strings.TrimPrefix(node, vnodePrefix), ".")
	return identity
}

func (o Owner) leases(ctx context.Context, client kubernetes.Interface) ([]coordinationv1.Lease, error) {
	of := fmt.Sprintf("%s=%s,%s in (%s,%s,%s)", labels.Env, o.Env, labels.Component, labels.VnodeLease,
		labels.ControllerLease, labels.InstallRecordLease)
	list, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx,
		metav1.ListOptions{LabelSelector: of})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of environment %q: %w", o.Env, err)
	}
	return list.Items, nil
}

// Remove deletes the Nodes that the sandbox created, with their Pods, and the Leases of its controllers and Nodes.
// Call it after the controllers of the sandbox have stopped.
func (o Owner) Remove(ctx context.Context, client kubernetes.Interface) error {
	return errors.Join(Remove(ctx, client, o.CreatedNode), o.removeLeases(ctx, client))
}

func (o Owner) removeLeases(ctx context.Context, client kubernetes.Interface) error {
	all, err := o.leases(ctx, client)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(l coordinationv1.Lease) bool { return !o.createdLease(&l) })
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	peer, err := leases.Get(ctx, labels.PeerLeasePrefix+strings.ToLower(o.Env), metav1.GetOptions{})
	switch {
	// a controller clears the holder when it ends
	case err == nil && (ptr.Deref(peer.Spec.HolderIdentity, "") == "" || o.createdLease(peer)):
		all = append(all, *peer)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the Lease for peer Deployments: %w", err)
	}
	var group errgroup.Group // a failure does not stop the other deletions
	group.SetLimit(maxConcurrentDeletes)
	for i := range all {
		l := &all[i]
		group.Go(func() error {
			if l.Labels[labels.Component] == labels.VnodeLease {
				if _, err := client.CoreV1().Nodes().Get(ctx, l.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return err // nil if the Node exists: another controller serves it
				}
			}
			err := leases.Delete(ctx, l.Name,
				metav1.DeleteOptions{
					Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return fmt.Errorf("removing Lease %s: %w", l.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
