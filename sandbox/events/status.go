package events

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BaseState is the state of a base in one word.
type BaseState string

// The states of a base.
const (
	// BaseStateDown: the process does not exist.
	BaseStateDown BaseState = "down"
	// BaseStateStarting: the process has not started yet.
	BaseStateStarting BaseState = "starting"
	// BaseStateDisconnected: the base is not connected to the broker.
	BaseStateDisconnected BaseState = "disconnected"
	BaseStateReady        BaseState = "ready"
	// BaseStateUnknown: nothing is known of the process. No BaseStatus has this state.
	BaseStateUnknown BaseState = "unknown"
)

// State returns the state in one word.
func (b *BaseStatus) State() BaseState {
	switch {
	case !b.Running:
		return BaseStateDown
	case !b.Ready:
		return BaseStateStarting
	case !b.Connected:
		return BaseStateDisconnected
	}
	return BaseStateReady
}

// BaseStatus is a base. Its name stays the same when its process restarts.
type BaseStatus struct {
	Name string
	// Identity of its process; empty = unknown.
	Identity string
	// Running reports whether the process exists, Ready whether it has started, and Connected whether it is connected to the
	// broker.
	Running, Ready, Connected bool
	// Removed reports whether the base was deleted. Late events of the base may still arrive.
	Removed bool
	// Started is when its process has started; zero = unknown.
	Started time.Time
	// Modules on the base, sorted by name and version.
	Modules []ModuleStatus
}

// ModuleStatus is a version of a module that is on a base.
type ModuleStatus struct {
	ModuleRef
	State ModuleState
	// Since is when the version was first on the base.
	Since time.Time
	// Preinstalled reports whether no command installed the module: it was there before the base was ready, or when the stream of
	// events began.
	Preinstalled bool
}

// Module returns a version of a module on the base, or nil. The base may be nil.
func (b *BaseStatus) Module(ref ModuleRef) *ModuleStatus {
	if b == nil {
		return nil
	}
	for i := range b.Modules {
		if b.Modules[i].ModuleRef == ref {
			return &b.Modules[i]
		}
	}
	return nil
}

// Active reports whether the version of a module is active; empty = any version. The base may be nil.
func (b *BaseStatus) Active(name, version string) bool {
	return b != nil && slices.ContainsFunc(b.Modules, func(m ModuleStatus) bool {
		return m.State == ModuleActivated && m.Name == name && (version == "" || m.Version == version)
	})
}

// modulesAfter returns the modules after an event, in a new slice.
func (b *BaseStatus) modulesAfter(e *ModuleEvent, now time.Time) []ModuleStatus {
	at, found := slices.BinarySearchFunc(b.Modules, e.ModuleRef, func(m ModuleStatus, r ModuleRef) int {
		return cmp.Or(cmp.Compare(m.Name, r.Name), cmp.Compare(m.Version, r.Version))
	})
	m := ModuleStatus{ModuleRef: e.ModuleRef, Since: now, Preinstalled: !b.Ready}
	if found {
		m = b.Modules[at]
	}
	m.State = e.State
	modules := slices.Clone(b.Modules)
	switch {
	case m.State.Absent() && found:
		return slices.Delete(modules, at, at+1)
	case m.State.Absent():
		return modules
	case found:
		modules[at] = m
		return modules
	}
	return slices.Insert(modules, at, m)
}

// PodStatus is a Pod that exists.
type PodStatus struct {
	PodState
	// Base is the host name of the base of the Pod; empty = none so far.
	Base string
	// Earlier are the modules that the Pod requested before it was changed in place.
	Earlier []ModuleRef
	// Number counts Pods from 1, in the order of their first events.
	Number int
	// ReadySince is when the Pod began to serve; zero = it does not serve.
	ReadySince time.Time
}

// Serves reports whether the Pod is Ready and not being deleted. A Service has no ready endpoint for a Pod that is being
// deleted.
func (p *PodState) Serves() bool { return p.Ready && !p.Gone && !p.Deleting }

// PodStage is the stage in the life of a Pod.
type PodStage string

// The stages of a Pod.
const (
	PodPending     PodStage = "pending"
	PodNotReady    PodStage = "notReady"
	PodReady       PodStage = "ready"
	PodTerminating PodStage = "terminating"
)

// Stage returns the stage of the Pod.
func (p *PodState) Stage() PodStage {
	switch {
	case p.Deleting:
		return PodTerminating
	case p.Ready:
		return PodReady
	case p.Phase == string(corev1.PodPending):
		return PodPending
	}
	return PodNotReady
}

// Requires reports whether the Pod requires an active module of the name.
func (p *PodState) Requires(module string) bool {
	return !p.Gone && !p.Deleting && p.Phase != string(corev1.PodFailed) && p.Phase != string(corev1.PodSucceeded) &&
		p.HasModule(module)
}

// HasModule reports whether the Pod has a module of the name.
func (p *PodState) HasModule(module string) bool {
	return slices.ContainsFunc(p.Modules, func(m ModuleRef) bool { return m.Name == module })
}

// ModuleNames returns its modules as NAME:VERSION.
func (p *PodState) ModuleNames() []string {
	names := make([]string, len(p.Modules))
	for i, m := range p.Modules {
		names[i] = m.String()
	}
	return names
}

// Version returns the version of a module of the Pod; empty if the Pod does not have the module, or sets no version.
func (p *PodState) Version(module string) string {
	for _, m := range p.Modules {
		if m.Name == module {
			return m.Version
		}
	}
	return ""
}

// NodeStatus is a Node that exists.
type NodeStatus struct {
	Name string
	// Base of the Node; empty = none.
	Base  string
	State NodeState
}

// ServiceStatus is a Service by its endpoints.
type ServiceStatus struct {
	Name      string
	Endpoints []Endpoint
}

// ComponentStatus is the process of a component.
type ComponentStatus struct {
	ComponentEvent
	// Since is when the component entered its state.
	Since time.Time
}

// FaultStatus is a fault in effect.
type FaultStatus struct {
	FaultEvent
	// Since is when it was set.
	Since time.Time
	// Triggered is how often it was reported as triggered.
	Triggered int
}

// StepStatus is a step of a scenario.
type StepStatus struct {
	StepEvent
	// Number counts steps from 1, in the order in which they began.
	Number int
	// From is when it began, and To when it ended; zero = it has not ended.
	From, To time.Time
}

// StreamStatus counts the lost requests of a stream.
type StreamStatus struct {
	Name string
	// Lost by result.
	Lost map[RequestResult]int
}
