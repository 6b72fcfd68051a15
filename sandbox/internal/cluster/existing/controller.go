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

// CleanUp removes the Nodes and Leases that this sandbox has created, and the objects that Admit has created,
// including those of an earlier process. bases are the identities of the bases that the sandbox has started.
func (p *Provider) CleanUp(ctx context.Context, bases map[string]bool) error {
	owner, err := p.owner(bases)
	if err == nil {
		err = owner.Remove(ctx, p.client)
	}
	return errors.Join(err, p.revoke(ctx))
}

// Marked reports whether the cluster has the mark of this sandbox. It returns a *cluster.OtherSandboxError if the cluster
// has the mark of another sandbox.
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

// RemoveLeftovers removes the Nodes that an earlier, killed daemon of this sandbox has left, with their Leases and Pods.
// A base that still runs gets a new Node with its next heartbeat.
func (p *Provider) RemoveLeftovers(ctx context.Context) error {
	owner, err := p.owner(nil)
	if err != nil {
		return err
	}
	return nodes.Remove(ctx, p.client, owner.CreatedNode)
}

// writeKubeconfig copies the one context that is used, with all it refers to.
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

// IssueServingCert makes a certificate for hosts that is its own authority, and names its file, which it
// writes: the cluster's authority is not ours to use.
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
		return nil, nil, "", fmt.Errorf("making the broker's certificate: %w", err)
	}
	return certPEM, keyPEM, caFile, nil
}

// Properties implements daemon.Cluster. Host is loopback, though the API server need not reach it. Everything that
// the sandbox creates in the cluster is removed with the sandbox.
func (p *Provider) Properties() cluster.Properties { return cluster.Properties{Host: "127.0.0.1"} }

// ComponentSet is nil: the cluster is not a component of the sandbox.
func (p *Provider) ComponentSet() supervise.ComponentSet { return nil }
