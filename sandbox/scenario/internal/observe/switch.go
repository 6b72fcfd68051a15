package observe

import (
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// switched begins what a base says of the version that it switches from (protocol 5.2); the other
// half of the switch follows at once.
const switched = "switch to new "

// otherHalf is how long the other half may take to come: a busy machine's worst.
const otherHalf = time.Second

// hold keeps the first half of a switch until the second has come, and tells whether it has taken
// care of the event. A base that switches from one version to another does so at one moment, and
// tells it by two events of that moment: conditions must not be evaluated between them. w.mu is
// held.
func (w *World) hold(e events.Event) bool {
	base, m := e.BaseName(), e.Module
	if base == "" || m == nil && e.Base == nil {
		return false
	}
	first, held := w.held[base]
	if held {
		delete(w.held, base)
		w.apply(first)
		if !e.Time.Equal(first.Time) {
			w.announce(first)
		}
	}
	if m == nil || m.State != events.ModuleDeactivated || !strings.HasPrefix(m.Message, switched) {
		return false
	}
	w.held[base] = e
	time.AfterFunc(otherHalf, func() { w.release(e) })
	return true
}

// release tells a half of which there was no other.
func (w *World) release(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first, held := w.held[e.Module.Base]; held && first.Module == e.Module {
		delete(w.held, e.Module.Base)
		w.apply(first)
		w.announce(first)
	}
}
