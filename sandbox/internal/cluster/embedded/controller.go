package embedded

import (
	"context"
	"slices"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Host is loopback, at which the API server reaches this machine's other processes.
const Host = "127.0.0.1"

// ComponentSet shows its processes.
func (c *ControlPlane) ComponentSet() supervise.ComponentSet {
	return &componentSet{c: c, Processes: supervise.Processes{
		Supervisor: c.o.Supervisor, Contains: func(name string) bool { return slices.Contains(componentNames, name) },
	}}
}

// AuthorizeController gives the module controller its rights, and writes its kubeconfig.
func (c *ControlPlane) AuthorizeController(ctx context.Context) error {
	objects, err := deploy.Objects()
	if err != nil {
		return err
	}
	if err := cluster.Grant(ctx, c.Cluster(), objects, ""); err != nil {
		return err
	}
	return c.tokenKubeconfig(state.Dir(c.o.Dir).ControllerKubeconfig(), c.url(apiserver), deploy.User)
}

// CleanUp does nothing: the cluster goes with the sandbox, or is the same sandbox's when it comes
// back.
func (c *ControlPlane) CleanUp(context.Context, map[string]bool) error { return nil }

// RemoveLeftovers removes the Nodes of bases that a killed daemon has left in a durable cluster, with their Pods. A base outside
// the sandbox gets a new Node with its next heartbeat.
func (c *ControlPlane) RemoveLeftovers(ctx context.Context) error {
	return nodes.RemoveAll(ctx, c.client())
}

// IssueServingCert issues a certificate of the cluster's authority for hosts, and returns the file of the authority. It may be
// called concurrently after Steps.Prepare.
func (c *ControlPlane) IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error) {
	certPEM, keyPEM, err = c.pki.cas[clusterCA].Issue(cluster.Subject{Name: hosts[0], Hosts: hosts})
	return certPEM, keyPEM, c.pki.crt(clusterCA), err
}

// Properties implements daemon.Cluster. Its processes never outlive their sandbox.
func (c *ControlPlane) Properties() cluster.Properties {
	return cluster.Properties{Host: Host, KubeletClientCA: c.kubeletClientCA(), Ephemeral: !c.o.Durable}
}

// Maintain has nothing to look after; it blocks until ctx ends.
func (c *ControlPlane) Maintain(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
