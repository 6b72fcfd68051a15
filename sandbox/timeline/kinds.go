package timeline

// ModuleState is the state of a module on a base, as arklet spells it (protocol 5.1). Empty = gone.
type ModuleState string

// The states of a module.
const (
	// ModuleUnresolved: it could not be stopped, and is gone.
	ModuleUnresolved ModuleState = "UNRESOLVED"
	// ModuleResolved: it is being installed.
	ModuleResolved ModuleState = "RESOLVED"
	// ModuleActivated: it serves.
	ModuleActivated ModuleState = "ACTIVATED"
	// ModuleDeactivated: another version has replaced it, or it is being uninstalled.
	ModuleDeactivated ModuleState = "DEACTIVATED"
	// ModuleBroken: its installation or its end has failed.
	ModuleBroken ModuleState = "BROKEN"
	// ModuleStopped: it is gone; no list of modules shows it any more.
	ModuleStopped ModuleState = "STOPPED"
)

// Gone tells whether a base forgets a module in this state.
func (s ModuleState) Gone() bool {
	return s == "" || s == ModuleStopped || s == ModuleUnresolved
}

// BaseChange is what an Event of kind Base tells of the base's process.
type BaseChange string

// The changes of a base.
const (
	// BaseAdded: it is known, its process is still to come. No stream tells it; who adds a base
	// applies it to a State.
	BaseAdded BaseChange = "added"
	// BaseUp: its process has started.
	BaseUp BaseChange = "up"
	// BaseReady: it has started its own modules and takes commands.
	BaseReady        BaseChange = "ready"
	BaseConnected    BaseChange = "connected"
	BaseDisconnected BaseChange = "disconnected"
	// BaseDown: its process has ended.
	BaseDown BaseChange = "down"
	// BaseRemoved: it will not come back, unless a base of its name is added.
	BaseRemoved BaseChange = "removed"
)

// NodeState is the condition Ready of a Node. Empty = the Node is gone.
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

// FaultChange is what an Event of kind Fault tells.
type FaultChange string

// The changes of a fault.
const (
	FaultSet     FaultChange = "set"
	FaultCleared FaultChange = "cleared"
	// FaultFired: it has happened.
	FaultFired FaultChange = "fired"
)

// Names of commands.
const (
	// CommandInstall installs a module.
	CommandInstall = "installBiz"
	// CommandHealth asks how a base is.
	CommandHealth = "health"
)
