package control

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Phase of a sandbox.
type Phase string

// The phases.
const (
	Idle     Phase = "idle"     // the daemon waits for its first up
	Starting Phase = "starting" // the first up is in progress
	Running  Phase = "running"  // the first up has succeeded
	Stopping Phase = "stopping"
	Dead     Phase = "dead" // the state directory exists, but no daemon answers
)

// Status of a sandbox.
type Status struct {
	Name  string `json:"name"`
	Phase Phase  `json:"phase"`
	// Koupsandbox is the version of the daemon; empty if unknown.
	Koupsandbox string `json:"koupsandbox,omitempty"`
	// Healthy reports whether there are no Problems. Bases and their Nodes are included if the request asks for bases.
	Healthy bool `json:"healthy"`
	// Problems has one sentence for each problem.
	Problems []string `json:"problems,omitempty"`
	// Provider is never auto.
	Provider v1alpha1.Provider `json:"provider"`
	// Version of the Kubernetes API server; empty until it answers.
	Version string `json:"version,omitempty"`
	Env     string `json:"env"`
	// Speed is the time scale; 0 = 1.
	Speed int `json:"speed,omitempty"`
	// StartedAt is the start time of the daemon.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Kubeconfig and Logs are paths.
	Kubeconfig     string      `json:"kubeconfig"`
	Logs           string      `json:"logs"`
	Broker         Broker      `json:"broker"`
	Components     []Component `json:"components"`
	BaseCount      int         `json:"baseCount"`
	BasesConnected int         `json:"basesConnected"`
	// Gateway is the host:port of the HTTP proxy to Services and bases.
	Gateway string `json:"gateway,omitempty"`
	// Bases is empty unless the request asks for bases.
	Bases []Base `json:"bases,omitempty"`
}

// Broker describes the MQTT broker.
type Broker struct {
	// Addr is the host:port of the sandbox's broker, or of its relay to an external broker.
	Addr string `json:"addr,omitempty"`
	TLS  bool   `json:"tls,omitempty"`
	// URL of the external broker; empty without one.
	URL string `json:"url,omitempty"`
	// Stats is nil for an external broker, and while the broker is down.
	*broker.Stats
}

// Base is one simulated base.
type Base struct {
	// Identity is the UUID of the base in topics. A new process may have a new one.
	Identity string `json:"identity"`
	// HostName is base-1, base-2, … for the sandbox's own bases, and GROUP-SET-N for the bases of a group.
	HostName string `json:"hostName"`
	// Group, Set and Index are empty for the sandbox's own bases.
	Group   string               `json:"group,omitempty"`
	Set     string               `json:"set,omitempty"`
	Index   int                  `json:"index,omitempty"`
	Tunnel  v1alpha1.Tunnel      `json:"tunnel"`
	Runtime v1alpha1.BaseRuntime `json:"runtime"`
	IP      string               `json:"ip"`
	Name    string               `json:"name"`
	Version string               `json:"version"`
	// Running reports whether the process runs, Ready whether it has finished its start.
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Reason is the error of a base that ended unexpectedly; otherwise empty.
	Reason string `json:"reason,omitempty"`
	// Connected reports whether the base is connected to the broker or, over HTTP, whether its last heartbeat was
	// answered.
	Connected bool `json:"connected"`
	// WebAddr is the host:port for requests to modules. The base listens there after the first request.
	WebAddr string `json:"webAddr,omitempty"`
	// Node is the name of the Node; empty if it does not exist.
	Node      string `json:"node,omitempty"`
	NodeReady bool   `json:"nodeReady"`
	// Modules are the installed modules, as "NAME:VERSION STATE".
	Modules []string `json:"modules,omitempty"`
	// Faults is the number of faults in effect.
	Faults int `json:"faults,omitempty"`
}

// The states of a base.
const (
	BaseRunning      = "running"
	BaseStarting     = "starting"     // the process runs, but has not finished its start
	BaseDisconnected = "disconnected" // it runs without a connection
	BaseCrashed      = "crashed"      // its process has ended
)

// State returns the state of the base.
func (b *Base) State() string {
	switch {
	case !b.Running:
		return BaseCrashed
	case !b.Ready:
		return BaseStarting
	case !b.Connected:
		return BaseDisconnected
	}
	return BaseRunning
}

// UpRequest creates the sandbox of the daemon, or updates a running one to Config.
type UpRequest struct {
	Config *v1alpha1.Sandbox `json:"config"`
	// KeepBases keeps the number of bases of a running sandbox.
	KeepBases bool `json:"keepBases,omitempty"`
	// BrokerPassword is for the external broker. Default: the content of spec.broker.passwordFile. A running sandbox
	// keeps its password.
	BrokerPassword string `json:"brokerPassword,omitempty"`
	// OwnEnv reports whether the environment in Config was generated for this sandbox.
	OwnEnv bool `json:"ownEnv,omitempty"`
}

// UpResult is the result of an up.
type UpResult struct {
	// Already reports whether the sandbox was running before.
	Already bool `json:"already"`
	// Changes are the changes to a running sandbox.
	Changes []string `json:"changes,omitempty"`
	Status  *Status  `json:"status"`
}

// AddRequest adds bases.
type AddRequest struct {
	Count int `json:"count"`
	// Group of the bases, a DNS label. Default: they are the sandbox's own and have its settings; Set, Spec and Seed
	// must be empty.
	Group string `json:"group,omitempty"`
	// Set within the group, a DNS label. Default: the name of Spec.
	Set string `json:"set,omitempty"`
	// Spec has the settings; its Count is ignored. Default: all defaults.
	Spec *v1alpha1.BaseSet `json:"spec,omitempty"`
	// Seed for random settings. Default: random.
	Seed uint64 `json:"seed,omitempty"`
}

// RemoveRequest selects bases to remove, by exactly one field.
type RemoveRequest struct {
	// Bases are identities or host names.
	Bases []string `json:"bases,omitempty"`
	// Count is the number of the sandbox's own bases to remove, youngest first.
	Count int `json:"count,omitempty"`
	// Group selects all bases of a group. Its traffic stops too.
	Group string `json:"group,omitempty"`
}

// RestartRequest restarts a base.
type RestartRequest struct {
	// Base is set by Client.RestartBase.
	Base string `json:"base"`
	// NewIdentity gives the base a new identity, like a new container.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// WatchRequest selects the events of a stream.
type WatchRequest struct {
	// Group whose bases and traffic are watched; its bases are named SET-N. Events of components are always included.
	// Default: everything, and bases have their host names.
	Group string `json:"group,omitempty"`
	// Own makes the stream the owner of Group. When the stream ends, the daemon stops the traffic of the group, removes
	// its bases, and reverts its changes to components.
	Own bool `json:"own,omitempty"`
}

// ActRequest performs an action on a component.
type ActRequest struct {
	Component string           `json:"component"`
	Action    supervise.Action `json:"action"`
	// Group that reverts the action when it is repaired, or when its owner disconnects. Default: none.
	Group string `json:"group,omitempty"`
}

// RepairRequest reverts the actions of a group on components.
type RepairRequest struct {
	Group string `json:"group"`
	// Controllers also reverts the changes of the group to the module controllers, which restarts them.
	Controllers bool `json:"controllers,omitempty"`
}

// ControllerRequest describes the required module controllers.
type ControllerRequest struct {
	// Replicas is their number. Default: the number in the configuration.
	Replicas int `json:"replicas,omitempty"`
	// Env adds variables to those in the configuration.
	Env map[string]string `json:"env,omitempty"`
	// APIView routes the requests of controllers through the API proxy, which injects faults. Default: as in
	// the configuration.
	APIView bool `json:"apiView,omitempty"`
	// Group that reverts the change when it is repaired, or when its owner disconnects. Default: none.
	Group string `json:"group,omitempty"`
}

// FaultSelector selects faults.
type FaultSelector = fault.Selector

// Faults are the faults that are set.
type Faults struct {
	Faults []fault.Status `json:"faults"`
	// Writes of the controllers that use the API proxy.
	Writes apifault.Writes `json:"writes,omitzero"`
}

// Component is one part of a sandbox.
type Component = supervise.Component

// Error is a failure that the daemon reports. Its Code is an HTTP status.
type Error = rpc.Error
