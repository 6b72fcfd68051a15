package observe

import (
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// switched is the beginning of the message of the version that is replaced; the event of the new version follows immediately.
const switched = "switch to new "

// otherHalf is the longest time until the second event of a switch.
const otherHalf = time.Second

// hold keeps the first event of a switch until the second one arrives, and reports whether it has handled e. A base switches
// versions at one moment and reports it by two events. Conditions must not be evaluated between them. w.mu is held.
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

// release applies the first event of a switch without a second one.
func (w *World) release(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first, held := w.held[e.Module.Base]; held && first.Module == e.Module {
		delete(w.held, e.Module.Base)
		w.apply(first)
		w.announce(first)
	}
}
