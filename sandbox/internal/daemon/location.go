package daemon

import (
	"errors"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
)

// atHome is the address at which the processes of this machine reach each other.
const atHome = "127.0.0.1"

var errNoBroker = errors.New("the Pods of this cluster cannot reach a broker on this machine: name yours in spec.broker.url")

// inCluster tells whether the controllers run in the cluster.
func inCluster(config *v1alpha1.Sandbox) bool {
	return config.Spec.Controller.Location == v1alpha1.LocationCluster
}

// outside reports whether the bases run in the cluster.
func outside(config *v1alpha1.Sandbox) bool {
	return config.Spec.Bases.Runtime == v1alpha1.RuntimeCluster
}

// away tells whether the controllers are in a cluster that does not reach this machine.
func away(config *v1alpha1.Sandbox, c Cluster) bool {
	_, ours := c.Nodes()
	return inCluster(config) && !ours
}

// bypassed tells whether neither controllers nor bases reach the broker by way of this machine.
func bypassed(config *v1alpha1.Sandbox, c Cluster) bool {
	return away(config, c) && config.Spec.Bases.Runtime == v1alpha1.RuntimeCluster
}

// noHTTP says why bases cannot talk over HTTP; empty = they can.
func noHTTP(config *v1alpha1.Sandbox, c Cluster) string {
	if away(config, c) {
		return "the controllers are in a cluster that does not reach this machine; use mqtt, or bring the sandbox up with --controller host"
	}
	return ""
}

// brokerHost is the address on which the broker listens: one in the network of the cluster's nodes if
// others than this machine's processes use it, else loopback. The API of the cluster answers.
func brokerHost(config *v1alpha1.Sandbox, c Cluster) (string, error) {
	if !inCluster(config) && !outside(config) {
		return atHome, nil
	}
	if at := c.Host(); at != "" {
		return at, nil
	}
	advice := "keep the bases here, with --base-runtime process"
	if inCluster(config) {
		advice = "keep the controller here, with --controller host"
	}
	return "", errors.New("this machine and the cluster do not reach each other, as with an engine in a virtual machine: " + advice)
}

// resolveLocation decides where the controller runs if the configuration leaves that open: in the
// cluster, unless something speaks against it, which a person is told. The API of the cluster
// answers.
func resolveLocation(config *v1alpha1.Sandbox, c Cluster, program string, note func(string)) *v1alpha1.Sandbox {
	if config.Spec.Controller.Location != "" {
		return config
	}
	resolved := *config
	location := &resolved.Spec.Controller.Location
	*location = v1alpha1.LocationCluster
	if err := incluster.CheckProgram(program); err != nil {
		*location = v1alpha1.LocationHost
		note("the controller runs on this machine: " + err.Error())
	} else if c.Host() == "" {
		*location = v1alpha1.LocationHost
		note("the controller runs on this machine: the cluster and this machine do not reach each other, as with an engine in a virtual machine")
	}
	v1alpha1.SetDefaults(&resolved)
	return &resolved
}
