package timeline

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// State is what events leave: what there is at a moment. The zero value is what there is before the
// first event.
//
// Events must come in the order of a stream; the rules allow for one that began in the middle, and
// for late words of a base that was removed. A State must not be used concurrently, and Copy is a
// use; but each of its copies may be used by a goroutine of its own.
//
// It keeps nothing of the past but the names of bases that were removed: Pods, Nodes and faults
// that are gone leave it.
type State struct {
	// Bases by name, those that were removed among them.
	Bases Table[BaseStatus]
	// Pods by UID, or by name if they have none.
	Pods Table[PodStatus]
	// Nodes by name.
	Nodes Table[NodeStatus]
	// Services by name.
	Services Table[ServiceStatus]
	// Components by name.
	Components Table[ComponentStatus]
	// Faults that are in effect, by Event.FaultKey.
	Faults Table[FaultStatus]
	// Streams of requests that have lost some, by name.
	Streams Table[StreamStatus]

	hosts    Table[string]   // bases by the names of their Nodes
	on       Table[[]string] // keys of Pods, by the base that they are on
	pods     int             // that were ever seen
	unplaced int             // Pods on a Node whose base is not known
}

// Copy returns a State of its own with the same content. It takes the time of a dozen words,
// however much there is; the first event of a kind after it, in the copy or in the original, copies
// the map of that kind: some 100 µs and 54 KB for 1,000 bases (BenchmarkCopy).
func (s *State) Copy() *State {
	return &State{
		Bases: s.Bases.copy(), Pods: s.Pods.copy(), Nodes: s.Nodes.copy(), Services: s.Services.copy(), Components: s.Components.copy(),
		Faults: s.Faults.copy(), Streams: s.Streams.copy(), hosts: s.hosts.copy(), on: s.on.copy(), pods: s.pods, unplaced: s.unplaced,
	}
}

// Apply makes an event a part of what is. Steps and commands change nothing. The State keeps lists
// and maps that the event refers to, which must not be changed any more.
func (s *State) Apply(e Event) {
	switch e.Kind {
	case Base:
		s.base(e)
	case Module:
		s.module(e)
	case Pod:
		s.pod(e)
	case Node:
		s.node(e)
	case Endpoints:
		s.Services.put(e.Name, &ServiceStatus{Name: e.Name, Endpoints: e.Endpoints})
	case Component:
		c := ComponentStatus{Name: e.Name, Since: e.Time, State: ComponentState(e.State), Message: e.Message}
		if before := s.Components.Get(e.Name); before != nil && before.State == c.State {
			c.Since = before.Since
		}
		s.Components.put(e.Name, &c)
	case Fault:
		s.fault(e)
	case Request:
		lost := map[string]int{}
		if before := s.Streams.Get(e.Name); before != nil {
			maps.Copy(lost, before.Lost)
		}
		lost[e.State]++
		s.Streams.put(e.Name, &StreamStatus{Name: e.Name, Lost: lost})
	case Synced:
		s.synced()
	}
}

// nodePrefix begins the name of a base's Node; its identity follows.
const nodePrefix = "vnode."

// BaseOf returns the host name of the base behind a Node, also of one that is gone; empty if the
// Node is no base's.
func (s *State) BaseOf(node string) string {
	if host := s.hosts.Get(node); host != nil {
		return *host
	}
	return ""
}

func (s *State) base(e Event) {
	if e.Base == "" {
		return
	}
	b, change := BaseStatus{Name: e.Base}, BaseChange(e.State)
	if before := s.Bases.Get(e.Base); before != nil {
		b = *before
	} else {
		b.Running = change == BaseDisconnected // so it has been connected
	}
	if b.Removed && change != BaseAdded && change != BaseUp && change != BaseReady {
		return // a late event
	}
	b.Removed = false
	s.identify(&b, e)
	switch change {
	case BaseUp:
		b.Running, b.Ready, b.Modules = true, false, nil
	case BaseReady:
		b.Running, b.Ready = true, true
	case BaseConnected:
		b.Running, b.Connected = true, true
	case BaseDisconnected:
		b.Connected = false
	case BaseDown, BaseRemoved:
		b.Running, b.Ready, b.Connected, b.Modules = false, false, false, nil
		b.Removed = change == BaseRemoved
	}
	s.Bases.put(b.Name, &b)
}

// module changes what a base has. A base of which nothing else was told runs: the stream began
// later.
func (s *State) module(e Event) {
	if e.Base == "" {
		return
	}
	b := BaseStatus{Name: e.Base, Running: true, Ready: true}
	if before := s.Bases.Get(e.Base); before != nil {
		b = *before
	}
	if b.Removed {
		return
	}
	s.identify(&b, e)
	b.Modules = b.with(e)
	s.Bases.put(b.Name, &b)
}

// identify notes the identity of a base, and so the name of its Node before that is seen.
func (s *State) identify(b *BaseStatus, e Event) {
	if e.Identity != "" && e.Identity != b.Identity {
		b.Identity = e.Identity
		s.host(nodePrefix+e.Identity, e.Base)
	}
}

// host notes which base is behind a Node. What is told of Pods and of bases comes on different ways,
// so a Pod may have been bound to it already.
func (s *State) host(node, base string) {
	s.hosts.put(node, &base)
	if s.unplaced == 0 {
		return
	}
	for key, p := range s.Pods.things {
		if p.Base == "" && p.Node == node {
			known := *p
			known.Base = base
			s.putPod(key, &known)
			s.unplaced--
		}
	}
}

// unplaced tells whether the base of a Pod is not known though it has a Node; nil is not.
func (p *PodStatus) unplaced() bool { return p != nil && p.Base == "" && p.Node != "" }

// PodKey returns the name under which Pods holds a Pod.
func (p *PodState) PodKey() string { return cmp.Or(p.UID, p.Name) }

func (s *State) pod(e Event) {
	if e.Pod == nil {
		return
	}
	key := e.Pod.PodKey()
	before := s.Pods.Get(key)
	if before.unplaced() {
		s.unplaced--
	}
	switch {
	case e.Pod.Gone:
		s.putPod(key, nil)
		return
	case before == nil:
		s.pods++
		before = &PodStatus{Number: s.pods}
	}
	p := &PodStatus{PodState: *e.Pod, Base: cmp.Or(e.Base, before.Base, s.BaseOf(e.Pod.Node)), Number: before.Number, ReadySince: before.ReadySince}
	for _, m := range slices.Concat(before.Earlier, before.Modules) {
		if !slices.Contains(p.Modules, m) && !slices.Contains(p.Earlier, m) {
			p.Earlier = append(p.Earlier, m)
		}
	}
	switch {
	case !p.Serves():
		p.ReadySince = time.Time{}
	case p.ReadySince.IsZero():
		p.ReadySince = e.Time
	}
	if p.unplaced() {
		s.unplaced++
	}
	s.putPod(key, p)
}

// putPod makes a Pod that of its key, and files it under its base; nil = there is none any more.
func (s *State) putPod(key string, p *PodStatus) {
	was, is := baseOf(s.Pods.Get(key)), baseOf(p)
	s.Pods.put(key, p)
	if was == is {
		return
	}
	if was != "" {
		s.file(was, func(keys []string) []string { return slices.DeleteFunc(keys, func(k string) bool { return k == key }) })
	}
	if is != "" {
		s.file(is, func(keys []string) []string { return append(keys, key) })
	}
}

// file changes which Pods are on a base. A copy of the State keeps what it has.
func (s *State) file(base string, change func([]string) []string) {
	var keys []string
	if before := s.on.Get(base); before != nil {
		keys = slices.Clone(*before)
	}
	if keys = change(keys); len(keys) == 0 {
		s.on.put(base, nil)
		return
	}
	s.on.put(base, &keys)
}

func baseOf(p *PodStatus) string {
	if p == nil {
		return ""
	}
	return p.Base
}

// PodsOn returns the Pods on a base in the order in which they came there. The State must not change while they
// are looked at.
func (s *State) PodsOn(base string) iter.Seq[*PodStatus] {
	return func(yield func(*PodStatus) bool) {
		keys := s.on.Get(base)
		if keys == nil {
			return
		}
		for _, key := range *keys {
			if !yield(s.Pods.Get(key)) {
				return
			}
		}
	}
}

func (s *State) node(e Event) {
	if e.Base != "" && s.BaseOf(e.Name) != e.Base {
		s.host(e.Name, e.Base)
	}
	if e.State == "" {
		s.Nodes.put(e.Name, nil)
		return
	}
	s.Nodes.put(e.Name, &NodeStatus{Name: e.Name, Base: e.Base, State: NodeState(e.State)})
}

func (s *State) fault(e Event) {
	key := e.FaultKey()
	switch FaultChange(e.State) {
	case FaultSet:
		s.Faults.put(key, &FaultStatus{Target: e.Target, Base: e.Base, ID: e.Name, Since: e.Time, Kind: e.Code, Message: e.Message})
	case FaultCleared:
		s.Faults.put(key, nil)
	}
}

// synced notes that all modules so far were there before.
func (s *State) synced() {
	for _, name := range s.Bases.Names() {
		b := *s.Bases.Get(name)
		b.Modules = slices.Clone(b.Modules)
		for i := range b.Modules {
			b.Modules[i].Own = true
		}
		s.Bases.put(name, &b)
	}
}

// waits tells whether a Pod wants a version of a module that is not active on its base: also one
// that cannot be, because it is not named any more.
func (s *State) waits(p *PodStatus, name string) bool {
	i := slices.IndexFunc(p.Modules, func(m ModuleRef) bool { return m.Name == name })
	b := s.Bases.Get(p.Base)
	return i >= 0 && (b == nil || !slices.ContainsFunc(b.Modules, func(m ModuleStatus) bool {
		return m.ModuleRef == p.Modules[i] && m.State == ModuleActivated
	}))
}

// Left is a module that is left on a base.
type Left struct {
	Base string
	ModuleStatus
}

// Left returns the modules on bases that run which are not the base's own and which no Pod on the
// base wants, sorted by base, name and version. A Pod that is being deleted still answers for its
// modules; one that names no version of a module answers for none, since none is installed for it.
// One that was changed in place answers for the earlier version while its new one is not active
// there: a base goes on with the old one until the new one serves, and if the new one cannot even
// be installed, as long as the Pod is there.
func (s *State) Left() []Left {
	type on struct {
		base string
		ModuleRef
	}
	wanted := map[on]bool{}
	for p := range s.Pods.All() {
		for _, m := range p.Modules {
			wanted[on{p.Base, m}] = true
		}
		for _, m := range p.Earlier {
			if s.waits(p, m.Name) {
				wanted[on{p.Base, m}] = true
			}
		}
	}
	var left []Left
	for _, name := range s.Bases.Names() {
		b := s.Bases.Get(name)
		for _, m := range b.Modules {
			if b.Running && !m.Own && !wanted[on{name, m.ModuleRef}] {
				left = append(left, Left{name, m})
			}
		}
	}
	return left
}
