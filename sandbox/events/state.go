package events

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// State is the present state according to the events so far. The zero value is the state before the first event.
//
// Events must be applied in the order of a stream. A stream may begin while bases already run, and may deliver events of a
// base after the base was removed. A State is not safe for concurrent use.
//
// A State keeps the names of removed bases. It forgets Pods, Nodes and faults that no longer exist.
type State struct {
	// Bases by name, including removed ones.
	Bases Table[BaseStatus]
	// Pods by UID, or by name if they have none.
	Pods Table[PodStatus]
	// Nodes by name.
	Nodes Table[NodeStatus]
	// Services by name.
	Services Table[ServiceStatus]
	// Components by name.
	Components Table[ComponentStatus]
	// Faults in effect, by FaultEvent.Key.
	Faults Table[FaultStatus]
	// Streams of requests with lost requests, by name.
	Streams Table[StreamStatus]
	// Steps by number.
	Steps Table[StepStatus]

	basesByNode    Table[string]   // bases by the names of their Nodes
	podsByBase       Table[[]string] // keys of Pods, by the base that they are on
	podCount     int             // that were ever seen
	unplaced int             // Pods on a Node whose base is not known
}

// Apply adds an event to the state. Commands change nothing. The State keeps slices and maps of the event, which
// must not be changed afterwards.
func (s *State) Apply(e Event) {
	switch {
	case e.Base != nil:
		s.applyBase(e.Base, e.Time)
	case e.Module != nil:
		s.applyModule(e.Module, e.Time)
	case e.Pod != nil:
		s.applyPod(e.Pod, e.Time)
	case e.Node != nil:
		s.applyNode(e.Node)
	case e.Endpoints != nil:
		s.Services.put(e.Endpoints.Service, &ServiceStatus{Name: e.Endpoints.Service, Endpoints: e.Endpoints.Endpoints})
	case e.Component != nil:
		c := ComponentStatus{ComponentEvent: *e.Component, Since: e.Time}
		if before := s.Components.Get(c.Name); before != nil && before.State == c.State {
			c.Since = before.Since
		}
		s.Components.put(c.Name, &c)
	case e.Fault != nil:
		s.applyFault(e.Fault, e.Time)
	case e.Request != nil:
		lost := map[RequestResult]int{}
		if before := s.Streams.Get(e.Request.Stream); before != nil {
			maps.Copy(lost, before.Lost)
		}
		lost[e.Request.Result]++
		s.Streams.put(e.Request.Stream, &StreamStatus{Name: e.Request.Stream, Lost: lost})
	case e.Step != nil:
		s.applyStep(e.Step, e.Time)
	case e.Synced:
		s.markPreinstalled()
	}
}

// NodePrefix is the beginning of the name of a base's Node, before the identity of the base.
const NodePrefix = "vnode."

// BaseOf returns the host name of the base of a Node, also of a deleted Node; empty if the Node does not belong to a base.
func (s *State) BaseOf(node string) string {
	if host := s.basesByNode.Get(node); host != nil {
		return *host
	}
	return ""
}

// NodeOf returns the Node of a base, or nil.
func (s *State) NodeOf(b *BaseStatus) *NodeStatus { return s.Nodes.Get(NodePrefix + b.Identity) }

func (s *State) applyBase(e *BaseEvent, now time.Time) {
	if e.Base == "" {
		return
	}
	b, change := BaseStatus{Name: e.Base}, e.Change
	if before := s.Bases.Get(e.Base); before != nil {
		b = *before
	} else {
		b.Running = change == BaseDisconnected // so it has been connected
	}
	if b.Removed && change != BaseAdded && change != BaseUp && change != BaseReady {
		return // a late event
	}
	b.Removed = false
	s.setIdentity(&b, e.Identity)
	switch change {
	case BaseUp:
		b.Running, b.Ready, b.Modules, b.Started = true, false, nil, now
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

// applyModule applies a change of a module. A base without an earlier event is running: the stream began later.
func (s *State) applyModule(e *ModuleEvent, now time.Time) {
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
	s.setIdentity(&b, e.Identity)
	b.Modules = b.modulesAfter(e, now)
	s.Bases.put(b.Name, &b)
}

// setIdentity sets the identity of a base, which is also the name of its Node.
func (s *State) setIdentity(b *BaseStatus, identity string) {
	if identity != "" && identity != b.Identity {
		b.Identity = identity
		s.setBaseOfNode(NodePrefix+identity, b.Name)
	}
}

// setBaseOfNode maps a Node to its base. Events of Pods and of bases come from independent sources, so Pods may already be bound to
// the Node.
func (s *State) setBaseOfNode(node, base string) {
	s.basesByNode.put(node, &base)
	if s.unplaced == 0 {
		return
	}
	for key, p := range s.Pods.values {
		if p.Base == "" && p.Node == node {
			known := *p
			known.Base = base
			s.putPod(key, &known)
			s.unplaced--
		}
	}
}

// unplaced reports whether the Pod has a Node whose base is unknown.
func (p *PodStatus) unplaced() bool { return p != nil && p.Base == "" && p.Node != "" }

// PodKey returns the key of the Pod in State.Pods.
func (p *PodState) PodKey() string { return cmp.Or(p.UID, p.Name) }

// PodEvent returns the event of a Pod that was written or deleted.
func (s *State) PodEvent(pod *corev1.Pod, gone bool) *PodEvent {
	e := &PodEvent{Base: s.BaseOf(pod.Spec.NodeName), PodState: *PodStateOf(pod)}
	if before := s.Pods.Get(e.PodKey()); before != nil {
		e.Writes = before.Writes
	}
	e.Gone = gone
	if !gone {
		e.Writes++
	}
	return e
}

// Endpoint returns an endpoint of a slice. Its Pod is the name of the Pod.
func (s *State) Endpoint(p discoveryv1.Endpoint) Endpoint {
	c := p.Conditions
	e := Endpoint{
		Base: s.BaseOf(ptr.Deref(p.NodeName, "")), Ready: ptr.Deref(c.Ready, true), Serving: ptr.Deref(c.Serving, true),
		Terminating: ptr.Deref(c.Terminating, false),
	}
	if len(p.Addresses) > 0 {
		e.IP = p.Addresses[0]
	}
	if p.TargetRef != nil {
		e.Pod = p.TargetRef.Name
	}
	return e
}

func (s *State) applyPod(e *PodEvent, now time.Time) {
	key := e.PodKey()
	before := s.Pods.Get(key)
	if before.unplaced() {
		s.unplaced--
	}
	switch {
	case e.Gone:
		s.putPod(key, nil)
		return
	case before == nil:
		s.podCount++
		before = &PodStatus{Number: s.podCount}
	}
	p := &PodStatus{PodState: e.PodState, Base: cmp.Or(e.Base, before.Base, s.BaseOf(e.Node)), Number: before.Number,
		ReadySince: before.ReadySince}
	for _, m := range slices.Concat(before.Earlier, before.Modules) {
		if !slices.Contains(p.Modules, m) && !slices.Contains(p.Earlier, m) {
			p.Earlier = append(p.Earlier, m)
		}
	}
	switch {
	case !p.Serves():
		p.ReadySince = time.Time{}
	case p.ReadySince.IsZero():
		p.ReadySince = now
	}
	if p.unplaced() {
		s.unplaced++
	}
	s.putPod(key, p)
}

// putPod sets the Pod of a key, and files it under its base. A nil Pod is deleted.
func (s *State) putPod(key string, p *PodStatus) {
	was, is := baseOf(s.Pods.Get(key)), baseOf(p)
	s.Pods.put(key, p)
	if was == is {
		return
	}
	if was != "" {
		s.updatePodList(was, func(keys []string) []string {
			return slices.DeleteFunc(keys,
				func(k string) bool { return k == key })
		})
	}
	if is != "" {
		s.updatePodList(is, func(keys []string) []string { return append(keys, key) })
	}
}

// updatePodList changes the list of Pods on a base.
func (s *State) updatePodList(base string, change func([]string) []string) {
	var keys []string
	if before := s.podsByBase.Get(base); before != nil {
		keys = slices.Clone(*before)
	}
	keys = change(keys)
	if len(keys) == 0 {
		s.podsByBase.put(base, nil)
		return
	}
	s.podsByBase.put(base, &keys)
}

func baseOf(p *PodStatus) string {
	if p == nil {
		return ""
	}
	return p.Base
}

// PodsOn returns the Pods on a base in the order of their arrival. The State must not change during the iteration.
func (s *State) PodsOn(base string) iter.Seq[*PodStatus] {
	return func(yield func(*PodStatus) bool) {
		keys := s.podsByBase.Get(base)
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

func (s *State) applyNode(e *NodeEvent) {
	if e.Base != "" && s.BaseOf(e.Name) != e.Base {
		s.setBaseOfNode(e.Name, e.Base)
	}
	if e.State == "" {
		s.Nodes.put(e.Name, nil)
		return
	}
	s.Nodes.put(e.Name, &NodeStatus{Name: e.Name, Base: e.Base, State: e.State})
}

func (s *State) applyFault(e *FaultEvent, now time.Time) {
	switch e.Change {
	case FaultSet:
		s.Faults.put(e.Key(), &FaultStatus{FaultEvent: *e, Since: now})
	case FaultCleared:
		s.Faults.put(e.Key(), nil)
	case FaultTriggered:
		if before := s.Faults.Get(e.Key()); before != nil {
			fired := *before
			fired.Triggered++
			s.Faults.put(e.Key(), &fired)
		}
	}
}

// Step returns the last step of a name, or nil.
func (s *State) Step(name string) (last *StepStatus) {
	for x := range s.Steps.All() {
		if x.Name == name && (last == nil || x.Number > last.Number) {
			last = x
		}
	}
	return last
}

// applyStep adds a step, or ends the last one of its name. A skipped step never began.
func (s *State) applyStep(e *StepEvent, now time.Time) {
	x := StepStatus{StepEvent: *e, Number: s.Steps.Len() + 1, From: now}
	if e.State != StepBegan {
		if began := s.Step(e.Name); began != nil && began.State == StepBegan {
			x.Number, x.From = began.Number, began.From
		}
		x.To = now
	}
	s.Steps.put(strconv.Itoa(x.Number), &x)
}

// markPreinstalled marks all modules so far as the bases' own.
func (s *State) markPreinstalled() {
	for _, name := range s.Bases.Names() {
		b := *s.Bases.Get(name)
		b.Modules = slices.Clone(b.Modules)
		for i := range b.Modules {
			b.Modules[i].Preinstalled = true
		}
		s.Bases.put(name, &b)
	}
}

// awaitsActive reports whether the Pod requests a version of a module that is not active on its base.
func (s *State) awaitsActive(p *PodStatus, name string) bool {
	i := slices.IndexFunc(p.Modules, func(m ModuleRef) bool { return m.Name == name })
	b := s.Bases.Get(p.Base)
	return i >= 0 && (b == nil || !slices.ContainsFunc(b.Modules, func(m ModuleStatus) bool {
		return m.ModuleRef == p.Modules[i] && m.State == ModuleActivated
	}))
}

// Leftover is a module on a base that no Pod requests.
type Leftover struct {
	Base string
	ModuleStatus
}

// Leftovers returns the modules on running bases that are not the base's own and that no Pod on the base requests, sorted by base,
// name and version. A Pod that is being deleted still requests its modules. A Pod without a version of a module requests
// none, since none is installed for it. A Pod that was changed in place also requests the earlier version until the new
// version is active: a base keeps the old version until the new one serves. Pods for which ignore returns true request
// nothing; a nil ignore ignores none.
func (s *State) Leftovers(ignore func(*PodStatus) bool) []Leftover {
	type on struct {
		base string
		ModuleRef
	}
	wanted := map[on]bool{}
	for p := range s.Pods.All() {
		if ignore != nil && ignore(p) {
			continue
		}
		for _, m := range p.Modules {
			wanted[on{p.Base, m}] = true
		}
		for _, m := range p.Earlier {
			if s.awaitsActive(p, m.Name) {
				wanted[on{p.Base, m}] = true
			}
		}
	}
	var left []Leftover
	for _, name := range s.Bases.Names() {
		b := s.Bases.Get(name)
		for _, m := range b.Modules {
			if b.Running && !m.Preinstalled && !wanted[on{name, m.ModuleRef}] {
				left = append(left, Leftover{name, m})
			}
		}
	}
	return left
}
