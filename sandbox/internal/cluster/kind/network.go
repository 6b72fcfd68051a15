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
	// engineNetwork is the container network that kind uses for all clusters.
	engineNetwork = "kind"
	// podNetwork is the name of a ConfigMap in kube-system that the node image built by `make node-image` creates. If
	// it exists, the sandbox must set the routes between nodes, because the cluster does not.
	podNetwork = "pod-network"
	// controlPlaneLabel is the label that kubeadm adds to control plane nodes.
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	// apiServerPort is the port of the API server on its node.
	apiServerPort = "6443"
	// dialTimeout is the timeout for connecting to a node.
	dialTimeout = 2 * time.Second
)

// findGateway returns the gateway address of the kind network if the address belongs to this machine and this machine
// can reach the nodes. Otherwise, it returns "".
func (p *Provider) findGateway(ctx context.Context) string {
	format := `{{range .IPAM.Config}}{{.Gateway}} {{end}}`
	if p.engine.Command == engine.Podman {
		format = `{{range .Subnets}}{{.Gateway}} {{end}}`
	}
	text, err := p.engine.Run(ctx, "network", "inspect", "--format", format, engineNetwork)
	if err != nil {
		p.o.Logger.Warn("could not find the address of this machine in the kind network", "err", err)
		return ""
	}
	for _, field := range strings.Fields(text) {
		addr, err := netip.ParseAddr(field)
		if err != nil || !addr.Is4() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(addr.String(), "0"))
		if err != nil {
			continue // the engine runs in a virtual machine, which has the address
		}
		_ = l.Close() // it was not used
		if err := p.checkReachable(ctx); err != nil {
			p.o.Logger.Warn("this machine has an address in the kind network, but cannot reach the nodes", "err",
				err)
			return ""
		}
		return addr.String()
	}
	return ""
}

// checkReachable returns an error if this machine cannot connect to the API server at the address of the control
// plane node.
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
	return errors.New("the cluster has no control plane node")
}

// baseNetworks lists the networks that contain the addresses of bases: the network of unrouted addresses, and the Pod
// network.
var baseNetworks = []string{"198.18.0.0/15", "10.244.0.0/16"}

// keepReachable adds routes to each node so that the node treats the addresses of bases as directly connected. They
// are needed because kindnet, the network plugin in kind's default node image, adds a route through the address of
// every Node, and exits if the kernel rejects this route because the address is not directly connected. Packets to
// Pods still take the more specific routes of kindnet.
func (p *Provider) keepReachable(ctx context.Context) error {
	list, err := p.kind.ListNodes(p.name)
	if err != nil {
		return fmt.Errorf("listing the nodes of kind cluster %s: %w", p.name, shortError(err))
	}
	for _, node := range names(list) {
		for _, network := range baseNetworks {
			if _, err := p.engine.Run(ctx, "exec", node, "ip", "route", "replace", network, "dev", "eth0"); err != nil {
				return fmt.Errorf("adding a route to %s on node %s: %w", network, node, err)
			}
		}
	}
	return nil
}

// addRoutes adds routes on each node to the Pods of all other nodes. It does nothing if the cluster sets these routes
// itself.
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
				return fmt.Errorf("adding a route from node %s to the Pods of node %s: %w", from.Name, to.Name, err)
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
