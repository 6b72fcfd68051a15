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
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// maxQueuedEvents is the maximum number of events queued for a slow subscriber. A busy sandbox takes a few minutes to
// produce that many events. The initial snapshot is not included in the limit.
const maxQueuedEvents = 1 << 16

// subscriber queues the events of one watch stream. Adding an event never blocks.
type subscriber struct {
	group string // empty = all groups
	rpc.Queue[events.Event]
}

var _ fleet.Watcher = (*subscriber)(nil)

// endSnapshot adds the Synced event, which marks the end of the initial snapshot. From then on, the queue is limited.
func (s *subscriber) endSnapshot() {
	s.Put(events.Event{Time: time.Now(), Synced: true})
	s.Limit(maxQueuedEvents)
}

// follow calls sink for each event. It blocks until ctx ends, the queue is closed, or events are lost.
func (s *subscriber) follow(ctx context.Context, sink func(events.Event)) error {
	if err := s.Read(ctx, sink); err != nil {
		return rpc.Errorf(http.StatusServiceUnavailable, "%v; watch again", err)
	}
	return nil
}

func (s *subscriber) baseName(m *fleet.Member) string {
	if s.group == "" {
		return m.HostName
	}
	return m.Name()
}

// OnSnapshot reports the current state of a base.
func (s *subscriber) OnSnapshot(m *fleet.Member, v fleet.BaseSnapshot) {
	if !v.Started {
		return // the base has no state yet; its events follow
	}
	now := time.Now()
	s.Put(s.processEvents(m, now, v)...)
	for _, biz := range v.Biz {
		s.Put(events.Event{Time: now, Module: &events.ModuleEvent{
			Base: s.baseName(m), Identity: v.Identity,
			ModuleRef: events.ModuleRef{Name: biz.Name, Version: biz.Version},
			State:     moduleStates[biz.State],
		}})
	}
	for _, f := range v.Faults {
		if f.Ended == "" {
			s.fault(m, now, fakebase.FaultTrace{ID: f.ID, Kind: f.Kind, Code: f.Code, State: fakebase.FaultIsSet})
		}
	}
}

// processEvents returns the events that describe the current state of a base process.
func (s *subscriber) processEvents(m *fleet.Member, now time.Time, v fleet.BaseSnapshot) (list []events.Event) {
	for _, state := range []struct {
		change events.BaseChange
		holds  bool
	}{{events.BaseUp, v.Running}, {events.BaseReady, v.Ready}, {events.BaseConnected, v.Connected},
		{events.BaseDown, !v.Running}} {
		if state.holds {
			list = append(list,
				events.Event{Time: now,
					Base: &events.BaseEvent{Base: s.baseName(m), Identity: v.Identity, Change: state.change}})
		}
	}
	if v.Running {
		list = append(list, s.healthEvent(m, fakebase.Event{Time: now, Identity: v.Identity, Health: v.Health,
			Readiness: v.Readiness, Metaspace: v.Metaspace}))
	}
	return list
}

func (s *subscriber) healthEvent(m *fleet.Member, e fakebase.Event) events.Event {
	return events.Event{Time: e.Time, Health: &events.HealthEvent{Base: s.baseName(m), Identity: e.Identity,
		Health: e.Health, Readiness: e.Readiness, Metaspace: events.Metaspace(e.Metaspace)}}
}

// These maps convert the event kinds and states of package fakebase to those of package events.
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
	faultChanges = map[fakebase.FaultChange]events.FaultChange{
		fakebase.FaultIsSet: events.FaultSet, fakebase.FaultTriggered: events.FaultTriggered,
		fakebase.FaultCleared: events.FaultCleared,
	}
)

// OnEvent reports an event of a base.
func (s *subscriber) OnEvent(m *fleet.Member, e fakebase.Event) {
	switch e.Kind {
	case fakebase.EventBiz:
	case fakebase.EventHealth:
		s.Put(s.healthEvent(m, e))
		return
	default:
		s.Put(events.Event{Time: e.Time,
			Base: &events.BaseEvent{Base: s.baseName(m), Identity: e.Identity, Change: baseChanges[e.Kind]}})
		return
	}
	x := events.ModuleEvent{
		Base: s.baseName(m), Identity: e.Identity, ModuleRef: events.ModuleRef{Name: e.Biz, Version: e.Version},
		From: moduleStates[e.From], State: moduleStates[e.To], Message: e.Message,
	}
	s.Put(events.Event{Time: e.Time, Module: &x})
	if e.To == fakebase.StateStopped { // the last state before removal
		gone := x
		gone.From, gone.State, gone.Message = x.State, "", ""
		s.Put(events.Event{Time: e.Time, Module: &gone})
	}
}

// OnTrace reports a command or a fault of a base. It skips successful health checks, which would be most of the
// events of a large fleet.
func (s *subscriber) OnTrace(m *fleet.Member, t fakebase.Trace) {
	if t.Fault != nil {
		s.fault(m, t.Time, *t.Fault)
		return
	}
	c := t.Command
	if c.Name == events.CommandHealth && c.Code == "" {
		return
	}
	s.Put(events.Event{Time: t.Time, Command: &events.CommandEvent{
		Base: s.baseName(m), Identity: c.Identity, Name: c.Name,
		Module: events.ModuleRef{Name: c.Biz, Version: c.Version},
		Code:   c.Code, Message: c.Message, Elapsed: c.Elapsed,
	}})
}

func (s *subscriber) fault(m *fleet.Member, at time.Time, f fakebase.FaultTrace) {
	s.Put(events.Event{Time: at, Fault: &events.FaultEvent{
		Target: v1alpha1.TargetBase, Base: s.baseName(m), ID: f.ID, Kind: f.Kind, Change: faultChanges[f.State],
		Message: f.Code,
	}})
}

// OnRemoved reports that a base was removed.
func (s *subscriber) OnRemoved(m *fleet.Member) {
	s.Put(events.Event{Time: time.Now(), Base: &events.BaseEvent{Base: s.baseName(m), Change: "removed"}})
}

// eventHub distributes events to subscribers. A new subscriber first receives the current state of the components.
type eventHub struct {
	mu          sync.Mutex
	subscribers []*subscriber
	components  []events.Event // last event of each component, in order of first appearance
	// owners contains the known groups. The value is true while the owner of the group is connected.
	owners map[string]bool
}

// subscribe creates a subscriber for a group. Its queue begins with the current state of the components.
func (s *eventHub) subscribe(group string) *subscriber {
	sub := &subscriber{group: group}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub.Put(s.components...)
	s.subscribers = append(s.subscribers, sub)
	return sub
}

func (s *eventHub) unsubscribe(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers = slices.DeleteFunc(s.subscribers, func(x *subscriber) bool { return x == sub })
}

// publishComponent reports a new state of a component to all subscribers.
func (s *eventHub) publishComponent(at time.Time, name string, state supervise.State, message string) {
	e := events.Event{Time: at, Component: &events.ComponentEvent{Name: name, State: state, Message: message}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscribers {
		sub.Put(e)
	}
	i := slices.IndexFunc(s.components, func(x events.Event) bool { return x.Component.Name == name })
	if i < 0 {
		s.components = append(s.components, e)
		return
	}
	s.components[i] = e
}

// publishFault reports a fault event to the subscribers of the group. If group is empty, it reports the event to all
// subscribers.
func (s *eventHub) publishFault(group string, e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscribers {
		if group == "" || sub.group == "" || sub.group == group {
			sub.Put(e)
		}
	}
}

// knowsGroup reports whether a group has an owner or had an owner earlier.
func (s *eventHub) knowsGroup(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.owners[group]
	return known
}

// publishRequest reports a lost request to the subscribers of a group.
func (s *eventHub) publishRequest(group string, at time.Time, r events.RequestEvent) {
	all := r
	if r.Base != "" {
		all.Base = group + "-" + r.Base
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscribers {
		switch sub.group {
		case group:
			sub.Put(events.Event{Time: at, Request: &r})
		case "":
			sub.Put(events.Event{Time: at, Request: &all})
		}
	}
}

// claimGroup records that a group has an owner. It returns a conflict error if the group already has an owner.
func (s *eventHub) claimGroup(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[group] {
		return conflict("group %q already has an owner", group)
	}
	if s.owners == nil {
		s.owners = map[string]bool{}
	}
	s.owners[group] = true
	return nil
}

// closeGroup records that the owner of a group has disconnected. After that, no bases, streams or faults can be added
// to the group.
func (s *eventHub) closeGroup(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[group] = false
}

// checkOpen returns a conflict error if the owner of the group has disconnected, because nothing may be added to such
// a group.
func (s *eventHub) checkOpen(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owned, known := s.owners[group]; known && !owned {
		return conflict("group %q is being deleted: the client that created it disconnected", group)
	}
	return nil
}
