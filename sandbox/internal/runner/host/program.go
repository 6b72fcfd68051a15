package host

import (
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Loopback is the address at which this machine's processes reach each other.
const Loopback = "127.0.0.1"

// Instance is one controller that is to run.
type Instance struct {
	// Name as a component, and Index from 1.
	Name  string
	Index int
	// ClientID is its own, and stays the same through restarts.
	ClientID string
	// Config is what the configuration asks for.
	Config v1alpha1.Controller
	// Kubeconfig that it has in place of that of Sandbox; empty = none.
	Kubeconfig string
	// Metrics, Health and Heartbeats are free addresses, host:port. Settings does not look at them.
	Metrics, Health, Heartbeats string
}

// Program is what a Runner runs.
type Program interface {
	// Settings has everything of an instance that makes a difference, except its addresses. The Runner restarts an
	// instance whose settings are no longer deeply equal.
	Settings(i Instance) (any, error)
	// Process describes the process of an instance. It may write files that the process reads.
	Process(i Instance) (supervise.Spec, error)
}

// Sandbox is what every Program is told of its sandbox. All fields are required.
type Sandbox struct {
	// Dir is the sandbox's state folder.
	Dir state.Dir
	// Broker is where the bases are; it listens.
	Broker runner.Broker
	// ClientPrefix begins MQTT client ids.
	ClientPrefix string
	// Gateway is the host:port of the HTTP proxy by which commands reach bases.
	Gateway string
	// Env is the environment that bases share with the controller.
	Env string
	// Speed divides the controller's periods; 0 = 1.
	Speed int
	// Kubeconfig of the controller.
	Kubeconfig string
}
