package timeline

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BaseStatus is a base by its name, through all of its processes.
type BaseStatus struct {
	Name string
	// Identity of its process; empty until one is told.
	Identity string
	// Running tells whether its process runs, Ready whether that has started, Connected whether it
	// is connected to the broker.
	Running, Ready, Connected bool
	// Removed tells that it will not come back. Its name is kept, since events of it may still be
	// on their way.
	Removed bool
	// Modules that are on it, sorted by name and version.
	Modules []ModuleStatus
}

// ModuleStatus is a version of a module that is on a base.
type ModuleStatus struct {
	ModuleRef
	State ModuleState
	// Since is when the version came to the base.
	Since time.Time
	// Own tells that no command brought it: it came before the base was ready, or was there when
	// the stream of events began.
	Own bool
}

// Module returns a version of a module on the base, or nil. The base may be nil, one without
// modules.
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

// Active tells whether the version of a module is active; empty = any version. The base may be nil.
func (b *BaseStatus) Active(name, version string) bool {
	return b != nil && slices.ContainsFunc(b.Modules, func(m ModuleStatus) bool {
		return m.State == ModuleActivated && m.Name == name && (version == "" || m.Version == version)
	})
}

// with returns the modules with one changed, in a slice of its own; a state that is gone takes it
// out.
func (b *BaseStatus) with(e Event) []ModuleStatus {
	ref := ModuleRef{Name: e.Module, Version: e.Version}
	at, found := slices.BinarySearchFunc(b.Modules, ref, func(m ModuleStatus, r ModuleRef) int {
		return cmp.Or(cmp.Compare(m.Name, r.Name), cmp.Compare(m.Version, r.Version))
	})
	state := ModuleState(e.State)
	modules := make([]ModuleStatus, 0, len(b.Modules)+1)
	modules = append(modules, b.Modules[:at]...)
	m := ModuleStatus{ModuleRef: ref, Since: e.Time, Own: !b.Ready}
	if found {
		m = b.Modules[at]
		at++
	}
	if m.State = state; !state.Gone() {
		modules = append(modules, m)
	}
	return append(modules, b.Modules[at:]...)
}

// PodStatus is a Pod that exists.
type PodStatus struct {
	PodState
	// Base is the host name of the base it is on, also when that is not known any more; empty =
	// none so far.
	Base string
	// Earlier are the modules that it wanted before it was changed in place.
	Earlier []ModuleRef
	// Number counts Pods from 1, in the order in which they were first seen.
	Number int
	// ReadySince is since when it serves; zero = it does not.
	ReadySince time.Time
}

// Serves tells whether the Pod is Ready and stays: one that is being deleted is in no Service any
// more, whatever its condition says.
func (p *PodState) Serves() bool { return p.Ready && !p.Gone && !p.Deleting }

// Wants tells whether the Pod is there so that a module of the name is active.
func (p *PodState) Wants(module string) bool {
	return !p.Gone && !p.Deleting && p.Phase != string(corev1.PodFailed) && p.Phase != string(corev1.PodSucceeded) && p.Has(module)
}

// Has tells whether the Pod has a module of the name.
func (p *PodState) Has(module string) bool {
	return slices.ContainsFunc(p.Modules, func(m ModuleRef) bool { return m.Name == module })
}

// ModuleNames are its modules as NAME:VERSION.
func (p *PodState) ModuleNames() []string {
	names := make([]string, len(p.Modules))
	for i, m := range p.Modules {
		names[i] = m.String()
	}
	return names
}

// Version returns the version of a module that the Pod has; empty if it has none, or names none.
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
	// Base behind it, if it is one's.
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
	Name string
	// Since is when it came into its state.
	Since time.Time
	State ComponentState
	// Message says why, for people.
	Message string
}

// FaultStatus is a fault that is in effect.
type FaultStatus struct {
	// Target of the fault, and its base if it acts on one.
	Target, Base, ID string
	// Since is when it was set.
	Since time.Time
	// Kind of the fault, and what else is known of it.
	Kind, Message string
}

// StreamStatus counts the lost requests of a stream.
type StreamStatus struct {
	Name string
	// Lost by result.
	Lost map[string]int
}

// String is NAME:VERSION, or NAME if there is no version.
func (m ModuleRef) String() string {
	if m.Version == "" {
		return m.Name
	}
	return m.Name + ":" + m.Version
}
