package host

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Loopback is the address at which processes on this machine reach each other.
const Loopback = "127.0.0.1"

// Instance describes one controller that is to be run.
type Instance struct {
	// Name is the component name. Index is the number of the controller, from 1.
	Name  string
	Index int
	// ClientID is the value of CLIENT_ID, unique per controller. It stays the same across restarts.
	ClientID string
	// Config is the configuration of the controller.
	Config v1alpha1.Controller
	// Kubeconfig is the path of a kubeconfig that replaces Sandbox.Kubeconfig; empty means that Sandbox.Kubeconfig is
	// used.
	Kubeconfig string
	// Metrics, Health and Heartbeats are free addresses (host:port) on which the controller listens. Program.Settings
	// ignores them.
	Metrics, Health, Heartbeats string
}

// Program is a controller program that a Runner can run.
type Program interface {
	// Settings returns all properties of an instance, except its addresses, that require a restart when they change.
	// The Runner compares the settings with reflect.DeepEqual.
	Settings(i Instance) (any, error)
	// Process returns the process that runs an instance. It may write files for the process.
	Process(i Instance) (supervise.Spec, error)
}

// Sandbox contains the properties of the sandbox that a Program needs. All fields are required.
type Sandbox struct {
	// Dir is the state directory of the sandbox.
	Dir state.Dir
	// Broker is the MQTT broker, which is already listening.
	Broker runner.Broker
	// ClientPrefix is the prefix of the MQTT client IDs.
	ClientPrefix string
	// Gateway is the host:port of the HTTP proxy through which the controllers send commands to bases.
	Gateway string
	// Env is the environment of the bases and the controllers.
	Env string
	// Speed is the time scale, which divides the periods of the controller; 0 means 1.
	Speed int
	// Kubeconfig is the path of the kubeconfig that the controllers use.
	Kubeconfig string
}
