package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
)

const (
	// Selector is a label selector for the Nodes of bases.
	Selector = labels.Component + "=" + labels.Vnode
	// vnodePrefix is the start of the name of a base's Node. It is followed by the identity of the base.
	vnodePrefix = "vnode."
	// firstFence is the value of the annotation labels.Fence on a Node that has had only one controller.
	firstFence = "1"
	// waitInterval is the interval between two checks in Wait.
	waitInterval         = 20 * time.Millisecond
	namesInError         = 3
	maxConcurrentDeletes = 50
)

// deleteBackoff limits the deletion of a Node to six attempts in about 3 s.
var deleteBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 6}

// Watcher watches the Nodes of bases. It treats a Node as Ready only once Kubernetes has removed the taints of new
// Nodes, because the scheduling of Pods that are created earlier is delayed by seconds. Its methods may be called
// concurrently.
type Watcher struct {
	client  kubernetes.Interface
	env     string
	created func(identity, holder string)

	mu    sync.Mutex
	nodes map[string]nodeState // by base identity
}

type nodeState struct {
	name  string
	ready bool
	held  bool // whether the bundled controller manages the Node
	// releasesLeft is the annotation labels.ReleasesLeft.
	releasesLeft string
	// commands is the host:port at which a base with the HTTP tunnel accepts commands. It is empty for other bases.
	commands string
}

// New returns a watcher for the Nodes of bases, without starting the watch. Node names may end with the environment
// env. The watcher calls created, which may be nil, once for each new Node that has had only one controller. holder
// is the CLIENT_ID of that controller; it is empty for a custom controller.
func New(client kubernetes.Interface, env string, created func(identity, holder string)) *Watcher {
	return &Watcher{client: client, env: env, created: created, nodes: map[string]nodeState{}}
}

// Start watches the Nodes and blocks until ctx ends. Call Start once.
func (n *Watcher) Start(ctx context.Context) error {
	informer := coreinformers.NewFilteredNodeInformer(n.client, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = Selector })
	err := informer.SetTransform(stripNode)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    n.onUpdate,
			UpdateFunc: func(_, o any) { n.onUpdate(o) },
			DeleteFunc: n.onDelete,
		})
	}
	if err != nil {
		return fmt.Errorf("watching the Nodes of bases: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// stripNode removes the Node fields that the watcher does not use, to save memory.
func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	stripped := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID,
		ResourceVersion: node.ResourceVersion}}
	if holder := node.Annotations[labels.Holder]; holder != "" {
		stripped.Annotations = map[string]string{labels.Holder: holder, labels.Fence: node.Annotations[labels.Fence]}
	}
	if left := node.Annotations[labels.ReleasesLeft]; left != "" {
		metav1.SetMetaDataAnnotation(&stripped.ObjectMeta, labels.ReleasesLeft, left)
	}
	if port := node.Labels[labels.TunnelPort]; port != "" {
		stripped.Labels = map[string]string{labels.TunnelPort: port}
		stripped.Status.Addresses = node.Status.Addresses
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			stripped.Spec.Taints = []corev1.Taint{{Key: t.Key, Effect: t.Effect}}
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			stripped.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return stripped, nil
}

func (n *Watcher) onUpdate(o any) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	s := nodeState{name: node.Name, held: node.Annotations[labels.Holder] != "",
		releasesLeft: node.Annotations[labels.ReleasesLeft]}
	for _, a := range node.Status.Addresses {
		if port := node.Labels[labels.TunnelPort]; port != "" && a.Type == corev1.NodeInternalIP {
			s.commands = net.JoinHostPort(a.Address, port)
		}
	}
	for _, c := range node.Status.Conditions {
		s.ready = s.ready || c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
	}
	id, holder := n.Identity(node.Name), node.Annotations[labels.Holder]
	n.mu.Lock()
	_, known := n.nodes[id]
	n.nodes[id] = s
	n.mu.Unlock()
	if !known && n.created != nil && (holder == "" || node.Annotations[labels.Fence] == firstFence) {
		n.created(id, holder)
	}
}

func (n *Watcher) onDelete(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if node, ok := o.(*corev1.Node); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.nodes, n.Identity(node.Name))
	}
}

// Identity returns the identity of a base from the name of its Node, which is vnode.<identity> or
// vnode.<identity>.<env>.
func (n *Watcher) Identity(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, vnodePrefix), "."+n.env)
}

// NodeOf returns the name of the Node of a base, or an empty string if the base has no Node. It also reports whether
// the Node is Ready.
func (n *Watcher) NodeOf(identity string) (name string, ready bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.nodes[identity]
	return s.name, s.ready
}

// ReleasesLeft returns the annotation labels.ReleasesLeft of the Node of a base; empty if the forecast is unknown.
func (n *Watcher) ReleasesLeft(identity string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[identity].releasesLeft
}

// AcceptsCommands reports whether a base accepts HTTP commands at addr, a host:port, according to the Node of the
// base.
func (n *Watcher) AcceptsCommands(addr string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.nodes {
		if s.commands != "" && s.commands == addr {
			return true
		}
	}
	return false
}

// WithReadyNode returns the identities whose base has a Ready Node. If held is true, it omits bases whose Node is not
// managed by the bundled controller, because DeleteNodes does not delete these Nodes.
func (n *Watcher) WithReadyNode(identities []string, held bool) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(identities), func(id string) bool {
		s := n.nodes[id]
		return !s.ready || held && !s.held
	})
}

// Wait blocks until all bases that identities returns have a Ready Node. If ctx ends first, the error contains the
// number of bases without a Ready Node, and the identities of some of them.
func (n *Watcher) Wait(ctx context.Context, identities func() []string) error {
	var all, missing []string
	err := wait.PollUntilContextCancel(ctx, waitInterval, true, func(context.Context) (bool, error) {
		all = identities()
		n.mu.Lock()
		defer n.mu.Unlock()
		missing = slices.DeleteFunc(slices.Clone(all), func(id string) bool { return n.nodes[id].ready })
		return len(missing) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("bases without a Ready Node: %d of %d, for example %s: %w", len(missing), len(all),
			strings.Join(missing[:min(len(missing), namesInError)], ", "), context.Cause(ctx))
	}
	return nil
}

// RemoveAll removes the Nodes of all bases, as Remove does, and deletes the install records of the controllers. The
// cluster must belong to the sandbox, and no controller may be running.
func RemoveAll(ctx context.Context, client kubernetes.Interface) error {
	return errors.Join(Remove(ctx, client, func(*corev1.Node) bool { return true }),
		client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: labels.Component + "=" + labels.InstallRecordLease}))
}

// Remove deletes the Nodes of bases for which owned returns true, with their Leases and Pods. It deletes all Nodes
// before the first Pod, so that replacement Pods are not bound to these Nodes.
func Remove(ctx context.Context, client kubernetes.Interface, owned func(*corev1.Node) bool) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		return fmt.Errorf("listing the Nodes of bases: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !owned(&n) })
	for _, remove := range []func(context.Context, kubernetes.Interface, string) error{removeNode, removePods} {
		var group errgroup.Group // a failure does not stop the other deletions
		group.SetLimit(maxConcurrentDeletes)
		for _, n := range list.Items {
			group.Go(func() error { return remove(ctx, client, n.Name) })
		}
		err = errors.Join(err, group.Wait())
	}
	return err
}

// DeleteNodes deletes the Nodes of bases that have stopped, if the bundled controller manages the Nodes. The
// controller then removes the Pods and Leases of these bases. DeleteNodes also deletes Nodes that the watcher does
// not know yet. It retries failed deletions for about 3 s, because the API server may be restarting.
func (n *Watcher) DeleteNodes(ctx context.Context, identities []string) error {
	var group errgroup.Group
	group.SetLimit(maxConcurrentDeletes)
	for _, id := range identities {
		seen, _ := n.NodeOf(id)
		name := cmp.Or(seen, vnodePrefix+id)
		group.Go(func() error {
			err := retry.OnError(deleteBackoff, func(error) bool { return ctx.Err() == nil },
				func() error { return n.deleteHeld(ctx, name) })
			if err != nil {
				return fmt.Errorf("deleting Node %s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (n *Watcher) deleteHeld(ctx context.Context, name string) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil && node.Annotations[labels.Holder] != "" {
		err = n.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func removeNode(ctx context.Context, client kubernetes.Interface, name string) error {
	err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		err = client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing Node %s: %w", name, err)
	}
	return nil
}

func removePods(ctx context.Context, client kubernetes.Interface, node string) error {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return fmt.Errorf("listing the Pods of Node %s: %w", node, err)
	}
	for _, p := range pods.Items {
		at := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0),
			Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
		err := client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, at)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("removing Pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}
