package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// vigil sees every renewal of every base's lease, and every change of a Node.
type vigil struct {
	leases, nodes watch.Interface
	done          sync.WaitGroup

	// Of the two goroutines, each uses its own; end reads them when both have ended.
	renewed  map[string]time.Time
	limit    map[string]time.Duration
	seen     vigilance
	missed   map[string]bool
	notReady map[string]bool
	errs     [2]error
}

// vigilance is what was seen.
type vigilance struct {
	missed, notReady int           // leases, Nodes
	longest          time.Duration // between two renewals
}

// keepVigil begins with the leases and Nodes of n bases.
func keepVigil(ctx context.Context, client kubernetes.Interface, n int) (*vigil, error) {
	v := &vigil{renewed: map[string]time.Time{}, limit: map[string]time.Duration{}, missed: map[string]bool{}, notReady: map[string]bool{}}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	ofBases := metav1.ListOptions{LabelSelector: module.LabelComponent + "=vnode-lease"}
	list, err := leases.List(ctx, ofBases)
	if err != nil {
		return nil, fmt.Errorf("listing the leases: %w", err)
	}
	if len(list.Items) != n {
		return nil, fmt.Errorf("%d bases have %d leases", n, len(list.Items))
	}
	for i := range list.Items {
		v.lease(&list.Items[i])
	}
	nodes := client.CoreV1().Nodes()
	known, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes: %w", err)
	}
	for i := range known.Items {
		v.node(&known.Items[i])
	}
	if v.leases, err = watchFrom(ctx, list.ResourceVersion, ofBases.LabelSelector, leases.Watch); err != nil {
		return nil, fmt.Errorf("watching the leases: %w", err)
	}
	if v.nodes, err = watchFrom(ctx, known.ResourceVersion, "", nodes.Watch); err != nil {
		v.leases.Stop()
		return nil, fmt.Errorf("watching the Nodes: %w", err)
	}
	v.done.Go(func() {
		v.errs[0] = each(v.leases, "leases", func(e watch.Event) {
			if l, is := e.Object.(*coordinationv1.Lease); is {
				v.lease(l)
			}
		})
	})
	v.done.Go(func() {
		v.errs[1] = each(v.nodes, "Nodes", func(e watch.Event) {
			if n, is := e.Object.(*corev1.Node); is {
				v.node(n)
			}
		})
	})
	return v, nil
}

// each hands events on until the watch is stopped.
func each(w watch.Interface, of string, take func(watch.Event)) error {
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return fmt.Errorf("watching the %s: %w", of, apierrors.FromObject(e.Object))
		}
		take(e)
	}
	return nil
}

// lease takes a lease as it is now written. Its times are the controller's.
func (v *vigil) lease(l *coordinationv1.Lease) {
	now := ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}).Time
	v.limit[l.Name] = time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
	v.passed(l.Name, now)
	v.renewed[l.Name] = now
}

// passed takes note of the time since the last renewal.
func (v *vigil) passed(name string, now time.Time) {
	before, known := v.renewed[name]
	if !known {
		return
	}
	v.seen.longest = max(v.seen.longest, now.Sub(before))
	if now.Sub(before) > v.limit[name] {
		v.missed[name] = true
	}
}

func (v *vigil) node(n *corev1.Node) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			v.notReady[n.Name] = true
		}
	}
}

// end returns what was seen; the time since the last renewal of each lease counts too.
func (v *vigil) end() (vigilance, error) {
	now := time.Now()
	v.leases.Stop()
	v.nodes.Stop()
	v.done.Wait()
	for name := range v.renewed {
		v.passed(name, now)
	}
	v.seen.missed, v.seen.notReady = len(v.missed), len(v.notReady)
	return v.seen, errors.Join(v.errs[0], v.errs[1])
}
