package vpod

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/handover"
)

// writeStatuses writes the status of all Pods of a module on a base, in the order that loses no
// request.
func (p *Provider) writeStatuses(ctx context.Context, key workerKey, b base.Snapshot) error {
	views := slices.DeleteFunc(p.store.views(key), func(v view) bool { return v.deleting })
	byKey := map[string]view{}
	pods := make([]handover.Pod, 0, len(views))
	for i, v := range views {
		byKey[string(v.uid)] = v
		target := p.desiredStatus(v.entry, b, *v.pod.Status.DeepCopy())
		pods = append(pods, handover.Pod{Key: string(v.uid), Created: v.pod.CreationTimestamp.Time, Seen: uint64(i), IsReady: p.writer.isReady(v.entry, v.pod), Ready: isReady(&target)})
	}
	leave := func() {}
	steps := handover.Order(pods, func() (ok bool) {
		first := views[0].pod
		leave, ok = p.gaps.enter(first.Namespace+"/"+key.module, first.Spec.NodeName, func(gap map[string]int) bool {
			return p.informer.readyElsewhere(first.Namespace, key.module, first.Spec.NodeName, gap)
		})
		return ok
	})
	defer func() { leave() }()
	for _, s := range steps {
		v := byKey[s.Key]
		if s.PreferDeletion {
			if err := p.writer.preferDeletion(ctx, v.entry, v.pod); err != nil {
				return err
			}
			continue
		}
		if err := p.writeStatus(ctx, v.entry, v.pod, b, true); err != nil {
			return err
		}
	}
	return nil
}

// desiredStatus is the status that a Pod should have.
func (p *Provider) desiredStatus(e *entry, b base.Snapshot, before corev1.PodStatus) corev1.PodStatus {
	pod, modules := p.moduleStates(e, b)
	return statusOf(pod, b, modules, p.opts.Failed, before, time.Now())
}

// writeStatus brings one Pod's status up to date. Unless ready is set it writes nothing that
// changes whether the Pod is Ready: only writeStatuses knows the order.
func (p *Provider) writeStatus(ctx context.Context, e *entry, pod *corev1.Pod, b base.Snapshot, ready bool) error {
	writing, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	nowReady := false
	gone, err := p.writer.status(writing, e, pod, func(before corev1.PodStatus) corev1.PodStatus {
		status := p.desiredStatus(e, b, before)
		if !ready && isReady(&status) != isReady(&before) {
			status = before
		}
		nowReady = isReady(&status)
		return status
	})
	if err != nil {
		return err
	}
	p.store.change(func() {
		switch {
		case gone: // the informer will say so too
		case nowReady:
			e.notReadySince = time.Time{}
		case e.notReadySince.IsZero():
			e.notReadySince = time.Now()
		}
	})
	return nil
}

// writeAccepted writes the status of a Pod whose install takes long: it is accepted, and waits.
// Turning Ready, or Not Ready since a newer Pod's version serves, is left to writeStatuses.
func (p *Provider) writeAccepted(ctx context.Context, e *entry) {
	var pod *corev1.Pod
	p.store.read(func() {
		if !e.deleting {
			pod = e.pod
		}
	})
	b, known := p.registry.Get(e.identity)
	if pod == nil || !known {
		return
	}
	if err := p.writeStatus(ctx, e, pod, b, false); err != nil && ctx.Err() == nil {
		p.opts.Logger.Warn("could not write that a pod is accepted", "pod", nameOf(pod).String(), "err", err)
	}
}

// moduleStates says of each container of a Pod how things are on the base.
func (p *Provider) moduleStates(e *entry, b base.Snapshot) (*corev1.Pod, []moduleState) {
	var pod *corev1.Pod
	var modules []module
	var failures map[string]failure
	p.store.read(func() { pod, modules, failures = e.pod, e.modules, maps.Clone(e.failures) })
	list := make([]moduleState, 0, len(modules))
	for _, m := range modules {
		s := moduleState{module: m, failure: failures[m.Name]}
		s.biz, s.there = b.Module(m.Name, m.Version)
		for _, other := range p.store.views(workerKey{e.identity, m.Name}) {
			if other.wants() && other.uid != e.uid && other.module.Version != m.Version &&
				isActive(b, other.module.Module) && older(view{entry: e, pod: pod}, other) < 0 {
				s.superseded = true
			}
		}
		list = append(list, s)
	}
	return pod, list
}

// gaps knows on which Nodes a module's old Pod is Not Ready already and its new one not Ready yet:
// such a Node does not count as one that serves.
type gaps struct {
	mu   sync.Mutex
	open map[string]map[string]int // by module of a namespace, then Node
}

// enter opens a gap on a Node unless no other Node serves; served is asked with the Nodes that are
// in a gap.
func (g *gaps) enter(module, node string, served func(gap map[string]int) bool) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !served(g.open[module]) {
		return func() {}, false
	}
	if g.open[module] == nil {
		g.open[module] = map[string]int{}
	}
	g.open[module][node]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open[module][node]--; g.open[module][node] == 0 {
			delete(g.open[module], node)
			maps.DeleteFunc(g.open, func(_ string, nodes map[string]int) bool { return len(nodes) == 0 })
		}
	}, true
}
