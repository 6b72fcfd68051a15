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

// Host is the loopback address, at which the API server reaches other processes on this machine.
const Host = "127.0.0.1"

// ComponentSet implements daemon.Cluster. The components are the control plane processes.
func (c *ControlPlane) ComponentSet() supervise.ComponentSet {
	return &componentSet{c: c, Processes: supervise.Processes{
		Supervisor: c.o.Supervisor, Contains: func(name string) bool { return slices.Contains(componentNames, name) },
	}}
}

// AuthorizeController implements daemon.Cluster.
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

// CleanUp does nothing, because the cluster is either removed with the sandbox or reused by the same sandbox.
func (c *ControlPlane) CleanUp(context.Context, map[string]bool) error { return nil }

// RemoveLeftovers removes the Nodes of bases, with their Pods, that a killed daemon left in a durable cluster. A base
// outside the sandbox gets a new Node after its next heartbeat.
func (c *ControlPlane) RemoveLeftovers(ctx context.Context) error {
	return nodes.RemoveAll(ctx, c.client())
}

// IssueServingCert issues a serving certificate from the cluster CA, and returns the certificate and the path of the
// CA certificate. It may be called concurrently after Steps.Prepare.
func (c *ControlPlane) IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error) {
	certPEM, keyPEM, err = c.pki.cas[clusterCA].Issue(cluster.Subject{Name: hosts[0], Hosts: hosts})
	return certPEM, keyPEM, c.pki.crt(clusterCA), err
}

// Properties implements daemon.Cluster.
func (c *ControlPlane) Properties() cluster.Properties {
	return cluster.Properties{Host: Host, KubeletClientCA: c.kubeletClientCA(), Ephemeral: !c.o.Durable}
}

// Maintain blocks until ctx ends. The cluster needs no maintenance.
func (c *ControlPlane) Maintain(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
