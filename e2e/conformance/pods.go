package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// moment is a Pod as it was seen once.
type moment struct {
	at   time.Time
	pod  *corev1.Pod
	gone bool
}

// isReady tells whether a Pod is Ready, as Kubernetes means it.
func isReady(p *corev1.Pod) bool { return conditionOf(p, corev1.PodReady) == corev1.ConditionTrue }

func conditionOf(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// describe says how a Pod is, in one line.
func describe(p *corev1.Pod) string {
	text := fmt.Sprintf("Pod %s: %s, Ready %t, Node %q", p.Name, p.Status.Phase, isReady(p), p.Spec.NodeName)
	if p.DeletionTimestamp != nil {
		text += ", deleting"
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			text += fmt.Sprintf(", %s: %.160s", c.Reason, c.Message)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		switch s := c.State; {
		case s.Running != nil:
			text += ", " + c.Name + " running"
		case s.Waiting != nil:
			text += fmt.Sprintf(", %s waiting (%s: %.80s)", c.Name, s.Waiting.Reason, s.Waiting.Message)
		case s.Terminated != nil:
			text += fmt.Sprintf(", %s terminated (%s)", c.Name, s.Terminated.Reason)
		}
	}
	return text
}

// get is a Pod as it was seen last; nil if it is not there.
func (w *world) get(name string) *corev1.Pod {
	p, err := w.podList.Pods(w.name).Get(name)
	if err != nil {
		return nil // the cache knows no other error
	}
	return p
}

// list are the Pods of the world, the oldest first.
func (w *world) list() []*corev1.Pod {
	pods, err := w.podList.Pods(w.name).List(labels.Everything())
	if err != nil {
		return nil // the cache knows no error
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return pods
}

var errNone = errors.New("there is none")

// isPod looks at a Pod.
func (w *world) isPod(name string, fits func(*corev1.Pod) bool) func() error {
	return func() error {
		p := w.get(name)
		switch {
		case p == nil:
			return errNone
		case !fits(p):
			return errors.New(describe(p))
		}
		return nil
	}
}

// readyPod waits until a Pod is Ready.
func (w *world) readyPod(name string) *corev1.Pod {
	w.soon("Pod "+name+" is Ready", w.isPod(name, isReady))
	return w.get(name)
}

// notReadyPod waits until a Pod is there and not Ready, and returns how long that took.
func (w *world) notReadyPod(name string, d time.Duration) time.Duration {
	return w.within(d, "Pod "+name+" is not Ready", w.isPod(name, func(p *corev1.Pod) bool { return !isReady(p) }))
}

// neverReady checks that a Pod is not Ready for d.
func (w *world) neverReady(name string, d time.Duration) {
	w.throughout(d, "Pod "+name+" is not Ready", w.isPod(name, func(p *corev1.Pod) bool { return !isReady(p) }))
}

// goneWithin waits until a Pod is gone.
func (w *world) goneWithin(name string, uid types.UID, d time.Duration) time.Duration {
	return w.within(d, "Pod "+name+" is gone", func() error {
		if p := w.get(name); p != nil && (uid == "" || p.UID == uid) {
			return errors.New(describe(p))
		}
		return nil
	})
}

// history are the changes of the world's Pods so far, in the API's order.
func (w *world) history() []moment {
	w.lab.mu.Lock()
	defer w.lab.mu.Unlock()
	return slices.Clone(w.moments[w.name])
}

// node is the Node of a base; nil if there is none. It is found by the addresses that the documents
// give it, since controllers name Nodes differently.
func (w *world) node(b *base) *corev1.Node {
	nodes, err := w.nodeList.List(labels.Everything())
	if err != nil {
		return nil // the cache knows no error
	}
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && a.Address == b.ip || n.Labels[corev1.LabelHostname] == b.host {
				return n
			}
		}
	}
	return nil
}

func nodeCondition(n *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// isNode looks at the Node of a base.
func (w *world) isNode(b *base, look func(*corev1.Node) error) func() error {
	return func() error {
		n := w.node(b)
		if n == nil {
			return errors.New("the base has no Node")
		}
		return look(n)
	}
}

// nodeReady waits until the Node of a base is Ready.
func (w *world) nodeReady(b *base) (*corev1.Node, time.Duration) {
	took := w.within(w.patience, "the Node of the base is Ready", w.isNode(b, func(n *corev1.Node) error {
		if s := nodeCondition(n, corev1.NodeReady); s != corev1.ConditionTrue {
			return fmt.Errorf("node %s has Ready %q", n.Name, s)
		}
		return nil
	}))
	return w.node(b), took
}

// hasModules waits until a base has exactly these modules, as name:version STATE.
func (w *world) hasModules(b *base, want ...string) time.Duration {
	return w.soon("the base's modules are as wanted", modulesAre(b, want...))
}

func modulesAre(b *base, want ...string) func() error {
	return func() error {
		if got := b.has(); !slices.Equal(got, append([]string{}, want...)) {
			return fmt.Errorf("the base has %v, want %v", got, want)
		}
		return nil
	}
}

// create makes a Pod, and waits until it is seen.
func (w *world) create(p *corev1.Pod) *corev1.Pod {
	p.Namespace = w.name
	made, err := w.client.CoreV1().Pods(w.name).Create(w.ctx, p, metav1.CreateOptions{})
	w.must(err)
	w.seen("Pod "+p.Name, func(m moment) bool { return m.pod.UID == made.UID })
	return made
}

// remove deletes a Pod, and waits until that is seen; grace 0 is kubectl delete --force.
func (w *world) remove(name string, grace ...int64) {
	p, err := w.client.CoreV1().Pods(w.name).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	o := metav1.DeleteOptions{}
	if len(grace) > 0 {
		o.GracePeriodSeconds = &grace[0]
	}
	w.must(w.client.CoreV1().Pods(w.name).Delete(w.ctx, name, o))
	w.seen("the deletion of Pod "+name, func(m moment) bool { return m.pod.UID == p.UID && (m.gone || m.pod.DeletionTimestamp != nil) })
}

// patch merges a change into a Pod, and waits until that is seen.
func (w *world) patch(name, change string) {
	p, err := w.client.CoreV1().Pods(w.name).Patch(w.ctx, name, types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{})
	w.must(err)
	w.seen("the change of Pod "+name, func(m moment) bool {
		return m.pod.UID == p.UID && (m.gone || m.pod.ResourceVersion == p.ResourceVersion || m.pod.Generation > p.Generation)
	})
}

// seen waits until a moment of the world's Pods fits.
func (w *world) seen(what string, fits func(moment) bool) {
	w.within(w.patience, what+" is seen", func() error {
		if !slices.ContainsFunc(w.history(), fits) {
			return errNone
		}
		return nil
	})
}

// sameCommands says how the commands that change modules differ from what is wanted.
func sameCommands(b *base, want ...string) error {
	var got []string
	for _, c := range b.got(nil) {
		got = append(got, c.String())
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("the base was sent %v, want %v", got, want)
	}
	return nil
}
