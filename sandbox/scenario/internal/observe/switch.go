package observe

import (
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
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
	if e.Kind != timeline.Module || timeline.ModuleState(e.State) != timeline.ModuleDeactivated || !strings.HasPrefix(e.Message, switched) {
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
