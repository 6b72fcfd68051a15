package demo

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// instant is the maximum gap between the deactivation of the old version and the activation of the new version that
// is printed as an immediate switch.
const instant = 5 * time.Millisecond

// baseTracker tracks the active version of the demo module on a base, and gaps during which no version is active.
type baseTracker struct {
	state    events.State
	since    time.Time // start of the gap without an active version; zero outside a gap
	before   string    // active version before the gap
	reported bool      // whether a message about the gap was printed
}

// apply applies a module event and returns the message to print, or the empty string. bad reports whether the message
// is about a time without an active version.
func (p *baseTracker) apply(base string, e events.Event) (text string, bad bool) {
	old := p.version(e.Module.Base, events.ModuleActivated)
	p.state.Apply(e)
	active := p.version(e.Module.Base, events.ModuleActivated)
	switch {
	case old != "" && active == "":
		p.since, p.before, p.reported = e.Time, old, false
		if p.version(e.Module.Base, events.ModuleResolved) == "" { // no version is being installed
			p.reported = true
			return fmt.Sprintf("%s: %s was removed; no version is active", base, old), true
		}
	case active != "" && old == "" && p.before != "":
		gap := e.Time.Sub(p.since)
		before := p.before
		p.since, p.before = time.Time{}, ""
		if gap < instant && !p.reported {
			return fmt.Sprintf("%s switches from %s to %s", base, before, active), false
		}
		return fmt.Sprintf("%s: %s is active after %d ms", base, active, gap.Milliseconds()), true
	case old != "" && e.Module.State == events.ModuleActivated && e.Module.Version != old:
		return fmt.Sprintf("%s switches from %s to %s", base, old, e.Module.Version), false
	}
	return "", false
}

// version returns the version of the first module in the given state on a base, or the empty string.
func (p *baseTracker) version(base string, state events.ModuleState) string {
	if b := p.state.Bases.Get(base); b != nil {
		for _, m := range b.Modules {
			if m.State == state {
				return m.Version
			}
		}
	}
	return ""
}
