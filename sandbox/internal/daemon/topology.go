package daemon

import (
	"errors"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
)

// loopback is the address at which the processes of this machine reach each other.
const loopback = "127.0.0.1"

var errNoBroker = errors.New("the Pods of this cluster cannot reach a broker on this machine: name yours in " +
	"spec.broker.url")

type site int

const (
	thisMachine  site = iota // processes of this machine
	ownNodes                 // Pods on nodes that are containers of this machine
	otherCluster             // Pods of a cluster that does not reach this machine
)

// Topology is where the parts of a sandbox run. It does not change.
type Topology struct {
	Controllers, Bases site
	// Host is the address of this machine for Pods on its own nodes. Empty means that they do not reach it.
	Host string
}

// newTopology returns the topology of a configuration whose location of the controllers is decided. The API of
// the cluster answers.
func newTopology(config *v1alpha1.Sandbox, p cluster.Properties) Topology {
	pods := otherCluster
	if p.Nodes != nil {
		pods = ownNodes
	}
	t := Topology{Host: p.Host}
	if config.Spec.Controller.Location == v1alpha1.LocationCluster {
		t.Controllers = pods
	}
	if config.Spec.Bases.Runtime == v1alpha1.RuntimeCluster {
		t.Bases = pods
	}
	return t
}

// BrokerDirect reports whether neither controllers nor bases reach the broker through this machine.
func (t Topology) BrokerDirect() bool {
	return t.Controllers == otherCluster && t.Bases == otherCluster
}

// NoHTTPReason says why bases cannot have the tunnel http. Empty means that they can.
func (t Topology) NoHTTPReason() string {
	if t.Controllers == otherCluster {
		return "the controllers are in a cluster that does not reach this machine; use mqtt, or bring the sandbox up " +
			"with --controller host"
	}
	return ""
}

// BrokerHost returns the address on which the broker listens. It is loopback if only processes of this machine
// use the broker.
func (t Topology) BrokerHost() (string, error) {
	if t.Controllers == thisMachine && t.Bases == thisMachine {
		return loopback, nil
	}
	if t.Host != "" {
		return t.Host, nil
	}
	advice := "keep the bases here, with --base-runtime process"
	if t.Controllers != thisMachine {
		advice = "keep the controller here, with --controller host"
	}
	return "", errors.New("this machine and the cluster do not reach each other, as with an engine in a " +
		"virtual machine: " + advice)
}

// resolveLocation decides where the controller runs if the configuration does not say it: in the cluster, unless
// that is impossible. It reports the reason as a note. The API of the cluster answers.
func resolveLocation(config *v1alpha1.Sandbox, p cluster.Properties, program string,
	note func(string)) *v1alpha1.Sandbox {
	if config.Spec.Controller.Location != "" {
		return config
	}
	resolved := *config
	location := &resolved.Spec.Controller.Location
	*location = v1alpha1.LocationCluster
	if err := incluster.CheckProgram(program); err != nil {
		*location = v1alpha1.LocationHost
		note("the controller runs on this machine: " + err.Error())
	} else if p.Host == "" {
		*location = v1alpha1.LocationHost
		note("the controller runs on this machine: the cluster and this machine do not reach each other, as with an " +
			"engine in a virtual machine")
	}
	v1alpha1.SetDefaults(&resolved)
	return &resolved
}
