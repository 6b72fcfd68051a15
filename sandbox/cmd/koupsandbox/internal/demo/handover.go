package demo

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

const active = "ACTIVATED"

// instant is how far the two events of one switch may be apart.
const instant = 5 * time.Millisecond

// place is a base: which version answers there, and since when none does.
type place struct {
	states map[string]string // by version
	since  time.Time         // of the gap; zero = there is none
	before string            // the version before the gap
	told   bool              // the gap was told
}

// change takes a change of a module and returns what is worth telling; empty if
// nothing is.
func (p *place) change(base string, e timeline.Event) (text string, bad bool) {
	was := p.answering()
	if e.State == "" {
		delete(p.states, e.Version)
	} else {
		p.states[e.Version] = e.State
	}
	is := p.answering()
	switch {
	case was != "" && is == "":
		p.since, p.before, p.told = e.Time, was, false
		if !p.coming() {
			p.told = true
			return fmt.Sprintf("%s: %s is removed, nobody answers", base, was), true
		}
	case is != "" && was == "" && p.before != "":
		gap := e.Time.Sub(p.since)
		before := p.before
		p.since, p.before = time.Time{}, ""
		if gap < instant && !p.told {
			return fmt.Sprintf("%s switches from %s to %s", base, before, is), false
		}
		return fmt.Sprintf("%s: %s answers after %d ms", base, is, gap.Milliseconds()), true
	case was != "" && e.State == active && e.Version != was:
		return fmt.Sprintf("%s switches from %s to %s", base, was, e.Version), false
	}
	return "", false
}

// answering returns the version that is active; empty if none is.
func (p *place) answering() string {
	for version, state := range p.states {
		if state == active {
			return version
		}
	}
	return ""
}

// coming tells whether a version is about to become active.
func (p *place) coming() bool {
	for _, state := range p.states {
		if state == "RESOLVED" {
			return true
		}
	}
	return false
}
