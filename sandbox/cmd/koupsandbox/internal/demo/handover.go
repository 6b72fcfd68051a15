package demo

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// instant is how far the two events of one switch may be apart.
const instant = 5 * time.Millisecond

// place is a base: which version answers there, and since when none does.
type baseTracker struct {
	state    events.State
	since    time.Time // of the gap; zero = there is none
	before   string    // the version before the gap
	reported bool      // the gap was told
}

// change applies a change of a module and returns a text for it; empty = nothing to print.
func (p *baseTracker) apply(base string, e events.Event) (text string, bad bool) {
	was := p.version(e.Module.Base, events.ModuleActivated)
	p.state.Apply(e)
	is := p.version(e.Module.Base, events.ModuleActivated)
	switch {
	case was != "" && is == "":
		p.since, p.before, p.reported = e.Time, was, false
		if p.version(e.Module.Base, events.ModuleResolved) == "" { // none is on its way
			p.reported = true
			return fmt.Sprintf("%s: %s is removed, nobody answers", base, was), true
		}
	case is != "" && was == "" && p.before != "":
		gap := e.Time.Sub(p.since)
		before := p.before
		p.since, p.before = time.Time{}, ""
		if gap < instant && !p.reported {
			return fmt.Sprintf("%s switches from %s to %s", base, before, is), false
		}
		return fmt.Sprintf("%s: %s answers after %d ms", base, is, gap.Milliseconds()), true
	case was != "" && e.Module.State == events.ModuleActivated && e.Module.Version != was:
		return fmt.Sprintf("%s switches from %s to %s", base, was, e.Module.Version), false
	}
	return "", false
}

// version returns the first version in a state; empty if none is.
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
