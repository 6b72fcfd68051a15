package daemon

import (
	"errors"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
)

// loopback is the listen address of servers that accept connections only from this machine.
const loopback = "127.0.0.1"

var errNoBroker = errors.New("the Pods of this cluster cannot reach a broker on this machine; set spec.broker.url to " +
	"an external broker")

// site is where a part of the sandbox runs.
type site int

const (
	thisMachine  site = iota // processes on this machine
	ownNodes                 // Pods on nodes that are containers on this machine
	otherCluster             // Pods of a cluster that cannot reach this machine
)

// Topology describes where the parts of a sandbox run. It is immutable.
type Topology struct {
	Controllers, Bases site
	// Host is the address at which Pods on nodes of the sandbox reach this machine; empty if they cannot reach this
	// machine.
	Host string
}

// newTopology returns the topology for a configuration with a resolved controller location. The API server of the
// cluster must be available.
func newTopology(config *v1alpha1.Sandbox, p cluster.Properties) Topology {
	pods := otherCluster
	if p.Nodes != nil {
		pods = ownNodes
	}
	t := Topology{Host: p.Host}
	if config.Spec.Controller.Location == v1alpha1.LocationCluster {
		t.Controllers = pods
	}
	if config.Spec.Fleet.Runtime == v1alpha1.RuntimeCluster {
		t.Bases = pods
	}
	return t
}

// BrokerDirect reports whether all controllers and bases connect to the external broker directly, and not through
// this machine.
func (t Topology) BrokerDirect() bool {
	return t.Controllers == otherCluster && t.Bases == otherCluster
}

// NoHTTPReason returns the reason why bases cannot use the HTTP tunnel, or the empty string if they can use it.
func (t Topology) NoHTTPReason() string {
	if t.Controllers == otherCluster {
		return "the controllers are in a cluster that does not reach this machine; use mqtt, or bring the sandbox up " +
			"with --controller host"
	}
	return ""
}

// BrokerHost returns the address on which the broker must listen. It is the loopback address if only processes on
// this machine use the broker.
func (t Topology) BrokerHost() (string, error) {
	if t.Controllers == thisMachine && t.Bases == thisMachine {
		return loopback, nil
	}
	if t.Host != "" {
		return t.Host, nil
	}
	advice := "run the bases on this machine, with --base-runtime process"
	if t.Controllers != thisMachine {
		advice = "run the controller on this machine, with --controller host"
	}
	return "", errors.New("this machine and the cluster cannot reach each other, for example because the container " +
		"engine runs in a virtual machine; " + advice)
}

// resolveLocation returns config with spec.controller.location set. By default, the controllers run in the cluster.
// If they cannot, they run on this machine, and resolveLocation passes the reason to note. The API server must be
// available.
func resolveLocation(config *v1alpha1.Sandbox, p cluster.Properties, binary string,
	note func(string)) *v1alpha1.Sandbox {
	if config.Spec.Controller.Location != "" {
		return config
	}
	resolved := *config
	location := &resolved.Spec.Controller.Location
	*location = v1alpha1.LocationCluster
	if err := incluster.CheckBinary(binary); err != nil {
		*location = v1alpha1.LocationHost
		note("the controller runs on this machine: " + err.Error())
	} else if p.Host == "" {
		*location = v1alpha1.LocationHost
		note("the controller runs on this machine: the cluster and this machine cannot reach each other, for example " +
			"because the container engine runs in a virtual machine")
	}
	v1alpha1.SetDefaults(&resolved)
	return &resolved
}
