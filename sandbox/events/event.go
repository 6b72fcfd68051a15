package events

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Event is one observation. Exactly one field other than Time is set.
type Event struct {
	// Time is the time of the observation. For API objects it is the time when the watch delivered the object, or an
	// earlier time at which the object is known to have existed.
	Time      time.Time       `json:"time"`
	Base      *BaseEvent      `json:"base,omitempty"`
	Health    *HealthEvent    `json:"health,omitempty"`
	Module    *ModuleEvent    `json:"module,omitempty"`
	Command   *CommandEvent   `json:"command,omitempty"`
	Pod       *PodEvent       `json:"pod,omitempty"`
	Endpoints *EndpointsEvent `json:"endpoints,omitempty"`
	Node      *NodeEvent      `json:"node,omitempty"`
	Component *ComponentEvent `json:"component,omitempty"`
	Fault     *FaultEvent     `json:"fault,omitempty"`
	Step      *StepEvent      `json:"step,omitempty"`
	Request   *RequestEvent   `json:"request,omitempty"`
	// Synced marks the end of the initial events of a stream, which report the current state. Later events report
	// changes.
	Synced bool `json:"synced,omitempty"`
}

// BaseEvent is a change of a base process.
type BaseEvent struct {
	// Base is the host name of the base, in the form SET-N.
	Base string `json:"base"`
	// Identity is the identity of the base process.
	Identity string     `json:"identity,omitempty"`
	Change   BaseChange `json:"change"`
}

// HealthEvent reports that the health, the readiness or the metaspace usage of a base has changed.
type HealthEvent struct {
	Base     string `json:"base"`
	Identity string `json:"identity,omitempty"`
	// Health is the status that /actuator/health of the base returns: UP, UNKNOWN or DOWN.
	Health string `json:"health"`
	// Readiness is the status that /actuator/health/readiness returns: UP or OUT_OF_SERVICE.
	Readiness string    `json:"readiness"`
	Metaspace Metaspace `json:"metaspace"`
}

// Metaspace is the metaspace usage of a base in bytes. Max is -1 if there is no limit. The zero value means that the
// usage is unknown.
type Metaspace struct {
	Used      int64 `json:"used"`
	Committed int64 `json:"committed"`
	Max       int64 `json:"max"`
}

// ModuleEvent is a state change of a module on a base.
type ModuleEvent struct {
	Base     string `json:"base"`
	Identity string `json:"identity,omitempty"`
	ModuleRef
	From ModuleState `json:"from,omitempty"`
	// State is empty if the module was removed.
	State   ModuleState `json:"state,omitempty"`
	Message string      `json:"message,omitempty"`
}

// CommandEvent is a command to which a base has responded. Successful health checks are not reported.
type CommandEvent struct {
	Base     string `json:"base"`
	Identity string `json:"identity,omitempty"`
	// Name is the name of the command.
	Name string `json:"name"`
	// Module is the module of the command; empty for queries.
	Module ModuleRef `json:"module,omitzero"`
	// Code is the error code of the response; empty if the command succeeded.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Elapsed is the time between the command and the response.
	Elapsed time.Duration `json:"elapsed,omitempty"`
}

// PodEvent reports that a Pod was written or deleted.
type PodEvent struct {
	// Base is the host name of the base that the Pod's Node represents; empty if the base is unknown.
	Base string `json:"base,omitempty"`
	PodState
}

// EndpointsEvent contains all endpoints of a Service after at least one of them has changed.
type EndpointsEvent struct {
	Service   string     `json:"service"`
	Endpoints []Endpoint `json:"endpoints"`
}

// NodeEvent reports that a Node was created or deleted, or that its readiness changed.
type NodeEvent struct {
	Name     string `json:"name"`
	Base     string `json:"base,omitempty"`
	Identity string `json:"identity,omitempty"`
	// State is empty if the Node was deleted.
	State   NodeState `json:"state,omitempty"`
	Message string    `json:"message,omitempty"`
}

// ComponentEvent is a change of a component process, such as the controller, the broker or the API server.
type ComponentEvent struct {
	Name    string         `json:"name"`
	State   ComponentState `json:"state"`
	Message string         `json:"message,omitempty"`
}

// FaultEvent reports that a fault was set, triggered or cleared.
type FaultEvent struct {
	Target v1alpha1.FaultTarget `json:"target"`
	// Base is the base on which the fault acts; empty if the fault does not act on a single base.
	Base    string      `json:"base,omitempty"`
	ID      string      `json:"id"`
	Kind    fault.Kind  `json:"kind,omitempty"`
	Change  FaultChange `json:"change"`
	Message string      `json:"message,omitempty"`
}

// StepEvent reports that a step of a scenario began or ended.
type StepEvent struct {
	Name    string    `json:"name"`
	State   StepState `json:"state"`
	Message string    `json:"message,omitempty"`
}

// RequestEvent reports a lost request.
type RequestEvent struct {
	Stream string `json:"stream"`
	Base   string `json:"base,omitempty"`
	// Module is the requested module, with the version that responded.
	Module ModuleRef     `json:"module,omitzero"`
	Result RequestResult `json:"result"`
	// Route is the route of the request, such as gateway or kube-proxy.
	Route   string `json:"route,omitempty"`
	Message string `json:"message,omitempty"`
	// Elapsed is the time between the scheduled start of the request and its result.
	Elapsed time.Duration `json:"elapsed,omitempty"`
}

// ModuleRef identifies a version of a module. Version is empty if a Pod does not set a version.
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

// ModuleState is the state of a module on a base, in the spelling of arklet. It is empty if the module is not
// installed.
type ModuleState string

// The states of a module.
const (
	// ModuleUnresolved: the module is not yet installed on the base, or was removed because it could not be stopped.
	ModuleUnresolved ModuleState = "UNRESOLVED"
	// ModuleResolved: the module is being installed.
	ModuleResolved ModuleState = "RESOLVED"
	// ModuleActivated: the module serves requests.
	ModuleActivated ModuleState = "ACTIVATED"
	// ModuleDeactivated: another version has replaced the module, or the module is being uninstalled.
	ModuleDeactivated ModuleState = "DEACTIVATED"
	// ModuleBroken: the installation or the uninstallation has failed.
	ModuleBroken ModuleState = "BROKEN"
	// ModuleStopped: the module was removed. Module lists do not contain it.
	ModuleStopped ModuleState = "STOPPED"
)

// Absent reports whether a module in this state is absent from the base.
func (s ModuleState) Absent() bool { return s == "" || s == ModuleStopped || s == ModuleUnresolved }

// BaseChange is the kind of change of a base process.
type BaseChange string

// The changes of a base process.
const (
	// BaseAdded: the base exists, but its process has not started yet. The daemon does not report this change.
	BaseAdded BaseChange = "added"
	// BaseUp: the process has started.
	BaseUp BaseChange = "up"
	// BaseReady: the base has started its preinstalled modules and accepts commands.
	BaseReady        BaseChange = "ready"
	BaseConnected    BaseChange = "connected"
	BaseDisconnected BaseChange = "disconnected"
	// BaseDown: the process has exited.
	BaseDown BaseChange = "down"
	// BaseRemoved: the base was deleted.
	BaseRemoved BaseChange = "removed"
)

// NodeState is the state of a Node according to its Ready condition. It is empty if the Node does not exist.
type NodeState string

// The states of a Node.
const (
	NodeReady    NodeState = "Ready"
	NodeNotReady NodeState = "NotReady"
	NodeUnknown  NodeState = "Unknown"
)

// ComponentState is the state of a component process.
type ComponentState string

// The states of a component.
const (
	ComponentRunning ComponentState = "running"
	ComponentPaused  ComponentState = "paused"
	// ComponentStopping means that the sandbox is stopping or killing the component, whose process has not yet exited.
	ComponentStopping ComponentState = "stopping"
	ComponentExited   ComponentState = "exited"
)

// FaultChange is the kind of change of a fault.
type FaultChange string

// The changes of a fault.
const (
	FaultSet       FaultChange = "set"
	FaultTriggered FaultChange = "fired"
	FaultCleared   FaultChange = "cleared"
)

// StepState is the state of a scenario step.
type StepState string

// The states of a step.
const (
	StepBegan   StepState = "began"
	StepPassed  StepState = "passed"
	StepFailed  StepState = "failed"
	StepSkipped StepState = "skipped"
	// StepErrored: the step neither passed nor failed, because of a problem with the scenario, the sandbox or a slow
	// machine.
	StepErrored StepState = "errored"
)

// RequestResult is the result of a request. A request with any result other than RequestOK is a lost request.
type RequestResult string

// The results of a request.
const (
	// RequestOK: an allowed version of the module responded with a 2xx status.
	RequestOK RequestResult = "ok"
	// RequestNoEndpoint: the Service had no ready endpoint, or no base existed.
	RequestNoEndpoint RequestResult = "noEndpoint"
	// RequestRefused: the endpoint refused the connection.
	RequestRefused RequestResult = "refused"
	// RequestReset: the connection was closed before the response was complete.
	RequestReset RequestResult = "reset"
	// RequestNotFound: the base responded with status 404, because it has no active version of the module.
	RequestNotFound RequestResult = "notFound"
	// RequestUnavailable: the base responded with status 503.
	RequestUnavailable RequestResult = "unavailable"
	// RequestTimeout: no complete response arrived in time.
	RequestTimeout RequestResult = "timeout"
	// RequestWrongVersion: a version that is not allowed responded.
	RequestWrongVersion RequestResult = "wrongVersion"
	// RequestOther is any other failure, such as another response status.
	RequestOther RequestResult = "other"
)

// The names of commands.
const (
	// CommandInstall installs a module.
	CommandInstall = "installBiz"
	// CommandHealth is a health check.
	CommandHealth = "health"
	// CommandList returns the modules of a base.
	CommandList = "queryAllBiz"
)

// BaseName returns the host name of the base that the event concerns, or an empty string if the event concerns no
// base.
func (e Event) BaseName() string {
	switch {
	case e.Base != nil:
		return e.Base.Base
	case e.Health != nil:
		return e.Health.Base
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

// Routine reports whether the event is a successful query or health check. The controller repeats these commands
// periodically.
func (e Event) Routine() bool {
	c := e.Command
	return c != nil && c.Code == "" && (c.Name == CommandHealth || strings.HasPrefix(c.Name, "query"))
}

// Key identifies the fault, in the form BASE/ID or TARGET/ID.
func (e *FaultEvent) Key() string {
	if e.Base == "" {
		return string(e.Target) + "/" + e.ID
	}
	return e.Base + "/" + e.ID
}

// Ready returns the number of ready endpoints of the Service.
func (e *EndpointsEvent) Ready() int {
	ready := 0
	for _, p := range e.Endpoints {
		if p.Ready {
			ready++
		}
	}
	return ready
}

// Join joins the non-empty parts with the separator.
func Join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" }), separator)
}
