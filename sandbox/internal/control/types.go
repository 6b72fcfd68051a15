package control

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/apifault"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/component"
)

// Phase of a sandbox's life.
type Phase string

// The phases.
const (
	// Idle: the daemon runs and waits for its first up.
	Idle Phase = "idle"
	// Starting: the first up is going on.
	Starting Phase = "starting"
	// Running: the first up has ended well.
	Running Phase = "running"
	// Stopping: everything is being stopped.
	Stopping Phase = "stopping"
	// Dead: there is a state folder, but no daemon answers.
	Dead Phase = "dead"
)

// Status of a sandbox.
type Status struct {
	Name  string `json:"name"`
	Phase Phase  `json:"phase"`
	// Koupsandbox is the version of the daemon; empty if it does not know it.
	Koupsandbox string `json:"koupsandbox,omitempty"`
	// Healthy is true when the sandbox runs and every component is ready; with
	// bases asked for, when every base is connected and its Node Ready too.
	Healthy bool `json:"healthy"`
	// Problems say what is not well, one sentence each.
	Problems []string `json:"problems,omitempty"`
	// Provider of the Kubernetes API, never auto.
	Provider v1alpha1.Provider `json:"provider"`
	// Version of the Kubernetes API; empty until it answers.
	Version string `json:"version,omitempty"`
	Env     string `json:"env"`
	// Speed divides the periods of the system; 0 = 1.
	Speed int `json:"speed,omitempty"`
	// StartedAt is when the daemon started.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Kubeconfig and Logs are paths.
	Kubeconfig string      `json:"kubeconfig"`
	Logs       string      `json:"logs"`
	Broker     Broker      `json:"broker"`
	Components []Component `json:"components"`
	// BaseCount is how many bases there are, BasesConnected how many of them are
	// connected to the broker.
	BaseCount      int `json:"baseCount"`
	BasesConnected int `json:"basesConnected"`
	// Gateway is host:port of the HTTP proxy to Services and bases.
	Gateway string `json:"gateway,omitempty"`
	// Bases are there only when they were asked for.
	Bases []Base `json:"bases,omitempty"`
}

// Broker is where the MQTT broker listens, and its counters.
type Broker struct {
	// Addr is host:port of the sandbox's broker, or of its relay to the user's.
	Addr string `json:"addr,omitempty"`
	// TLS tells whether TLS is spoken there.
	TLS bool `json:"tls,omitempty"`
	// URL is that of the user's broker; empty with one of the sandbox's own.
	URL string `json:"url,omitempty"`
	// Stats are nil while the broker is down, and with the user's broker, whose
	// counters are not ours to know.
	*broker.Stats
}

// Base is one simulated base.
type Base struct {
	// Identity is what the base calls itself in topics; it ends with the base's
	// process.
	Identity string `json:"identity"`
	// HostName is the readable name: base-1 and so on for the sandbox's own bases,
	// GROUP-SET-N for those of a group.
	HostName string `json:"hostName"`
	// Group, Set and Index say which base of a group it is; empty for the sandbox's own.
	Group string `json:"group,omitempty"`
	Set   string `json:"set,omitempty"`
	Index int    `json:"index,omitempty"`
	// Tunnel is how it talks to the controller.
	Tunnel v1alpha1.Tunnel `json:"tunnel"`
	// Runtime is what it runs as.
	Runtime v1alpha1.BaseRuntime `json:"runtime"`
	IP      string               `json:"ip"`
	Name    string               `json:"name"`
	Version string               `json:"version"`
	// Running tells whether its process runs, Ready whether it has started.
	Running bool `json:"running"`
	Ready   bool `json:"ready"`
	// Reason is the error of a base that ended by itself. Empty means that it did not.
	Reason string `json:"reason,omitempty"`
	// Connected tells whether it is connected to the broker or, over HTTP, whether
	// its last heartbeat was answered.
	Connected bool `json:"connected"`
	// WebAddr is host:port of its listener for requests to modules; empty until
	// something has needed it.
	WebAddr string `json:"webAddr,omitempty"`
	// Node is the name of its Node; empty while there is none, or when Nodes were
	// not looked at.
	Node string `json:"node,omitempty"`
	// NodeReady tells whether the Node is Ready.
	NodeReady bool `json:"nodeReady"`
	// Modules are what is installed, as name:version state.
	Modules []string `json:"modules,omitempty"`
	// Faults is how many are injected.
	Faults int `json:"faults,omitempty"`
}

// States of a base.
const (
	BaseRunning      = "running"
	BaseStarting     = "starting"     // its process runs, and has not started yet
	BaseDisconnected = "disconnected" // it runs, and neither broker nor controller hears it
	BaseCrashed      = "crashed"      // its process has ended, and the base was not removed
)

// State is how it is, in a word.
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

// UpRequest asks the daemon to bring its sandbox up, or to bring a running one
// in line with a configuration.
type UpRequest struct {
	Config *v1alpha1.Sandbox `json:"config"`
	// KeepBases leaves the number of bases of a running sandbox as it is: the user
	// gave none, so that of Config is but the default.
	KeepBases bool `json:"keepBases,omitempty"`
	// BrokerPassword is that for the user's broker. Default: what is in
	// spec.broker.passwordFile. A running sandbox keeps the one it has.
	BrokerPassword string `json:"brokerPassword,omitempty"`
	// OwnEnv tells that the environment in Config was made for this sandbox, so that
	// nobody else can be in it.
	OwnEnv bool `json:"ownEnv,omitempty"`
}

// UpResult is what an up has led to.
type UpResult struct {
	// Already is true when the sandbox ran before.
	Already bool `json:"already"`
	// Changes says what was done to a running sandbox.
	Changes []string `json:"changes,omitempty"`
	Status  *Status  `json:"status"`
}

// AddRequest asks for more bases.
type AddRequest struct {
	// Count is how many.
	Count int `json:"count"`
	// Group that they belong to, a DNS label. Default: they are the sandbox's own,
	// with its settings; Set, Spec and Seed must be empty then.
	Group string `json:"group,omitempty"`
	// Set within the group, a DNS label. Default: that of Spec.
	Set string `json:"set,omitempty"`
	// Spec has their settings; its Count is not looked at. Default: all defaults.
	Spec *v1alpha1.BaseSet `json:"spec,omitempty"`
	// Seed makes what is random about them repeatable. Default: drawn.
	Seed uint64 `json:"seed,omitempty"`
}

// RemoveRequest says which bases to remove: those that it names by identity or
// host name, or the Count youngest of the sandbox's own, or all of a Group, whose
// traffic ends too; exactly one of the three.
type RemoveRequest struct {
	Bases []string `json:"bases,omitempty"`
	Count int      `json:"count,omitempty"`
	Group string   `json:"group,omitempty"`
}

// RestartRequest restarts a base.
type RestartRequest struct {
	// Base is set by Client.RestartBase.
	Base string `json:"base"`
	// NewIdentity gives it a new identity, as a new container has.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// WatchRequest says what a stream of events is to tell.
type WatchRequest struct {
	// Group whose bases and traffic are watched; the bases are called SET-N then.
	// Components are watched in any case. Default: everything, and bases have their
	// host names.
	Group string `json:"group,omitempty"`
	// Own makes the stream the owner of Group: when it ends, for whatever reason, the
	// daemon stops the traffic of the group, removes its bases, and repairs what it has done to components.
	Own bool `json:"own,omitempty"`
}

// ActRequest does something to a component.
type ActRequest struct {
	Component string           `json:"component"`
	Action    component.Action `json:"action"`
	// Group whose Repair undoes the action, and which is repaired when its owner goes. Default: nobody's.
	Group string `json:"group,omitempty"`
}

// RepairRequest undoes what a group has done to components.
type RepairRequest struct {
	Group string `json:"group"`
	// Controllers are brought back, too, to what they were before the group changed them, which restarts
	// them. Default: they stay as the group wants them.
	Controllers bool `json:"controllers,omitempty"`
}

// ControllerRequest says what module controllers there are to be.
type ControllerRequest struct {
	// Replicas is how many. Default: as the sandbox's configuration says.
	Replicas int `json:"replicas,omitempty"`
	// Env is added to the variables of the sandbox's configuration. Default: none.
	Env map[string]string `json:"env,omitempty"`
	// APIView leads them through the proxy on which faults of the target api act. Default: as the sandbox's configuration
	// says.
	APIView bool `json:"apiView,omitempty"`
	// Group whose Repair brings back what was before, and which is repaired when its owner goes. Default:
	// nobody's.
	Group string `json:"group,omitempty"`
}

// FaultSelector selects faults.
type FaultSelector = fault.Selector

// Faults are the faults that were set and not cleared yet.
type Faults struct {
	Faults []fault.Status `json:"faults"`
	// Writes of the controllers that go through the proxy to the API server.
	Writes apifault.Writes `json:"writes,omitzero"`
}

// Component is one part of a sandbox.
type Component = component.Component

// Error is a failure that the daemon reports. Its Code is an HTTP status.
type Error = rpc.Error
