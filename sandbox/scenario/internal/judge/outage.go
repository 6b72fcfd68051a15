package judge

import (
	"strings"
	"time"
)

// How long after its return a component has to catch up.
const (
	// A controller may have to wait for the Lease of the one before, 40 s, and looks every 10 s.
	controllerRecovery = 50 * time.Second
	// Bases connect again after a second, and are asked for their modules every 15 s.
	otherRecovery = 20 * time.Second
)

// outage is a time in which a component was away, or a base disconnected.
type outage struct {
	component, base string
	from, to        time.Time // to is zero as long as it lasts
}

// outages are in the order of their beginnings.
type outages []outage

// note keeps when a component or the connection of a base goes and comes back.
func (all *outages) note(component, base string, away bool, now time.Time) {
	for i := range *all {
		if o := &(*all)[i]; o.component == component && o.base == base && o.to.IsZero() {
			if !away {
				o.to = now
			}
			return
		}
	}
	if away {
		*all = append(*all, outage{component: component, base: base, from: now})
	}
}

// countable is how much of a time on a base lies in no outage.
func (all outages) countable(base string, from, to time.Time) time.Duration {
	counted, at, end := time.Duration(0), time.Duration(0), to.Sub(from)
	for _, o := range all { // in the order of their beginnings
		if o.base != "" && o.base != base {
			continue
		}
		if began := o.from.Sub(from); began > at {
			counted += min(began, end) - at
		}
		if o.to.IsZero() {
			return counted
		}
		recovery := otherRecovery
		if strings.HasPrefix(o.component, controller) {
			recovery = controllerRecovery
		}
		at = max(at, min(end, o.to.Add(recovery).Sub(from)))
	}
	return counted + max(0, end-at)
}
