package daemon

import (
	"context"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/embedded"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/existing"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/host"
	"github.com/koupleless/koupsandbox/sandbox/internal/runner/incluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// Cluster provides the Kubernetes API. Its methods are called when the API answers, except where stated otherwise.
type Cluster interface {
	// Steps bring the cluster up, and end it. It may be called at any time.
	Steps() cluster.Steps
	// ComponentSet shows its components; nil if it has none. It may be called at any time.
	ComponentSet() supervise.ComponentSet
	// Cluster describes how it is reached.
	Cluster() *cluster.Cluster
	// RemoveLeftovers removes the Nodes of bases that an earlier, killed daemon has left. In a cluster that the sandbox
	// has created, it also removes the controllers.
	RemoveLeftovers(ctx context.Context) error
	// AuthorizeController gives the module controller its rights, and its kubeconfig.
	AuthorizeController(ctx context.Context) error
	// CleanUp removes the permissions, and the Nodes of bases by their identities, from a cluster that remains. It is
	// called when the controller has ended.
	CleanUp(ctx context.Context, bases map[string]bool) error
	// Maintain maintains the cluster until ctx ends.
	Maintain(ctx context.Context) error
	// IssueServingCert issues a certificate for hosts, and names the file of the authority to trust.
	IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// Properties may be called at any time. Host and KubeletClientCA are known when the API answers, Adopted
	// after Steps.Prepare.
	Properties() cluster.Properties
}

var (
	_ Cluster = (*embedded.ControlPlane)(nil)
	_ Cluster = (*kind.Provider)(nil)
	_ Cluster = (*existing.Provider)(nil)
)

// ControllerRunner runs module controllers. Ensure and End are called one after the other.
type ControllerRunner interface {
	supervise.ComponentSet
	// Start follows the controllers until ctx ends. It is called once, before Ensure.
	Start(ctx context.Context) error
	// Ensure brings the controllers to a configuration and blocks until all are ready. It does not restart those that
	// do not differ.
	Ensure(ctx context.Context, c v1alpha1.Controller) error
	// StopAll ends all controllers concurrently, without a graceful shutdown if abruptly is true.
	StopAll(ctx context.Context, abruptly bool) error
	// ReplicaNumber is the number, from 1, of the controller with a client id; 0 = unknown. It may be called concurrently.
	ReplicaNumber(clientID string) int
}

var (
	_ ControllerRunner = (*host.Runner)(nil)
	_ ControllerRunner = (*incluster.Runner)(nil)
)
