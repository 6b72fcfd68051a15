package incluster

import (
	"context"
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner"
)

// SandboxBroker describes the sandbox's own broker, which must use TLS and be listening.
func SandboxBroker(b runner.Broker) (Broker, error) {
	host, port, _ := net.SplitHostPort(b.Addr()) // valid: the address of a listener
	ca, err := os.ReadFile(b.CAFile())
	if err != nil {
		return Broker{}, fmt.Errorf("reading the CA certificate of the broker: %w", err)
	}
	login := b.Controller()
	return Broker{Host: host, Port: port, Username: login.User, Password: login.Password, CA: ca}, nil
}

// ExternalBroker describes an external broker.
func ExternalBroker(e *broker.External) Broker {
	host, port, _ := net.SplitHostPort(e.Addr) // NewExternal has validated it
	return Broker{Host: host, Port: port, Username: e.Username, Password: e.Password, CA: e.CA, Cert: e.Cert,
		Key: e.Key}
}

// StopAll removes the controllers from an existing cluster. In a cluster of the sandbox, they end with the cluster.
func (c *Runner) StopAll(ctx context.Context, _ bool) error {
	if !c.inExistingCluster() {
		return nil
	}
	return c.cleanUp(ctx)
}

// RemoveAll removes the controllers that an earlier daemon left in a cluster of the sandbox, because they would keep
// the Leases of bases. It blocks until their Pods have ended.
func RemoveAll(ctx context.Context, config *rest.Config) error {
	c, err := New(Options{Config: config})
	if err != nil {
		return err
	}
	return c.removeAll(ctx)
}

// Load loads the image of the controller binary onto the nodes. Its only layer is written to dir.
func Load(ctx context.Context, nodes cluster.Nodes, binary, dir string) error {
	built, err := BuildImage(binary, dir)
	if err != nil {
		return err
	}
	return nodes.Load(ctx, built)
}

// ReplicaNumber returns 0, because the client IDs of the Pods are not known.
func (c *Runner) ReplicaNumber(string) int { return 0 }
