package host

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Loopback is the address at which processes on this machine connect to each other.
const Loopback = "127.0.0.1"

// Instance describes a controller to run.
type Instance struct {
	// Name is the component name. Index is the number of the controller, from 1.
	Name  string
	Index int
	// ClientID is the unique value of CLIENT_ID. It does not change when the controller restarts.
	ClientID string
	// Config is the configuration of the controller.
	Config v1alpha1.Controller
	// Kubeconfig is the path of a kubeconfig to use instead of Sandbox.Kubeconfig. Default: Sandbox.Kubeconfig is
	// used.
	Kubeconfig string
	// Metrics, Health and Heartbeats are free addresses (host:port) on which the controller must listen.
	// Program.Settings ignores them.
	Metrics, Health, Heartbeats string
}

// Program is a controller program that a Runner can run.
type Program interface {
	// Settings returns all properties of an instance that require a restart when they change. The addresses of the
	// instance are not included. The Runner compares settings with reflect.DeepEqual.
	Settings(i Instance) (any, error)
	// Process returns the process that runs an instance. It may write files that the process needs.
	Process(i Instance) (supervise.Spec, error)
}

// Sandbox contains the properties of the sandbox that a Program needs. All fields are required.
type Sandbox struct {
	// Dir is the state directory of the sandbox.
	Dir state.Dir
	// Broker is the MQTT broker. It must already be listening.
	Broker runner.Broker
	// ClientPrefix is the prefix of MQTT client IDs.
	ClientPrefix string
	// Gateway is the host:port of the HTTP proxy through which the controllers send commands to bases.
	Gateway string
	// Env is the environment of the bases and the controllers.
	Env string
	// Speed is the time scale by which the periods of the controller are divided; 0 means 1.
	Speed int
	// Kubeconfig is the path of the kubeconfig that the controllers use.
	Kubeconfig string
}
