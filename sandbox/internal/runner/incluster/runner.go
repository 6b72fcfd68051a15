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

// SandboxBroker returns the connection settings for the broker of the sandbox. The broker must use TLS and be
// listening.
func SandboxBroker(b runner.Broker) (Broker, error) {
	host, port, _ := net.SplitHostPort(b.Addr()) // valid: the address of a listener
	ca, err := os.ReadFile(b.CAFile())
	if err != nil {
		return Broker{}, fmt.Errorf("reading the CA certificate of the broker: %w", err)
	}
	login := b.Controller()
	return Broker{Host: host, Port: port, Username: login.User, Password: login.Password, CA: ca}, nil
}

// ExternalBroker returns the connection settings for an external broker.
func ExternalBroker(e *broker.External) Broker {
	host, port, _ := net.SplitHostPort(e.Addr) // NewExternal has validated it
	return Broker{Host: host, Port: port, Username: e.Username, Password: e.Password, CA: e.CA, Cert: e.Cert,
		Key: e.Key}
}

// StopAll removes the controllers from an existing cluster. In a cluster that the sandbox created, it does nothing,
// because the controllers are deleted with the cluster.
func (c *Runner) StopAll(ctx context.Context, _ bool) error {
	if !c.inExistingCluster() {
		return nil
	}
	return c.cleanUp(ctx)
}

// RemoveAll removes the controllers that an earlier daemon left in a cluster of the sandbox, because they would keep
// renewing the Leases of bases. It blocks until their Pods have terminated.
func RemoveAll(ctx context.Context, config *rest.Config) error {
	c, err := New(Options{Config: config})
	if err != nil {
		return err
	}
	return c.removeAll(ctx)
}

// Load loads the controller image onto the nodes. It writes the only layer of the image to dir.
func Load(ctx context.Context, nodes cluster.Nodes, binary, dir string) error {
	built, err := BuildImage(binary, dir)
	if err != nil {
		return err
	}
	return nodes.Load(ctx, built)
}

// ReplicaNumber returns 0, because the MQTT client IDs of controllers in Pods are not known.
func (c *Runner) ReplicaNumber(string) int { return 0 }
