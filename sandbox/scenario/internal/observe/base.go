package observe

import (
	"strconv"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

// Base is a base of the run.
type Base = expr.Base

// AddBases records bases that the daemon has created.
func (w *Recorder) AddBases(bases ...control.Base) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range bases {
		name := w.shortName(c.HostName)
		w.versions[name] = c.Version
		apply := func(change events.BaseChange) {
			w.state.Apply(events.Event{Base: &events.BaseEvent{Base: name, Identity: c.Identity, Change: change}})
		}
		apply(events.BaseAdded)
		switch b := w.state.Bases.Get(name); { // events may have reported a later state
		case c.Ready && !b.Ready:
			apply(events.BaseReady)
		case c.Running && !b.Running:
			apply(events.BaseUp)
		}
		if c.Connected {
			apply(events.BaseConnected)
		}
	}
	w.notifyWatchers(topicBases, "bases were added")
}

// RemoveBases records that the bases with the given short names, in the form SET-N, were removed.
func (w *Recorder) RemoveBases(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.state.Apply(events.Event{Base: &events.BaseEvent{Base: name, Change: events.BaseRemoved}})
	}
	w.notifyWatchers(topicBases, "bases were removed")
}

// Bases returns the existing bases, keyed by name.
func (v Snapshot) Bases() map[string]Base {
	all := make(map[string]Base, v.w.state.Bases.Len())
	for b := range v.w.state.Bases.All() {
		if b.Removed {
			continue
		}
		known := Base{BaseStatus: *b, Version: v.w.versions[b.Name]}
		if cut := strings.LastIndex(b.Name, "-"); cut > 0 {
			known.Set = b.Name[:cut]
			if n, err := strconv.Atoi(b.Name[cut+1:]); err == nil {
				known.Index = n
			}
		}
		all[b.Name] = known
	}
	return all
}

// State returns the state after all recorded events.
func (v Snapshot) State() *events.State { return &v.w.state }

// shortName returns the short name SET-N of the base GROUP-SET-N.
func (w *Recorder) shortName(host string) string { return strings.TrimPrefix(host, w.o.Group+"-") }

// SetTraffic replaces the summaries of the given request streams.
func (w *Recorder) SetTraffic(all []traffic.Summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range all {
		w.traffic[s.Name] = s
	}
	w.notifyWatchers(topicTraffic, "traffic summaries were updated")
}
