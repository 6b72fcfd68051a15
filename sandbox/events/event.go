package events

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Event is one observation. Exactly one field besides Time is set.
type Event struct {
	// Time is when it happened. For objects of the API it is when the watch delivered the object, or an earlier time by
	// which the object was written.
	Time      time.Time       `json:"time"`
	Base      *BaseEvent      `json:"base,omitempty"`
	Module    *ModuleEvent    `json:"module,omitempty"`
	Command   *CommandEvent   `json:"command,omitempty"`
	Pod       *PodEvent       `json:"pod,omitempty"`
	Endpoints *EndpointsEvent `json:"endpoints,omitempty"`
	Node      *NodeEvent      `json:"node,omitempty"`
	Component *ComponentEvent `json:"component,omitempty"`
	Fault     *FaultEvent     `json:"fault,omitempty"`
	Step      *StepEvent      `json:"step,omitempty"`
	Request   *RequestEvent   `json:"request,omitempty"`
	// Synced ends the events at the beginning of a stream that report the present state. Later events report changes.
	Synced bool `json:"synced,omitempty"`
}

// BaseEvent is a change of the process of a base.
type BaseEvent struct {
	// Base is the host name of the base: SET-N.
	Base string `json:"base"`
	// Identity of the process.
	Identity string     `json:"identity,omitempty"`
	Change   BaseChange `json:"change"`
}

// ModuleEvent is a change of the state of a module on a base.
type ModuleEvent struct {
	Base     string `json:"base"`
	Identity string `json:"identity,omitempty"`
	ModuleRef
	From ModuleState `json:"from,omitempty"`
	// State is empty if the module was removed.
	State   ModuleState `json:"state,omitempty"`
	Message string      `json:"message,omitempty"`
}

// CommandEvent is a command that a base has answered. Successful health checks are not reported.
type CommandEvent struct {
	Base     string `json:"base"`
	Identity string `json:"identity,omitempty"`
	// Name of the command.
	Name string `json:"name"`
	// Module is empty for queries.
	Module ModuleRef `json:"module,omitzero"`
	// Code is the error code of the response; empty = success.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Elapsed is the time from the command to the response.
	Elapsed time.Duration `json:"elapsed,omitempty"`
}

// PodEvent is a Pod that was written or deleted.
type PodEvent struct {
	// Base is the host name of the base of the Pod's Node; empty = unknown.
	Base string `json:"base,omitempty"`
	PodState
}

// EndpointsEvent has all endpoints of a Service, of which at least one has changed.
type EndpointsEvent struct {
	Service   string     `json:"service"`
	Endpoints []Endpoint `json:"endpoints"`
}

// NodeEvent is a Node that was created or deleted, or whose readiness changed.
type NodeEvent struct {
	Name     string `json:"name"`
	Base     string `json:"base,omitempty"`
	Identity string `json:"identity,omitempty"`
	// State is empty if the Node was deleted.
	State   NodeState `json:"state,omitempty"`
	Message string    `json:"message,omitempty"`
}

// ComponentEvent is a change of the process of a component: the controller, the broker or the API server.
type ComponentEvent struct {
	Name    string         `json:"name"`
	State   ComponentState `json:"state"`
	Message string         `json:"message,omitempty"`
}

// FaultEvent is a fault that was set, triggered or cleared.
type FaultEvent struct {
	Target v1alpha1.FaultTarget `json:"target"`
	// Base is empty if the fault does not act on a single base.
	Base    string      `json:"base,omitempty"`
	ID      string      `json:"id"`
	Kind    fault.Kind  `json:"kind,omitempty"`
	Change  FaultChange `json:"change"`
	Message string      `json:"message,omitempty"`
}

// StepEvent is a step of a scenario that began or ended.
type StepEvent struct {
	Name    string    `json:"name"`
	State   StepState `json:"state"`
	Message string    `json:"message,omitempty"`
}

// RequestEvent is a lost request.
type RequestEvent struct {
	Stream string `json:"stream"`
	Base   string `json:"base,omitempty"`
	// Module that was requested, with the version that answered.
	Module ModuleRef     `json:"module,omitzero"`
	Result RequestResult `json:"result"`
	// Route of the request, such as gateway or kube-proxy.
	Route   string `json:"route,omitempty"`
	Message string `json:"message,omitempty"`
	// Elapsed is the time from when the request was due until its result was known.
	Elapsed time.Duration `json:"elapsed,omitempty"`
}

// ModuleRef names a version of a module. The version is empty for a Pod that sets none.
type ModuleRef struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// String returns NAME:VERSION, or NAME if there is no version.
func (m ModuleRef) String() string { return Join(":", m.Name, m.Version) }

// Endpoint is one endpoint of a Service.
type Endpoint struct {
	IP          string `json:"ip"`
	Pod         string `json:"pod,omitempty"`
	Base        string `json:"base,omitempty"`
	Ready       bool   `json:"ready"`
	Serving     bool   `json:"serving"`
	Terminating bool   `json:"terminating"`
}

// ModuleState is the state of a module on a base, as arklet spells it. Empty = the module is not installed.
type ModuleState string

// The states of a module.
const (
	// ModuleUnresolved: the module is not in the base yet, or was removed because it could not be stopped.
	ModuleUnresolved ModuleState = "UNRESOLVED"
	// ModuleResolved: the module is being installed.
	ModuleResolved ModuleState = "RESOLVED"
	// ModuleActivated: the module serves requests.
	ModuleActivated ModuleState = "ACTIVATED"
	// ModuleDeactivated: another version has replaced the module, or the module is being uninstalled.
	ModuleDeactivated ModuleState = "DEACTIVATED"
	// ModuleBroken: the installation or the uninstallation has failed.
	ModuleBroken ModuleState = "BROKEN"
	// ModuleStopped: the module was removed; module lists do not contain it.
	ModuleStopped ModuleState = "STOPPED"
)

// Absent reports whether a module in this state is not installed.
func (s ModuleState) Absent() bool { return s == "" || s == ModuleStopped || s == ModuleUnresolved }

// BaseChange is a change of the process of a base.
type BaseChange string

// The changes of a base.
const (
	// BaseAdded: the base exists, and its process has not started yet. The daemon does not report it.
	BaseAdded BaseChange = "added"
	// BaseUp: the process has started.
	BaseUp BaseChange = "up"
	// BaseReady: the base has started its own modules and accepts commands.
	BaseReady        BaseChange = "ready"
	BaseConnected    BaseChange = "connected"
	BaseDisconnected BaseChange = "disconnected"
	// BaseDown: the process has ended.
	BaseDown BaseChange = "down"
	// BaseRemoved: the base was deleted.
	BaseRemoved BaseChange = "removed"
)

// NodeState is the condition Ready of a Node. Empty = the Node does not exist.
type NodeState string

// The states of a Node.
const (
	NodeReady    NodeState = "Ready"
	NodeNotReady NodeState = "NotReady"
	NodeUnknown  NodeState = "Unknown"
)

// ComponentState is the state of the process of a component.
type ComponentState string

// The states of a component.
const (
	ComponentRunning ComponentState = "running"
	ComponentPaused  ComponentState = "paused"
	ComponentExited  ComponentState = "exited"
)

// FaultChange is a change of a fault.
type FaultChange string

// The changes of a fault.
const (
	FaultSet     FaultChange = "set"
	FaultTriggered   FaultChange = "fired"
	FaultCleared FaultChange = "cleared"
)

// StepState is the state of a step of a scenario.
type StepState string

// The states of a step.
const (
	StepBegan   StepState = "began"
	StepPassed  StepState = "passed"
	StepFailed  StepState = "failed"
	StepSkipped StepState = "skipped"
	// StepErrored: the step has neither passed nor failed, because of the scenario, the sandbox or a slow machine.
	StepErrored StepState = "errored"
)

// RequestResult is the result of a request. Every result except RequestOK is a lost request.
type RequestResult string

// The results of a request.
const (
	// RequestOK: an allowed version of the module answered with 2xx.
	RequestOK RequestResult = "ok"
	// RequestNoEndpoint: the Service had no endpoint, or no base existed.
	RequestNoEndpoint RequestResult = "noEndpoint"
	// RequestRefused: the endpoint refused the connection.
	RequestRefused RequestResult = "refused"
	// RequestReset: the connection was closed before the response was complete.
	RequestReset RequestResult = "reset"
	// RequestNotFound: the base answered 404, because it has no active version of the module.
	RequestNotFound RequestResult = "notFound"
	// RequestUnavailable: the base answered 503.
	RequestUnavailable RequestResult = "unavailable"
	// RequestTimeout: there was no complete response in time.
	RequestTimeout RequestResult = "timeout"
	// RequestWrongVersion: a version answered that is not allowed.
	RequestWrongVersion RequestResult = "wrongVersion"
	// RequestOther is any other failure, such as another status.
	RequestOther RequestResult = "other"
)

// Names of commands.
const (
	// CommandInstall installs a module.
	CommandInstall = "installBiz"
	// CommandHealth is a health check.
	CommandHealth = "health"
	// CommandList asks for the modules of a base.
	CommandList = "queryAllBiz"
)

// BaseName returns the host name of the base that the event is about; empty if there is none.
func (e Event) BaseName() string {
	switch {
	case e.Base != nil:
		return e.Base.Base
	case e.Module != nil:
		return e.Module.Base
	case e.Command != nil:
		return e.Command.Base
	case e.Pod != nil:
		return e.Pod.Base
	case e.Node != nil:
		return e.Node.Base
	case e.Fault != nil:
		return e.Fault.Base
	case e.Request != nil:
		return e.Request.Base
	}
	return ""
}

// Routine reports whether the event is a successful query or health check, which the controller repeats periodically.
func (e Event) Routine() bool {
	c := e.Command
	return c != nil && c.Code == "" && (c.Name == CommandHealth || strings.HasPrefix(c.Name, "query"))
}

// Key identifies the fault: BASE/ID or TARGET/ID.
func (e *FaultEvent) Key() string {
	if e.Base == "" {
		return string(e.Target) + "/" + e.ID
	}
	return e.Base + "/" + e.ID
}

// Ready returns the number of ready endpoints.
func (e *EndpointsEvent) Ready() int {
	ready := 0
	for _, p := range e.Endpoints {
		if p.Ready {
			ready++
		}
	}
	return ready
}

// Join joins the parts that are not empty.
func Join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" }), separator)
}
