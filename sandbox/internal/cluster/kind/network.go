package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

const (
	// engineNetwork is the engine's network in which kind puts all its clusters.
	engineNetwork = "kind"
	// podNetwork is a ConfigMap in kube-system that says that nothing in the cluster sets routes
	// between nodes; the node image of `make node-image` brings it.
	podNetwork = "pod-network"
	// controlPlaneLabel is what kubeadm gives to the node of the API server.
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	// apiServerPort is where the API server listens in its node.
	apiServerPort = "6443"
	// dialTimeout is how long a node of this machine may take to accept a connection.
	dialTimeout = 2 * time.Second
)

// findGateway returns the network's address of this machine, if this machine has it and reaches the
// nodes.
func (p *Provider) findGateway(ctx context.Context) string {
	format := `{{range .IPAM.Config}}{{.Gateway}} {{end}}`
	if p.engine.Command == engine.Podman {
		format = `{{range .Subnets}}{{.Gateway}} {{end}}`
	}
	text, err := p.engine.Run(ctx, "network", "inspect", "--format", format, engineNetwork)
	if err != nil {
		p.o.Logger.Warn("looking for this machine's address in the network of kind", "err", err)
		return ""
	}
	for _, field := range strings.Fields(text) {
		addr, err := netip.ParseAddr(field)
		if err != nil || !addr.Is4() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), "0"))
		if err != nil {
			continue // an engine in a virtual machine has it
		}
		_ = l.Close() // nothing was sent
		if err := p.checkReachable(ctx); err != nil {
			p.o.Logger.Warn("this machine has an address in the network of kind, and does not reach the nodes", "err",
				err)
			return ""
		}
		return addr.String()
	}
	return ""
}

// checkReachable tells why this machine does not reach the API server at its node's own address.
func (p *Provider) checkReachable(ctx context.Context) error {
	nodes, err := p.nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, ok := n.Labels[controlPlaneLabel]; !ok {
			continue
		}
		conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp",
			net.JoinHostPort(address(n), apiServerPort))
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return errors.New("there is no node with the control plane")
}

// baseNetworks contain the addresses of simulated bases: the ones that are not routed, and those of Pods.
var baseNetworks = []string{"198.18.0.0/15", "10.244.0.0/16"}

// keepReachable makes the addresses of simulated bases neighbours of every node. kindnet, the Pod network
// of kind's own image, adds a route through the address of every Node, and exits when the kernel refuses
// one because the address is not a neighbour. Requests to Pods use the more specific routes of kindnet.
func (p *Provider) keepReachable(ctx context.Context) error {
	list, err := p.kind.ListNodes(p.name)
	if err != nil {
		return fmt.Errorf("listing the nodes of kind cluster %s: %w", p.name, shortError(err))
	}
	for _, node := range names(list) {
		for _, network := range baseNetworks {
			if _, err := p.engine.Run(ctx, "exec", node, "ip", "route", "replace", network, "dev", "eth0"); err != nil {
				return fmt.Errorf("preparing node %s for bases: %w", node, err)
			}
		}
	}
	return nil
}

// addRoutes gives every node a route to the Pods of every other, where the cluster has nothing that
// does it.
func (p *Provider) addRoutes(ctx context.Context) error {
	nodes, err := p.nodes(ctx)
	if err != nil || len(nodes) < 2 {
		return err
	}
	_, err = p.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, podNetwork, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for the Pod network of kind cluster %s: %w", p.name, err)
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if from.Name == to.Name {
				continue
			}
			if _, err := p.engine.Run(ctx, "exec", from.Name, "ip", "route", "replace", to.Spec.PodCIDR, "via",
				address(to)); err != nil {
				return fmt.Errorf("setting the route from node %s to the Pods of %s: %w", from.Name, to.Name, err)
			}
		}
	}
	return nil
}

func address(n corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}
