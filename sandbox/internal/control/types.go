package control

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Phase is the phase of a sandbox.
type Phase string

// The phases of a sandbox.
const (
	Idle     Phase = "idle"     // the daemon waits for its first up
	Starting Phase = "starting" // the first up is in progress
	Running  Phase = "running"  // the first up has succeeded
	Stopping Phase = "stopping"
	Dead     Phase = "dead" // the state directory exists, but no daemon answers
)

// Status is the status of a sandbox.
type Status struct {
	Name  string `json:"name"`
	Phase Phase  `json:"phase"`
	// Koupsandbox is the version of the daemon; empty if it is unknown.
	Koupsandbox string `json:"koupsandbox,omitempty"`
	// Healthy reports whether Problems is empty. Problems includes problems of bases and their Nodes only if the
	// request asks for bases.
	Healthy bool `json:"healthy"`
	// Problems describes each problem in one sentence.
	Problems []string `json:"problems,omitempty"`
	// Provider is the provider in use. It is never auto.
	Provider v1alpha1.Provider `json:"provider"`
	// Version is the version of the Kubernetes API server; empty until the API server has responded.
	Version string `json:"version,omitempty"`
	Env     string `json:"env"`
	// Speed is the time scale; 0 means 1.
	Speed int `json:"speed,omitempty"`
	// StartedAt is the start time of the daemon.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Kubeconfig is the path of the kubeconfig. Logs is the path of the log directory.
	Kubeconfig     string      `json:"kubeconfig"`
	Logs           string      `json:"logs"`
	Broker         Broker      `json:"broker"`
	Components     []Component `json:"components"`
	BaseCount      int         `json:"baseCount"`
	BasesConnected int         `json:"basesConnected"`
	// Gateway is the host:port of the HTTP proxy for requests to Services and bases.
	Gateway string `json:"gateway,omitempty"`
	// Bases contains all bases. It is empty if the request does not ask for bases.
	Bases []Base `json:"bases,omitempty"`
}

// Broker describes the MQTT broker.
type Broker struct {
	// Addr is the host:port of the embedded broker, or of the relay to an external broker.
	Addr string `json:"addr,omitempty"`
	TLS  bool   `json:"tls,omitempty"`
	// URL is the URL of the external broker; empty if no external broker is used.
	URL string `json:"url,omitempty"`
	// Stats is nil for an external broker, and while the broker is down.
	*broker.Stats
}

// Base is the status of one simulated base.
type Base struct {
	// Identity is the UUID of the base in MQTT topics. It can change when the base process restarts.
	Identity string `json:"identity"`
	// HostName is base-1, base-2, … for bases outside groups, and GROUP-SET-N for the bases of a group.
	HostName string `json:"hostName"`
	// Group, Set and Index are empty for bases outside groups.
	Group   string               `json:"group,omitempty"`
	Set     string               `json:"set,omitempty"`
	Index   int                  `json:"index,omitempty"`
	Tunnel  v1alpha1.Tunnel      `json:"tunnel"`
	Runtime v1alpha1.BaseRuntime `json:"runtime"`
	IP      string               `json:"ip"`
	Name    string               `json:"name"`
	Version string               `json:"version"`
	// Running reports whether the base process is running. Ready reports whether the base has finished starting.
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Health is the status that /actuator/health of the base returns: UP, UNKNOWN or DOWN; empty if the base does not
	// run. Metaspace is its metaspace usage.
	Health    string           `json:"health,omitempty"`
	Metaspace events.Metaspace `json:"metaspace,omitzero"`
	// ReleasesLeft is the number of releases after which the Node of the base is still not under memory pressure, or
	// "unlimited" if past releases left no metaspace behind; empty if it is unknown.
	ReleasesLeft string `json:"releasesLeft,omitempty"`
	// Reason is the error if the base process exited unexpectedly; otherwise it is empty.
	Reason string `json:"reason,omitempty"`
	// Connected reports whether the base is connected to the broker. With the HTTP tunnel, it reports whether the
	// last heartbeat received a response.
	Connected bool `json:"connected"`
	// WebAddr is the host:port for requests to modules. The base opens this port at the first request.
	WebAddr string `json:"webAddr,omitempty"`
	// Node is the name of the base's Node; empty if the Node does not exist.
	Node      string `json:"node,omitempty"`
	NodeReady bool   `json:"nodeReady"`
	// Modules lists the installed modules in the form "NAME:VERSION STATE".
	Modules []string `json:"modules,omitempty"`
	// Faults is the number of faults that are in effect on the base.
	Faults int `json:"faults,omitempty"`
}

// The values that Base.State returns.
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

// UpRequest is a request to create the sandbox with Config, or to reconcile a running sandbox with Config.
type UpRequest struct {
	Config *v1alpha1.Sandbox `json:"config"`
	// KeepBases keeps the current number of bases if the sandbox is running.
	KeepBases bool `json:"keepBases,omitempty"`
	// BrokerPassword is the password for the external broker. Default: the content of spec.broker.passwordFile. A
	// running sandbox keeps its password.
	BrokerPassword string `json:"brokerPassword,omitempty"`
	// OwnEnv reports whether the environment in Config was generated for this sandbox, so that no other client uses
	// it.
	OwnEnv bool `json:"ownEnv,omitempty"`
}

// UpResult is the result of an up.
type UpResult struct {
	// Already reports whether the sandbox was already running.
	Already bool `json:"already"`
	// Changes describes the changes that the up made to a running sandbox.
	Changes []string `json:"changes,omitempty"`
	Status  *Status  `json:"status"`
}

// AddRequest is a request to add bases to the sandbox.
type AddRequest struct {
	Count int `json:"count"`
	// Group is the group of the new bases, a DNS label. Default: the bases belong to no group.
	Group string `json:"group,omitempty"`
	// Set is the set of the new bases within the group, a DNS label. Default: the name of Spec, or the first set of the
	// sandbox.
	Set string `json:"set,omitempty"`
	// Spec contains the settings of the new bases. Its Count is ignored. Without a group, it defines a new set, and
	// must be empty if the set exists. Default: the settings of the set.
	Spec *v1alpha1.BaseSet `json:"spec,omitempty"`
	// Seed is the seed for random settings. Default: a random seed.
	Seed uint64 `json:"seed,omitempty"`
}

// RemoveRequest selects the bases to remove. Set exactly one field.
type RemoveRequest struct {
	// Bases lists the identities or host names of the bases to remove.
	Bases []string `json:"bases,omitempty"`
	// Count is the number of bases outside groups to remove, most recently added first.
	Count int `json:"count,omitempty"`
	// Group selects all bases of a group. Their removal also stops the request streams of the group.
	Group string `json:"group,omitempty"`
}

// RestartRequest is a request to restart a base.
type RestartRequest struct {
	// Base is the identity, host name or address of the base. Client.RestartBase sets it.
	Base string `json:"base"`
	// NewIdentity gives the base a new identity, as if it ran in a new container.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// WatchRequest selects the events that Client.Watch reports.
type WatchRequest struct {
	// Group is the group whose bases and request streams are watched. The events name its bases SET-N, without the
	// group. Component events are always included. Default: all events, with the full host names of the bases.
	Group string `json:"group,omitempty"`
	// Own makes the caller the owner of Group. When the event stream ends, the daemon stops the request streams of
	// the group, removes the bases of the group, and reverts its changes to components.
	Own bool `json:"own,omitempty"`
}

// ActRequest is a request to perform an action on a component.
type ActRequest struct {
	Component string           `json:"component"`
	Action    supervise.Action `json:"action"`
	// Group is the group to which the action belongs. The daemon reverts the action when the group is repaired, or
	// when the owner of the group disconnects. Default: no group; the action is not reverted.
	Group string `json:"group,omitempty"`
}

// RepairRequest is a request to revert the actions that a group has performed on components.
type RepairRequest struct {
	Group string `json:"group"`
	// Controllers also reverts the changes that the group has made to the module controllers. This restarts the
	// controllers.
	Controllers bool `json:"controllers,omitempty"`
}

// ControllerRequest describes the desired configuration of the module controllers.
type ControllerRequest struct {
	// Replicas is the number of controllers. Default: the number in the sandbox configuration.
	Replicas int `json:"replicas,omitempty"`
	// Env contains environment variables to add to the variables in the sandbox configuration.
	Env map[string]string `json:"env,omitempty"`
	// APIView routes the API requests of controllers through the API proxy, which injects faults. Default: the
	// setting in the sandbox configuration.
	APIView bool `json:"apiView,omitempty"`
	// Group is the group to which the change belongs. The daemon reverts the change when the group is repaired, or
	// when the owner of the group disconnects. Default: no group; the change is not reverted.
	Group string `json:"group,omitempty"`
}

// FaultSelector selects faults.
type FaultSelector = fault.Selector

// Faults contains the faults of a group or of all groups, and the controllers' write counts.
type Faults struct {
	Faults []fault.Status `json:"faults"`
	// Writes counts the write requests of the controllers that use the API proxy.
	Writes apifault.Writes `json:"writes,omitzero"`
}

// Component is the status of one component of a sandbox.
type Component = supervise.Component

// Error is an error reported by the daemon. Its Code is an HTTP status code.
type Error = rpc.Error
