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

// State is the current state according to the events applied so far. The zero value is the state before the first
// event.
//
// Events must be applied in the order of their stream. A stream may begin after bases have started, and may deliver
// events of a base after the base was removed. A State is not safe for concurrent use.
//
// A State keeps removed bases, but no Pods, Nodes or faults that no longer exist.
type State struct {
	// Bases by name, including removed bases.
	Bases Table[BaseStatus]
	// Pods by UID, or by name if a Pod has no UID.
	Pods Table[PodStatus]
	// Nodes by name.
	Nodes Table[NodeStatus]
	// Services by name.
	Services Table[ServiceStatus]
	// Components by name.
	Components Table[ComponentStatus]
	// Faults in effect, by FaultEvent.Key.
	Faults Table[FaultStatus]
	// Streams are the request streams with lost requests, by name.
	Streams Table[StreamStatus]
	// Steps by number.
	Steps Table[StepStatus]

	basesByNode Table[string]   // host names of bases by Node name
	podsByBase  Table[[]string] // keys of Pods by the host name of their base
	podCount    int             // number of Pods seen so far, including deleted Pods
	unplaced    int             // number of Pods on a Node whose base is unknown
}

// Apply applies an event to the state. Command events do not change the state. The State keeps references to slices
// and maps of the event, so the caller must not modify them afterwards.
func (s *State) Apply(e Event) {
	switch {
	case e.Base != nil:
		s.applyBase(e.Base, e.Time)
	case e.Health != nil:
		s.applyHealth(e.Health)
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

// NodePrefix is the prefix of the Node name of a base. It is followed by the identity of the base.
const NodePrefix = "vnode."

// BaseOf returns the host name of the base that a Node represents, even if the Node was deleted. It returns the empty
// string if the Node does not represent a base.
func (s *State) BaseOf(node string) string {
	if host := s.basesByNode.Get(node); host != nil {
		return *host
	}
	return ""
}

// NodeOf returns the Node of a base, or nil if the Node does not exist.
func (s *State) NodeOf(b *BaseStatus) *NodeStatus { return s.Nodes.Get(NodePrefix + b.Identity) }

func (s *State) applyBase(e *BaseEvent, now time.Time) {
	if e.Base == "" {
		return
	}
	b, change := BaseStatus{Name: e.Base}, e.Change
	if before := s.Bases.Get(e.Base); before != nil {
		b = *before
	} else {
		b.Running = change == BaseDisconnected // it was connected before
	}
	if b.Removed && change != BaseAdded && change != BaseUp && change != BaseReady {
		return // a late event
	}
	b.Removed = false
	s.setIdentity(&b, e.Identity)
	switch change {
	case BaseUp:
		b.Running, b.Ready, b.Modules, b.Started = true, false, nil, now
		b.Health, b.Readiness, b.Metaspace = "", "", Metaspace{}
	case BaseReady:
		b.Running, b.Ready = true, true
	case BaseConnected:
		b.Running, b.Connected = true, true
	case BaseDisconnected:
		b.Connected = false
	case BaseDown, BaseRemoved:
		b.Running, b.Ready, b.Connected, b.Modules = false, false, false, nil
		b.Health, b.Readiness, b.Metaspace = "", "", Metaspace{}
		b.Removed = change == BaseRemoved
	}
	s.Bases.put(b.Name, &b)
}

// applyHealth applies a health event. It ignores the event if the base is unknown or its process has ended.
func (s *State) applyHealth(e *HealthEvent) {
	before := s.Bases.Get(e.Base)
	if before == nil || !before.Running {
		return
	}
	b := *before
	b.Health, b.Readiness, b.Metaspace = e.Health, e.Readiness, e.Metaspace
	s.Bases.put(b.Name, &b)
}

// applyModule applies a module event. If the base has no earlier event, the base is running, because the stream began
// after the start of the base.
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

// setIdentity sets the identity of a base, and maps the Node of this identity to the base.
func (s *State) setIdentity(b *BaseStatus, identity string) {
	if identity != "" && identity != b.Identity {
		b.Identity = identity
		s.setBaseOfNode(NodePrefix+identity, b.Name)
	}
}

// setBaseOfNode maps a Node to its base. Pod events and base events come from independent sources, so Pods may
// already be bound to the Node.
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

// unplaced reports whether the Pod is bound to a Node whose base is unknown.
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

// Endpoint returns an endpoint of an EndpointSlice as an event endpoint. The field Pod is the Pod name.
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

// putPod sets the Pod with the given key, and updates the lists of Pods by base. If the Pod is nil, putPod deletes
// the entry.
func (s *State) putPod(key string, p *PodStatus) {
	oldBase, newBase := baseOf(s.Pods.Get(key)), baseOf(p)
	s.Pods.put(key, p)
	if oldBase == newBase {
		return
	}
	if oldBase != "" {
		s.updatePodList(oldBase, func(keys []string) []string {
			return slices.DeleteFunc(keys, func(k string) bool { return k == key })
		})
	}
	if newBase != "" {
		s.updatePodList(newBase, func(keys []string) []string { return append(keys, key) })
	}
}

// updatePodList replaces the list of Pods on a base by the result of change. change may modify the list that it gets.
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

// PodsOn returns the Pods on a base in the order of their first events. The State must not change during the
// iteration.
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

// Step returns the last step with the given name, or nil.
func (s *State) Step(name string) (last *StepStatus) {
	for x := range s.Steps.All() {
		if x.Name == name && (last == nil || x.Number > last.Number) {
			last = x
		}
	}
	return last
}

// applyStep adds a step that began, or ends the last step with the same name. A skipped step has no earlier begin
// event.
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

// markPreinstalled marks all modules that the State contains so far as preinstalled.
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

// Leftover is a module on a base that no Pod on the base requests.
type Leftover struct {
	Base string
	ModuleStatus
}

// Leftovers returns the modules on running bases that are not preinstalled and that no Pod on the base requests,
// sorted by base, name and version. A Pod that is being deleted still requests its modules. If a Pod sets no version
// for a module, the Pod does not request the module, because no module is installed for it. A Pod that was changed in
// place also requests the earlier version until the new version is active, because a base keeps the old version until
// then. Pods for which ignore returns true are treated as if they requested no modules. If ignore is nil, no Pod is
// ignored.
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
