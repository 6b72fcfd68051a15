package events

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BaseState is the state of a base.
type BaseState string

// The states of a base.
const (
	// BaseStateDown: the process does not exist.
	BaseStateDown BaseState = "down"
	// BaseStateStarting: the process has not started yet.
	BaseStateStarting BaseState = "starting"
	// BaseStateDisconnected: the base is running, but is not connected to the broker.
	BaseStateDisconnected BaseState = "disconnected"
	BaseStateReady        BaseState = "ready"
	// BaseStateUnknown: the state of the process is unknown. No BaseStatus has this state.
	BaseStateUnknown BaseState = "unknown"
)

// State returns the state of the base.
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

// BaseStatus is the status of a base. The name of the base stays the same when the base process restarts.
type BaseStatus struct {
	Name string
	// Identity is the identity of the base process; empty if it is unknown.
	Identity string
	// Running reports whether the process exists, Ready whether the base has started, and Connected whether the base
	// is connected to the broker.
	Running, Ready, Connected bool
	// Removed reports whether the base was deleted. Later events of the base may still arrive.
	Removed bool
	// Started is the start time of the base process; zero if it is unknown.
	Started time.Time
	// Health is the status that /actuator/health of the base returns: UP, UNKNOWN or DOWN. It is empty if the process
	// does not exist or the health is unknown.
	Health string
	// Readiness is the status that /actuator/health/readiness of the base returns: UP or OUT_OF_SERVICE; empty like
	// Health.
	Readiness string
	Metaspace Metaspace
	// Modules on the base, sorted by name and version.
	Modules []ModuleStatus
}

// ModuleStatus is the status of a module version on a base.
type ModuleStatus struct {
	ModuleRef
	State ModuleState
	// Since is the time when the version first appeared on the base.
	Since time.Time
	// Preinstalled reports whether the module was already installed before the base was ready, or before the stream
	// of events began. No command installed such a module.
	Preinstalled bool
}

// Module returns the status of a module version on the base, or nil if the version is not on the base. The base may
// be nil.
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

// Active reports whether the given version of a module is active. If the version is empty, any version matches. The
// base may be nil.
func (b *BaseStatus) Active(name, version string) bool {
	return b != nil && slices.ContainsFunc(b.Modules, func(m ModuleStatus) bool {
		return m.State == ModuleActivated && m.Name == name && (version == "" || m.Version == version)
	})
}

// modulesAfter returns a new slice with the modules of a base after a module event.
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

// PodStatus is the status of an existing Pod.
type PodStatus struct {
	PodState
	// Base is the host name of the base on which the Pod runs; empty if the Pod is not bound or its base is unknown.
	Base string
	// Earlier contains the modules that the Pod requested before the Pod was changed in place.
	Earlier []ModuleRef
	// Number is the number of the Pod, from 1, in the order of the first events of the Pods.
	Number int
	// ReadySince is the time when Serves became true; zero while Serves is false.
	ReadySince time.Time
}

// Serves reports whether the Pod is Ready and is not being deleted. The endpoints of a Pod that is being deleted are
// not ready.
func (p *PodState) Serves() bool { return p.Ready && !p.Gone && !p.Deleting }

// PodStage is a stage between the creation and the deletion of a Pod.
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

// Requires reports whether the Pod requires the named module to be active.
func (p *PodState) Requires(module string) bool {
	return !p.Gone && !p.Deleting && p.Phase != string(corev1.PodFailed) && p.Phase != string(corev1.PodSucceeded) &&
		p.HasModule(module)
}

// HasModule reports whether the Pod requests the named module.
func (p *PodState) HasModule(module string) bool {
	return slices.ContainsFunc(p.Modules, func(m ModuleRef) bool { return m.Name == module })
}

// ModuleNames returns the modules of the Pod as NAME:VERSION.
func (p *PodState) ModuleNames() []string {
	names := make([]string, len(p.Modules))
	for i, m := range p.Modules {
		names[i] = m.String()
	}
	return names
}

// Version returns the version of the named module in the Pod. It returns the empty string if the Pod does not request
// the module or sets no version.
func (p *PodState) Version(module string) string {
	for _, m := range p.Modules {
		if m.Name == module {
			return m.Version
		}
	}
	return ""
}

// NodeStatus is the status of an existing Node.
type NodeStatus struct {
	Name string
	// Base is the host name of the base that the Node represents; empty if the Node does not represent a base.
	Base  string
	State NodeState
}

// ServiceStatus is the status of a Service, derived from its endpoints.
type ServiceStatus struct {
	Name      string
	Endpoints []Endpoint
}

// ComponentStatus is the status of a component process.
type ComponentStatus struct {
	ComponentEvent
	// Since is the time when the component entered its current state.
	Since time.Time
}

// FaultStatus is the status of a fault in effect.
type FaultStatus struct {
	FaultEvent
	// Since is the time when the fault was set.
	Since time.Time
	// Triggered is the number of times that the fault was reported as triggered.
	Triggered int
}

// StepStatus is the status of a scenario step.
type StepStatus struct {
	StepEvent
	// Number is the number of the step, from 1, in the order in which the steps began.
	Number int
	// From is the time when the step began. To is the time when the step ended; zero if it has not ended.
	From, To time.Time
}

// StreamStatus counts the lost requests of a stream.
type StreamStatus struct {
	Name string
	// Lost counts the lost requests by result.
	Lost map[RequestResult]int
}
