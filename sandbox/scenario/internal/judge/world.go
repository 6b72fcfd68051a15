package judge

import (
	"cmp"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

const (
	controller  = "module-controller" // and -2, and so on
	daemonSet   = "DaemonSet/"
	statefulSet = "StatefulSet/"
)

// world is the state, with the parts of the past that the checks need.
type world struct {
	events.State
	worked    map[string]bool              // bases that have had a module
	ever      map[string]*events.PodStatus // the last state of every Pod
	everOn    map[string][]string          // their keys, by base
	ready     map[string]map[string]bool   // Pods with a ready endpoint, by Service
	published map[string]bool              // Services with publishNotReadyAddresses, as far as known
	// outages so far.
	outages outages
	silent  silentBases
	// ending is since when a Pod is being deleted, and bound since when it has a Node, by its key.
	ending, bound map[string]time.Time
}

type change struct {
	events.Event
	// pod is the Pod as it is now, also if it is gone; nil if the event is about none.
	pod *events.PodStatus
	// stayed tells whether it was there before and was not being deleted, served whether it served.
	stayed, served bool
	// bases are those where an endpoint became ready, or ceased to be, if the event is about endpoints.
	bases map[string]bool
}

func newWorld() world {
	return world{
		worked: map[string]bool{}, ever: map[string]*events.PodStatus{}, everOn: map[string][]string{},
		ready: map[string]map[string]bool{}, published: map[string]bool{},
		outages: outages{}, silent: silentBases{now: map[string]bool{}, removed: map[string]bool{}},
		ending: map[string]time.Time{}, bound: map[string]time.Time{},
	}
}

func (w *world) apply(e events.Event) change {
	w.Apply(e)
	c := change{Event: e}
	switch {
	case e.Module != nil:
		w.worked[e.Module.Base] = w.worked[e.Module.Base] || !e.Module.State.Absent()
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
		before := w.ever[key]
		if before == nil {
			before = &events.PodStatus{PodState: events.PodState{Gone: true}}
		}
		c.stayed, c.served = !before.Gone && !before.Deleting, before.Serves()
		c.pod = w.Pods.Get(key)
		if c.pod == nil {
			c.pod = &events.PodStatus{PodState: e.Pod.PodState,
				Base: cmp.Or(e.Pod.Base, before.Base, w.BaseOf(e.Pod.Node))}
		}
		w.ever[key] = c.pod
		if c.pod.Base != before.Base {
			w.everOn[c.pod.Base] = append(w.everOn[c.pod.Base], key)
		}
		if _, known := w.bound[key]; c.pod.Base != "" && !known {
			w.bound[key] = e.Time
		}
		if _, known := w.ending[key]; e.Pod.Deleting && !known {
			w.ending[key] = e.Time
		}
	}
	return c
}

// ended reports whether the process of a base has ended. A base without events is running.
func (w *world) ended(base string) bool {
	b := w.Bases.Get(base)
	return b != nil && !b.Running
}

// another reports whether a Pod's Node belongs to an earlier process of its base, which had another identity. Unknown
// identities are treated as the same.
func (w *world) another(p *events.PodStatus) bool {
	b := w.Bases.Get(p.Base)
	return b != nil && b.Identity != "" && strings.HasPrefix(p.Node, events.NodePrefix) &&
		p.Node != events.NodePrefix+b.Identity
}

// wanted reports whether a Pod wants the module that is bound to the process which the base has now.
func (w *world) wanted(base, module string) bool {
	for p := range w.PodsOn(base) {
		if p.Requires(module) && !w.another(p) {
			return true
		}
	}
	return false
}

func (w *world) serves(module string) bool {
	for p := range w.Pods.All() {
		if p.Serves() && p.HasModule(module) {
			return true
		}
	}
	return false
}
