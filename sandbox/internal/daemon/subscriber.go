package daemon

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// waitingEvents is how many events may wait for a subscriber that reads slowly:
// some minutes of a busy sandbox. Events that say what is at the beginning do not
// count.
const waitingEvents = 1 << 16

// subscriber queues events for one stream. Whoever tells it something never waits.
type subscriber struct {
	group string // empty = all
	rpc.Queue[events.Event]
}

var _ fleet.Watcher = (*subscriber)(nil)

// sync ends the events that tell what is.
func (s *subscriber) sync() {
	s.Put(events.Event{Time: time.Now(), Synced: true})
	s.Limit(waitingEvents)
}

// follow calls sink for every event until ctx ends, the queue is closed, or events have been lost.
func (s *subscriber) follow(ctx context.Context, sink func(events.Event)) error {
	if err := s.Read(ctx, sink); err != nil {
		return rpc.Errorf(http.StatusServiceUnavailable, "%v; watch again", err)
	}
	return nil
}

func (s *subscriber) name(m *fleet.Member) string {
	if s.group == "" {
		return m.HostName
	}
	return m.Name()
}

// Shown tells how a base is.
func (s *subscriber) Shown(m *fleet.Member, v fleet.View) {
	if !v.Started {
		return // all about it is still to come
	}
	now := time.Now()
	s.Put(s.process(m, now, v)...)
	for _, biz := range v.Biz {
		s.Put(events.Event{Time: now, Module: &events.ModuleEvent{
			Base: s.name(m), Identity: v.Identity, ModuleRef: events.ModuleRef{Name: biz.Name, Version: biz.Version},
			State: moduleStates[biz.State],
		}})
	}
	for _, f := range v.Faults {
		if f.Ended == "" {
			s.fault(m, now, fakebase.FaultTrace{ID: f.ID, Kind: f.Kind, Code: f.Code, State: fakebase.FaultIsSet})
		}
	}
}

// process returns the events that report the present state of the process of a base.
func (s *subscriber) process(m *fleet.Member, now time.Time, v fleet.View) (list []events.Event) {
	for _, state := range []struct {
		change events.BaseChange
		holds  bool
	}{{events.BaseUp, v.Running}, {events.BaseReady, v.Ready}, {events.BaseConnected, v.Connected},
		{events.BaseDown, !v.Running}} {
		if state.holds {
			list = append(list,
				events.Event{Time: now,
					Base: &events.BaseEvent{Base: s.name(m), Identity: v.Identity, Change: state.change}})
		}
	}
	return list
}

// The kinds and states of fakebase as events name them.
var (
	baseChanges = map[fakebase.EventKind]events.BaseChange{
		fakebase.EventUp: events.BaseUp, fakebase.EventReady: events.BaseReady, fakebase.EventDown: events.BaseDown,
		fakebase.EventConnected: events.BaseConnected, fakebase.EventDisconnected: events.BaseDisconnected,
	}
	moduleStates = map[fakebase.State]events.ModuleState{
		fakebase.StateUnresolved: events.ModuleUnresolved, fakebase.StateResolved: events.ModuleResolved,
		fakebase.StateActivated: events.ModuleActivated, fakebase.StateDeactivated: events.ModuleDeactivated,
		fakebase.StateBroken: events.ModuleBroken, fakebase.StateStopped: events.ModuleStopped,
	}
	faultChanges = map[fakebase.FaultState]events.FaultChange{
		fakebase.FaultIsSet: events.FaultSet, fakebase.FaultTriggered: events.FaultTriggered,
		fakebase.FaultCleared: events.FaultCleared,
	}
)

// Changed reports an event of a base.
func (s *subscriber) Changed(m *fleet.Member, e fakebase.Event) {
	if e.Kind != fakebase.EventBiz {
		s.Put(events.Event{Time: e.Time,
			Base: &events.BaseEvent{Base: s.name(m), Identity: e.Identity, Change: baseChanges[e.Kind]}})
		return
	}
	x := events.ModuleEvent{
		Base: s.name(m), Identity: e.Identity, ModuleRef: events.ModuleRef{Name: e.Biz, Version: e.Version},
		From: moduleStates[e.From], State: moduleStates[e.To], Message: e.Message,
	}
	s.Put(events.Event{Time: e.Time, Module: &x})
	if e.To == fakebase.StateStopped { // the last state before the module is removed
		gone := x
		gone.From, gone.State, gone.Message = x.State, "", ""
		s.Put(events.Event{Time: e.Time, Module: &gone})
	}
}

// Traced reports a command or a fault of a base. It leaves out successful health checks, which would be most of the events
// of a large fleet.
func (s *subscriber) Traced(m *fleet.Member, t fakebase.Trace) {
	if t.Fault != nil {
		s.fault(m, t.Time, *t.Fault)
		return
	}
	c := t.Command
	if c.Name == events.CommandHealth && c.Code == "" {
		return
	}
	s.Put(events.Event{Time: t.Time, Command: &events.CommandEvent{
		Base: s.name(m), Identity: c.Identity, Name: c.Name, Module: events.ModuleRef{Name: c.Biz, Version: c.Version},
		Code: c.Code, Message: c.Message, Elapsed: c.Elapsed,
	}})
}

func (s *subscriber) fault(m *fleet.Member, at time.Time, f fakebase.FaultTrace) {
	s.Put(events.Event{Time: at, Fault: &events.FaultEvent{
		Target: v1alpha1.TargetBase, Base: s.name(m), ID: f.ID, Kind: f.Kind, Change: faultChanges[f.State],
		Message: f.Code,
	}})
}

// Gone tells that a base has been removed.
func (s *subscriber) Gone(m *fleet.Member) {
	s.Put(events.Event{Time: time.Now(), Base: &events.BaseEvent{Base: s.name(m), Change: "removed"}})
}

// streams are all subscribers, and what new ones are to know.
type streams struct {
	mu         sync.Mutex
	all        []*subscriber
	components []events.Event // the last of each, in order of their first
	// owners of groups: true while there is one, false when it has gone.
	owners map[string]bool
}

// add makes a subscriber that is told everything from now on, after what is.
func (s *streams) add(group string) *subscriber {
	sub := &subscriber{group: group}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.Put(s.components...)
	s.all = append(s.all, sub)
	return sub
}

func (s *streams) remove(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(x *subscriber) bool { return x == sub })
}

// component reports a new state of a component to all subscribers.
func (s *streams) component(at time.Time, name string, state supervise.State, message string) {
	e := events.Event{Time: at, Component: &events.ComponentEvent{Name: name, State: state, Message: message}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.all {
		sub.Put(e)
	}
	i := slices.IndexFunc(s.components, func(x events.Event) bool { return x.Component.Name == name })
	if i < 0 {
		s.components = append(s.components, e)
		return
	}
	s.components[i] = e
}

// fault reports an event of a fault to the subscribers of its group, or to all if it has none.
func (s *streams) fault(group string, e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.all {
		if group == "" || sub.group == "" || sub.group == group {
			sub.Put(e)
		}
	}
}

// knows reports whether a group has, or had, an owner.
func (s *streams) knows(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.owners[group]
	return known
}

// request tells of a lost request of a group.
func (s *streams) request(group string, at time.Time, r events.RequestEvent) {
	all := r
	if r.Base != "" {
		all.Base = group + "-" + r.Base
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.all {
		switch sub.group {
		case group:
			sub.Put(events.Event{Time: at, Request: &r})
		case "":
			sub.Put(events.Event{Time: at, Request: &all})
		}
	}
}

// own makes somebody the owner of a group, or says that there is one.
func (s *streams) own(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[group] {
		return &control.Error{Code: http.StatusConflict, Message: "group " + group + " has an owner already"}
	}
	if s.owners == nil {
		s.owners = map[string]bool{}
	}
	s.owners[group] = true
	return nil
}

// disown notes that the owner of a group has gone: nothing may come into it.
func (s *streams) disown(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[group] = false
}

// open reports whether something may come into a group.
func (s *streams) open(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owned, known := s.owners[group]; known && !owned {
		return &control.Error{Code: http.StatusConflict, Message: "group " + group + " goes: its owner has gone"}
	}
	return nil
}
