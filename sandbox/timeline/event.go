package timeline

import (
	"slices"
	"strings"
	"time"
)

// Kind says what an Event tells of.
type Kind string

// The kinds of events.
const (
	// Base: a base came, went, connected, disconnected, got ready.
	Base Kind = "base"
	// Module: a module on a base changed its state.
	Module Kind = "module"
	// Command: a base answered a command; good answers about its health are not told.
	Command Kind = "command"
	// Pod: a Pod was written, or is gone.
	Pod Kind = "pod"
	// Endpoints: the endpoints of a Service changed.
	Endpoints Kind = "endpoints"
	// Node: a Node came, went or changed its readiness.
	Node Kind = "node"
	// Component: the controller, the broker or the API server started, ended, was paused or
	// resumed.
	Component Kind = "component"
	// Fault: a fault was set, triggered or ended. Target is where it acts, Name its id, Code its kind.
	Fault Kind = "fault"
	// Step: a step began or ended.
	Step Kind = "step"
	// Request: a request was lost. Name is its stream, State its result, Route what led it.
	Request Kind = "request"
	// Synced ends the events that tell, at the beginning of a stream, what is; all that follow tell
	// of changes. Nothing but its time is set.
	Synced Kind = "synced"
)

// Event is one thing that was seen. Which fields are set depends on its kind.
type Event struct {
	// Time is when it happened. For objects of the API it is when the watch told it, or before, if it
	// is known that it was written before.
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Base is the host name of the base that it is about, if any: SET-N.
	Base string `json:"base,omitempty"`
	// Identity of the base's process at that time.
	Identity string `json:"identity,omitempty"`

	// State is the new state, see the types BaseChange, ModuleState and so on: of a base up, ready,
	// down, connected, disconnected, removed; of a module as arklet spells it, empty when it is
	// gone; of a component running, paused, exited; of a fault set, fired, cleared; of a step began,
	// passed, failed, skipped; of a Node Ready, NotReady, Unknown, or empty when it is gone.
	State string `json:"state,omitempty"`
	// Module and Version of a module or command; of a lost request, what it asked for and what answered.
	Module  string `json:"module,omitempty"`
	Version string `json:"version,omitempty"`
	// From is a module's state before.
	From string `json:"from,omitempty"`
	// Target of a fault: base, api or mqtt.
	Target string `json:"target,omitempty"`
	// Name of the component, fault, step, Service or command.
	Name string `json:"name,omitempty"`
	// Message for people: what a base answered, why a step failed.
	Message string `json:"message,omitempty"`
	// Code is the error code of a command's answer, empty = success; or the kind of a fault.
	Code string `json:"code,omitempty"`
	// Route of a lost request: gateway, kube-proxy, or bases if nobody picked the base.
	Route string `json:"route,omitempty"`
	// Elapsed is how long a command took, or a request until its fate was known.
	Elapsed time.Duration `json:"elapsed,omitempty"`

	// Pod is the state of a Pod, with kind Pod.
	Pod *PodState `json:"pod,omitempty"`
	// Endpoints of the Service Name, with kind Endpoints: all of them.
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// PodState is what counts of a Pod.
type PodState struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Owner is kind/name of its controller; empty for a bare Pod.
	Owner string `json:"owner,omitempty"`
	// Node it is bound to, and the host name of the base behind it.
	Node string `json:"node,omitempty"`
	// Modules it wants.
	Modules []ModuleRef `json:"modules"`
	// Labels of the Pod, for Services that select it.
	Labels map[string]string `json:"labels,omitempty"`
	Phase  string            `json:"phase"`
	Ready  bool              `json:"ready"`
	// Reason of its condition Ready, or of its container.
	Reason string `json:"reason,omitempty"`
	// Created is its creation time, in whole seconds.
	Created time.Time `json:"created,omitzero"`
	// Deleting tells whether it has a deletion timestamp.
	Deleting bool `json:"deleting,omitempty"`
	// Gone tells that the object is gone.
	Gone bool `json:"gone,omitempty"`
	// Writes is how many versions of the object have been seen.
	Writes int `json:"writes"`
}

// ModuleRef names a version of a module. A Pod that names no version of it has an empty one.
type ModuleRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Endpoint is one endpoint of a Service.
type Endpoint struct {
	IP          string `json:"ip"`
	Pod         string `json:"pod,omitempty"`
	Base        string `json:"base,omitempty"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
}

// Routine tells whether the event is a question that a base has answered well: the controller asks
// all the time.
func (e *Event) Routine() bool {
	return e.Kind == Command && e.Code == "" && (e.Name == CommandHealth || strings.HasPrefix(e.Name, "query"))
}

// FaultKey identifies the fault of an event of kind Fault: BASE/ID or TARGET/ID.
func (e *Event) FaultKey() string {
	if e.Base == "" {
		return e.Target + "/" + e.Name
	}
	return e.Base + "/" + e.Name
}

// ReadyEndpoints counts the Endpoints that are ready.
func (e *Event) ReadyEndpoints() int {
	ready := 0
	for _, p := range e.Endpoints {
		if p.Ready {
			ready++
		}
	}
	return ready
}

// Join joins what is not empty: how texts about events are put together.
func Join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" }), separator)
}
