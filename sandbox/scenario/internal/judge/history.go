package judge

import (
	"cmp"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

const (
	controller  = "module-controller" // the name of the first controller, and the prefix of the others
	daemonSet   = "DaemonSet/"
	statefulSet = "StatefulSet/"
)

// history contains the current state of the run, and those past events that the checks need.
type history struct {
	events.State
	hadModule     map[string]bool              // names of the bases on which a module was ever installed
	lastPods      map[string]*events.PodStatus // last state of every Pod, including removed Pods
	podKeysByBase map[string][]string          // keys of lastPods, by base
	ready         map[string]map[string]bool   // Pods with a ready endpoint, by Service
	published     map[string]bool              // names of the known Services with publishNotReadyAddresses
	// outages are the outages up to the current event.
	outages     outages
	unreachable unreachableBases
	// deletedAt is the time at which the deletion of a Pod started. boundAt is the time at which the Pod was bound to
	// a Node. The keys of both maps are Pod keys.
	deletedAt, boundAt map[string]time.Time
}

type appliedEvent struct {
	events.Event
	// pod is the current state of the Pod that the event concerns, or its last state if the Pod was removed; nil if
	// the event does not concern a Pod.
	pod *events.PodStatus
	// stayed reports whether the Pod existed before the event and was not being deleted. served reports whether the
	// Pod was Ready before the event.
	stayed, served bool
	// bases contains the bases that have an endpoint whose readiness has changed; nil unless the event concerns
	// endpoints.
	bases map[string]bool
}

func newHistory() history {
	return history{
		hadModule: map[string]bool{}, lastPods: map[string]*events.PodStatus{}, podKeysByBase: map[string][]string{},
		ready: map[string]map[string]bool{}, published: map[string]bool{},
		outages: outages{}, unreachable: unreachableBases{now: map[string]bool{}, removed: map[string]bool{}},
		deletedAt: map[string]time.Time{}, boundAt: map[string]time.Time{},
	}
}

func (w *history) apply(e events.Event) appliedEvent {
	w.Apply(e)
	c := appliedEvent{Event: e}
	switch {
	case e.Module != nil:
		w.hadModule[e.Module.Base] = w.hadModule[e.Module.Base] || !e.Module.State.Absent()
	case e.Endpoints != nil:
		service := e.Endpoints.Service
		before, ready := w.ready[service], map[string]bool{}
		for _, p := range e.Endpoints.Endpoints {
			// Only publishNotReadyAddresses makes Kubernetes show an endpoint as ready while its Pod is not Ready.
			switch published := !p.Serving || p.Terminating; {
			case p.Ready && published:
				w.published[service] = true
			case p.Ready:
				ready[p.Pod] = true
			}
		}
		w.ready[service], c.bases = ready, map[string]bool{}
		for p := range w.Pods.All() {
			if p.Base != "" && before[p.Name] != ready[p.Name] {
				c.bases[p.Base] = true
			}
		}
	case e.Pod != nil:
		key := e.Pod.PodKey()
		before := w.lastPods[key]
		if before == nil {
			before = &events.PodStatus{PodState: events.PodState{Gone: true}}
		}
		c.stayed, c.served = !before.Gone && !before.Deleting, before.Serves()
		c.pod = w.Pods.Get(key)
		if c.pod == nil {
			c.pod = &events.PodStatus{PodState: e.Pod.PodState,
				Base: cmp.Or(e.Pod.Base, before.Base, w.BaseOf(e.Pod.Node))}
		}
		w.lastPods[key] = c.pod
		if c.pod.Base != before.Base {
			w.podKeysByBase[c.pod.Base] = append(w.podKeysByBase[c.pod.Base], key)
		}
		if _, known := w.boundAt[key]; c.pod.Base != "" && !known {
			w.boundAt[key] = e.Time
		}
		if _, known := w.deletedAt[key]; e.Pod.Deleting && !known {
			w.deletedAt[key] = e.Time
		}
	}
	return c
}

// processEnded reports whether the process of a base has ended. A base without events is treated as running.
func (w *history) processEnded(base string) bool {
	b := w.Bases.Get(base)
	return b != nil && !b.Running
}

// onEarlierProcess reports whether the Node of a Pod belongs to an earlier process of the base, which has another
// identity. An unknown identity is treated as equal to every identity.
func (w *history) onEarlierProcess(p *events.PodStatus) bool {
	b := w.Bases.Get(p.Base)
	return b != nil && b.Identity != "" && strings.HasPrefix(p.Node, events.NodePrefix) &&
		p.Node != events.NodePrefix+b.Identity
}

// wanted reports whether a Pod that is bound to the current process of the base requests the module.
func (w *history) wanted(base, module string) bool {
	for p := range w.PodsOn(base) {
		if p.Requires(module) && !w.onEarlierProcess(p) {
			return true
		}
	}
	return false
}

func (w *history) hasReadyPod(module string) bool {
	for p := range w.Pods.All() {
		if p.Serves() && p.HasModule(module) {
			return true
		}
	}
	return false
}
