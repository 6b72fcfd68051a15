package observe

import (
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// switchMessagePrefix is the start of an event message. The event deactivates the old version in a version switch,
// and the event that activates the new version follows immediately.
const switchMessagePrefix = "switch to new "

// switchTimeout is how long to wait for the second event of a version switch.
const switchTimeout = time.Second

// holdSwitch holds back e if it is the first event of a version switch, and reports whether e is held back. A base
// switches versions atomically but reports two events, and conditions must not be evaluated between them. The event is
// applied when the next event of the base arrives, or after switchTimeout. w.mu must be held.
func (w *Recorder) holdSwitch(e events.Event) bool {
	base, m := e.BaseName(), e.Module
	if base == "" || m == nil && e.Base == nil {
		return false
	}
	first, held := w.pendingSwitches[base]
	if held {
		delete(w.pendingSwitches, base)
		w.apply(first)
		if !e.Time.Equal(first.Time) {
			w.announce(first)
		}
	}
	if m == nil || m.State != events.ModuleDeactivated || !strings.HasPrefix(m.Message, switchMessagePrefix) {
		return false
	}
	w.pendingSwitches[base] = e
	time.AfterFunc(switchTimeout, func() { w.releaseSwitch(e) })
	return true
}

// releaseSwitch applies the first event of a version switch if it is still held back because the second event has not
// arrived.
func (w *Recorder) releaseSwitch(e events.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first, held := w.pendingSwitches[e.Module.Base]; held && first.Module == e.Module {
		delete(w.pendingSwitches, e.Module.Base)
		w.apply(first)
		w.announce(first)
	}
}
