package kind

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// Component is the name of the cluster component in `status`.
	Component = "kind-cluster"
	// pingTimeout is the timeout for checking whether the API server responds.
	pingTimeout = time.Second
)

// AuthorizeController implements daemon.Cluster. The controller kubeconfig contains the administrator's credentials,
// and impersonates a user that has only the controller permissions.
func (p *Provider) AuthorizeController(ctx context.Context) error {
	objects, err := deploy.Objects()
	if err != nil {
		return err
	}
	if err := cluster.Grant(ctx, p.Cluster(), objects, ""); err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(p.o.Kubeconfig)
	if err == nil {
		for _, user := range config.AuthInfos {
			user.Impersonate = deploy.User
		}
		err = clientcmd.WriteToFile(*config, p.dir().ControllerKubeconfig())
	}
	if err != nil {
		return fmt.Errorf("writing the controller's kubeconfig: %w", err)
	}
	return nil
}

// CleanUp does nothing, because the cluster is deleted with the sandbox.
func (p *Provider) CleanUp(context.Context, map[string]bool) error { return nil }

// RemoveLeftovers removes the controllers that a killed daemon left in the cluster, and the Nodes of its bases with
// their Pods. A base outside the sandbox gets a new Node after its next heartbeat.
func (p *Provider) RemoveLeftovers(ctx context.Context) error {
	if err := incluster.RemoveAll(ctx, p.config); err != nil {
		return err
	}
	return nodes.RemoveAll(ctx, p.client)
}

// IssueServingCert issues a serving certificate from the CA of the sandbox, and writes the CA certificate to caFile.
func (p *Provider) IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error) {
	caFile = p.dir().BrokerCA()
	if err := state.WriteFile(caFile, p.authority.PEM()); err != nil {
		return nil, nil, "", fmt.Errorf("writing the CA certificate of the sandbox: %w", err)
	}
	certPEM, keyPEM, err = p.authority.Issue(cluster.Subject{Name: hosts[0], Hosts: hosts})
	return certPEM, keyPEM, caFile, err
}

// Properties implements daemon.Cluster. KubeletClientCA is the cluster CA, which also issues client certificates for
// other users. The controller must therefore also check the permission for nodes/proxy.
func (p *Provider) Properties() cluster.Properties {
	return cluster.Properties{Host: p.gateway, KubeletClientCA: p.kubeletClientCA, Nodes: p, Ephemeral: true,
		Adopted: p.adopt}
}

// writeClientCA writes the CA certificate that verifies the client certificate of the API server to a file. It writes
// no file if the API server cannot reach this machine. Without the file, the controller does not serve logs.
func (p *Provider) writeClientCA() {
	if p.gateway == "" {
		return
	}
	path := filepath.Join(p.o.Dir, "cluster-ca.crt")
	if err := state.WriteFile(path, p.config.CAData); err != nil {
		p.o.Logger.Error("could not write the CA certificate of the cluster; logs and exec of module Pods are not "+
			"available", "err", err)
		return
	}
	p.kubeletClientCA = path
}

// Maintain keeps existing and new DaemonSets off the Nodes of bases until ctx ends.
func (p *Provider) Maintain(ctx context.Context) error {
	newGuard(p.client, p.o.Logger).run(ctx)
	return nil
}

// ComponentSet implements daemon.Cluster. The set contains the cluster as a single component.
func (p *Provider) ComponentSet() supervise.ComponentSet { return componentSet{p} }

func (p *Provider) dir() state.Dir { return state.Dir(p.o.Dir) }

// componentSet contains the cluster as its only component.
type componentSet struct{ p *Provider }

// Components implements supervise.ComponentSet. The component is ready if the API server responds. It is not running
// until the cluster exists.
func (x componentSet) Components(ctx context.Context) []supervise.Component {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTimeout, fmt.Errorf("timed out after %s", pingTimeout))
	defer cancel()
	c := supervise.Component{Name: Component, State: supervise.Running, Ready: true}
	config := x.p.created.Load()
	if config == nil {
		c.State, c.Ready, c.Reason = supervise.Exited, false, "the cluster does not exist yet"
		return []supervise.Component{c}
	}
	if _, err := cluster.ServerVersion(ctx, config); err != nil {
		c.State, c.Ready, c.Reason = supervise.Exited, false, err.Error()
	}
	return []supervise.Component{c}
}

// Act rejects all actions, because the nodes are containers of the container engine.
func (x componentSet) Act(_ context.Context, name string, action supervise.Action) error {
	if name != Component {
		return fmt.Errorf("%s: %w", name, supervise.ErrUnknown)
	}
	return supervise.Refuse("cannot %s %s: its nodes are containers; use the container engine to stop, start or pause "+
		"them", action, name)
}

// ToStart returns nil, because an up of a running sandbox does not restart the cluster.
func (x componentSet) ToStart(context.Context) []string { return nil }
