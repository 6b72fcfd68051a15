package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// States as events spell them.
const (
	resolved    = "RESOLVED"
	activated   = "ACTIVATED"
	broken      = "BROKEN"
	stopped     = "STOPPED"
	unresolved  = "UNRESOLVED"
	baseUp      = "up"
	baseReady   = "ready"
	baseDown    = "down"
	installBiz  = "installBiz"
	controller  = "module-controller" // and -2, and so on
	daemonSet   = "DaemonSet/"
	statefulSet = "StatefulSet/"
)

// world is what there is.
type world struct {
	bases     map[string]*base
	pods      map[string]*pod // by UID
	endpoints map[string][]timeline.Endpoint
	seen      int // Pods so far
}

// base is one base by its name, through all of its processes.
type base struct {
	name    string
	running bool
	ready   bool // it has started; what it has before are its own modules
	worked  bool // it has had a module
	modules map[timeline.ModuleRef]*module
}

// module is one version that is on a base.
type module struct {
	state string
	since time.Time // when it came
	own   bool      // from the base itself, or from before the run
}

// pod is a Pod, also when it is gone.
type pod struct {
	timeline.PodState
	base       string
	number     int       // order of first sight
	readySince time.Time // zero while it is not Ready
}

// change is what an event has changed.
type change struct {
	timeline.Event
	pod    *pod
	before timeline.PodState // of the Pod; Gone for one that was not known
}

func newWorld() world {
	return world{bases: map[string]*base{}, pods: map[string]*pod{}, endpoints: map[string][]timeline.Endpoint{}}
}

func (w *world) base(name string) *base {
	b := w.bases[name]
	if b == nil {
		b = &base{name: name, running: true, ready: true, modules: map[timeline.ModuleRef]*module{}}
		w.bases[name] = b
	}
	return b
}

func (w *world) apply(e timeline.Event) change {
	c := change{Event: e}
	switch e.Kind {
	case timeline.Synced:
		for _, b := range w.bases { // so far it was told what had been before
			for _, m := range b.modules {
				m.own = true
			}
		}
	case timeline.Base:
		b := w.base(e.Base)
		switch e.State {
		case baseUp:
			b.running, b.ready = true, false
			clear(b.modules)
		case baseReady:
			b.running, b.ready = true, true
		case baseDown:
			b.running, b.ready = false, false
			clear(b.modules)
		}
	case timeline.Module:
		w.base(e.Base).note(e)
	case timeline.Pod:
		if e.Pod != nil {
			c.pod, c.before = w.notePod(e)
		}
	case timeline.Endpoints:
		w.endpoints[e.Name] = e.Endpoints
	}
	return c
}

func (b *base) note(e timeline.Event) {
	ref := timeline.ModuleRef{Name: e.Module, Version: e.Version}
	switch e.State {
	case "", stopped, unresolved: // a base forgets what has stopped
		delete(b.modules, ref)
		return
	}
	m := b.modules[ref]
	if m == nil {
		m = &module{since: e.Time, own: !b.ready}
		b.modules[ref], b.worked = m, true
	}
	m.state = e.State
}

func (w *world) notePod(e timeline.Event) (*pod, timeline.PodState) {
	p := w.pods[e.Pod.UID]
	before := timeline.PodState{Gone: true}
	if p == nil {
		w.seen++
		p = &pod{number: w.seen}
		w.pods[e.Pod.UID] = p
	} else {
		before = p.PodState
	}
	p.PodState = *e.Pod
	if e.Base != "" {
		p.base = e.Base
	}
	switch {
	case !p.serves():
		p.readySince = time.Time{}
	case p.readySince.IsZero():
		p.readySince = e.Time
	}
	return p, before
}

// wants tells whether the Pod is there so that the module is active.
func (p *pod) wants(name string) bool {
	return !p.Gone && !p.Deleting && p.Phase != "Failed" && p.Phase != "Succeeded" && p.has(name)
}

func (p *pod) has(name string) bool {
	return slices.ContainsFunc(p.Modules, func(m timeline.ModuleRef) bool { return m.Name == name })
}

func (p *pod) version(name string) string {
	for _, m := range p.Modules {
		if m.Name == name {
			return m.Version
		}
	}
	return ""
}

// serves tells whether the Pod is Ready and stays: one that is being deleted is in
// no Service any more, whatever its condition says.
func (p *pod) serves() bool { return p.Ready && !p.Gone && !p.Deleting }

// all returns the Pods in the order of their first sight.
func (w *world) all() []*pod {
	return slices.SortedFunc(maps.Values(w.pods), func(a, b *pod) int { return cmp.Compare(a.number, b.number) })
}

// wanted tells whether a Pod on the base wants the module.
func (w *world) wanted(base, module string) bool {
	for _, p := range w.pods {
		if p.base == base && p.wants(module) {
			return true
		}
	}
	return false
}

// isActive tells whether the base has the version active; empty = any version.
func (b *base) isActive(name, version string) bool {
	for ref, m := range b.modules {
		if ref.Name == name && (version == "" || ref.Version == version) && m.state == activated {
			return true
		}
	}
	return false
}

// compare orders by the first difference: first n, then the pairs.
func compare(n int, pairs ...string) int {
	for i := 0; n == 0 && i < len(pairs); i += 2 {
		n = cmp.Compare(pairs[i], pairs[i+1])
	}
	return n
}

// many says a number with its noun.
func many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
