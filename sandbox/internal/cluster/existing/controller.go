package existing

import (
	"context"
	"errors"
	"fmt"
	"net"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodes"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// CleanUp removes the Nodes and Leases of this sandbox, and the objects that AuthorizeController created in this or
// an earlier run. bases contains the identities of the bases that the sandbox has started.
func (p *Provider) CleanUp(ctx context.Context, bases map[string]bool) error {
	owner, err := p.owner(bases)
	if err == nil {
		err = owner.Remove(ctx, p.client)
	}
	return errors.Join(err, p.revoke(ctx))
}

// Marked reports whether the cluster has the ownership marker of this sandbox. It returns a *cluster.OtherSandboxError
// if the cluster belongs to another sandbox.
func (p *Provider) Marked(ctx context.Context) (bool, error) {
	marked, err := cluster.Marked(ctx, p.client, p.o.Owner)
	if err != nil {
		err = fmt.Errorf("context %q: %w", p.o.Context, err)
	}
	return marked, err
}

func (p *Provider) revoke(ctx context.Context) error {
	label, err := p.o.Dir.Label()
	if err != nil {
		return err
	}
	objects, err := accountObjects(label)
	if err != nil {
		return err
	}
	return cluster.Revoke(ctx, p.Cluster(), objects, label)
}

// RemoveLeftovers removes the Nodes, with their Leases and Pods, that a killed daemon of this sandbox left in the
// cluster. A base that is still running gets a new Node after its next heartbeat.
func (p *Provider) RemoveLeftovers(ctx context.Context) error {
	owner, err := p.owner(nil)
	if err != nil {
		return err
	}
	return nodes.Remove(ctx, p.client, owner.CreatedNode)
}

// writeKubeconfig writes the selected context, its cluster and its user to the kubeconfig of the sandbox.
func (p *Provider) writeKubeconfig(context.Context) error {
	raw, err := clientcmd.LoadFromFile(p.o.Kubeconfig)
	if err == nil {
		raw.CurrentContext = p.o.Context
		err = clientcmdapi.MinifyConfig(raw)
	}
	if err == nil {
		err = clientcmdapi.FlattenConfig(raw)
	}
	if err == nil {
		err = clientcmd.WriteToFile(*raw, p.o.Dir.Kubeconfig())
	}
	if err != nil {
		return fmt.Errorf("copying context %q: %w", p.o.Context, err)
	}
	return nil
}

// IssueServingCert creates a self-signed certificate, because the CA key of an existing cluster is not available.
// caFile is the path of the certificate.
func (p *Provider) IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error) {
	caFile = p.o.Dir.BrokerCA()
	var ips []net.IP
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		}
	}
	certPEM, keyPEM, err = cert.GenerateSelfSignedCertKey(hosts[0], ips, hosts[1:])
	if err == nil {
		err = state.WriteFile(caFile, certPEM)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("creating the certificate of the broker: %w", err)
	}
	return certPEM, keyPEM, caFile, nil
}

// Properties implements daemon.Cluster. Host is the loopback address, because the API server does not connect to this
// machine. Ephemeral is false: the sandbox removes all objects that it creates.
func (p *Provider) Properties() cluster.Properties { return cluster.Properties{Host: "127.0.0.1"} }

// ComponentSet returns nil, because the sandbox does not control the components of an existing cluster.
func (p *Provider) ComponentSet() supervise.ComponentSet { return nil }
