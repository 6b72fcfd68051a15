package daemon

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// waitingEvents is how many events may wait for a subscriber that reads slowly:
// some minutes of a busy sandbox. Events that say what is at the beginning do not
// count.
const waitingEvents = 1 << 16

// subscriber queues events for one stream. Whoever tells it something never waits.
type subscriber struct {
	group string // empty = all
	rpc.Queue[timeline.Event]
}

var _ fleet.Watcher = (*subscriber)(nil)

// sync ends the events that tell what is.
func (s *subscriber) sync() {
	s.Put(timeline.Event{Time: time.Now(), Kind: timeline.Synced})
	s.Limit(waitingEvents)
}

// follow calls sink for every event until ctx ends, the queue is closed, or events have been lost.
func (s *subscriber) follow(ctx context.Context, sink func(timeline.Event)) error {
	if err := s.Read(ctx, sink); err != nil {
		return rpc.Errorf(http.StatusServiceUnavailable, "%v; watch again", err)
	}
	return nil
}

// name is what the stream calls a base.
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
	base := timeline.Event{Time: time.Now(), Kind: timeline.Base, Base: s.name(m), Identity: v.Identity}
	var events []timeline.Event
	for _, state := range []struct {
		name  string
		holds bool
	}{{"up", v.Running}, {"ready", v.Ready}, {"connected", v.Connected}, {"down", !v.Running}} {
		if state.holds {
			base.State = state.name
			events = append(events, base)
		}
	}
	for _, biz := range v.Biz {
		e := base
		e.Kind, e.Module, e.Version, e.State = timeline.Module, biz.Name, biz.Version, string(biz.State)
		events = append(events, e)
	}
	for _, f := range v.Faults {
		if f.Ended != "" {
			continue
		}
		e := base
		e.Kind, e.Name, e.Message, e.Code, e.State = timeline.Fault, f.ID, string(f.Kind), f.Code, string(fakebase.FaultIsSet)
		events = append(events, e)
	}
	s.Put(events...)
}

// Changed tells what happens to a base.
func (s *subscriber) Changed(m *fleet.Member, e fakebase.Event) {
	out := timeline.Event{Time: e.Time, Kind: timeline.Base, Base: s.name(m), Identity: e.Identity, State: string(e.Kind)}
	if e.Kind != fakebase.EventBiz {
		s.Put(out)
		return
	}
	out.Kind, out.Module, out.Version, out.From, out.State = timeline.Module, e.Biz, e.Version, string(e.From), string(e.To)
	out.Message = e.Message
	switch e.To {
	case fakebase.StateStopped: // the last state of a module, and then it is gone
		gone := out
		gone.From, gone.State, gone.Message = out.State, "", ""
		s.Put(out, gone)
	case fakebase.StateUnresolved: // it could not be stopped, and is gone
		out.State = ""
		s.Put(out)
	default:
		s.Put(out)
	}
}

// Traced tells what a base does, but for good answers about its health: with ten thousand bases they are most of what there
// would be to tell, and keep whoever records it behind.
func (s *subscriber) Traced(m *fleet.Member, t fakebase.Trace) {
	out := timeline.Event{Time: t.Time, Base: s.name(m)}
	switch {
	case t.Command != nil:
		c := t.Command
		if c.Name == timeline.CommandHealth && c.Code == "" {
			return
		}
		out.Kind, out.Identity, out.Name = timeline.Command, c.Identity, c.Name
		out.Module, out.Version, out.Code, out.Message, out.Elapsed = c.Biz, c.Version, c.Code, c.Message, c.Elapsed
	case t.Fault != nil:
		f := t.Fault
		out.Kind, out.Name, out.Message, out.Code, out.State = timeline.Fault, f.ID, string(f.Kind), f.Code, string(f.State)
	}
	s.Put(out)
}

// Gone tells that a base has been removed.
func (s *subscriber) Gone(m *fleet.Member) {
	s.Put(timeline.Event{Time: time.Now(), Kind: timeline.Base, Base: s.name(m), State: "removed"})
}

// streams are all subscribers, and what new ones are to know.
type streams struct {
	mu         sync.Mutex
	all        []*subscriber
	components []timeline.Event // the last of each, in order of their first
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

// component tells everybody of a new state of a component.
func (s *streams) component(e timeline.Event) {
	e.Kind = timeline.Component
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.all {
		sub.Put(e)
	}
	i := slices.IndexFunc(s.components, func(x timeline.Event) bool { return x.Name == e.Name })
	if i < 0 {
		s.components = append(s.components, e)
		return
	}
	s.components[i] = e
}

// rule tells what a rule of a group does, everybody if it is nobody's.
func (s *streams) rule(group string, e timeline.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.all {
		if group == "" || sub.group == "" || sub.group == group {
			sub.Put(e)
		}
	}
}

// knows tells whether a group has, or had, an owner.
func (s *streams) knows(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.owners[group]
	return known
}

// request tells of a lost request of a group.
func (s *streams) request(group string, e timeline.Event) {
	e.Kind = timeline.Request
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.all {
		switch sub.group {
		case group:
			sub.Put(e)
		case "":
			all := e
			if all.Base != "" {
				all.Base = group + "-" + e.Base
			}
			sub.Put(all)
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

// open tells whether something may come into a group.
func (s *streams) open(group string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owned, known := s.owners[group]; known && !owned {
		return &control.Error{Code: http.StatusConflict, Message: "group " + group + " goes: its owner has gone"}
	}
	return nil
}
