package host

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Loopback is the address at which processes on this machine reach each other.
const Loopback = "127.0.0.1"

// Instance describes one controller to run.
type Instance struct {
	// Name is the component name; Index numbers the controllers from 1.
	Name  string
	Index int
	// ClientID is the unique CLIENT_ID. It does not change in restarts.
	ClientID string
	// Config is the controller configuration.
	Config v1alpha1.Controller
	// Kubeconfig replaces Sandbox.Kubeconfig; empty means that it is not replaced.
	Kubeconfig string
	// Metrics, Health and Heartbeats are free addresses, host:port. Program.Settings ignores them.
	Metrics, Health, Heartbeats string
}

// Program is a controller program that a Runner can run.
type Program interface {
	// Settings returns all properties of an instance that require a restart when they change, without its addresses.
	// The Runner compares the settings with reflect.DeepEqual.
	Settings(i Instance) (any, error)
	// Process returns the process of an instance. It may write files for the process.
	Process(i Instance) (supervise.Spec, error)
}

// Sandbox has the properties of the sandbox for a Program. All fields are required.
type Sandbox struct {
	// Dir is the state directory of the sandbox.
	Dir state.Dir
	// Broker is the broker, which is already listening.
	Broker runner.Broker
	// ClientPrefix is the prefix of MQTT client IDs.
	ClientPrefix string
	// Gateway is the host:port of the HTTP proxy for commands to bases.
	Gateway string
	// Env is the environment of the bases and the controllers.
	Env string
	// Speed is the time scale, which divides the periods of the controller; 0 means 1.
	Speed int
	// Kubeconfig is the path of the kubeconfig for the controllers.
	Kubeconfig string
}
