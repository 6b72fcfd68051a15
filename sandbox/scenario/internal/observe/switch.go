package observe

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario/timeline"
)

// States of a module: those between which a base switches, and that of one that is
// gone, which no list of modules shows any more (protocol 5.1).
const (
	activated   = "ACTIVATED"
	deactivated = "DEACTIVATED"
	stopped     = "STOPPED"
)

// otherHalf is how long the other half of a switch may take to come; both are sent
// in one go.
const otherHalf = 20 * time.Millisecond

// hold keeps the first half of a switch until the second has come, and tells
// whether it has taken care of the event. A base that switches from one version to
// another does so at one moment, and tells it by two events of that moment:
// conditions must not be evaluated between them. w.mu is held.
func (w *World) hold(e timeline.Event) bool {
	if e.Base == "" || e.Kind != timeline.Module && e.Kind != timeline.Base {
		return false
	}
	first, held := w.held[e.Base]
	if held {
		delete(w.held, e.Base)
		w.apply(first)
		if !e.Time.Equal(first.Time) {
			w.announce(first)
		}
	}
	b := w.bases[e.Base]
	if e.Kind != timeline.Module || e.State != deactivated || b == nil ||
		b.Modules[timeline.ModuleRef{Name: e.Module, Version: e.Version}] != activated {
		return false
	}
	w.held[e.Base] = e
	time.AfterFunc(otherHalf, func() { w.release(e) })
	return true
}

// release tells a half of which there was no other.
func (w *World) release(e timeline.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first, held := w.held[e.Base]; held && first.Time.Equal(e.Time) && first.Version == e.Version {
		delete(w.held, e.Base)
		w.apply(first)
		w.announce(first)
	}
}
