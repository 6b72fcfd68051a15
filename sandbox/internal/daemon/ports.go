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

// Cluster provides a Kubernetes API. Call its methods when the API answers, unless stated otherwise.
type Cluster interface {
	// Steps returns the steps that start and stop the cluster. It may be called at any time.
	Steps() cluster.Steps
	// ComponentSet returns the components of the cluster, or nil if it has none. It may be called at any time.
	ComponentSet() supervise.ComponentSet
	// Cluster returns the connection data of the cluster.
	Cluster() *cluster.Cluster
	// RemoveLeftovers removes the Nodes of bases that a killed daemon has left. In a cluster that the sandbox created,
	// it also removes the controllers.
	RemoveLeftovers(ctx context.Context) error
	// AuthorizeController grants the module controller its permissions and writes its kubeconfig.
	AuthorizeController(ctx context.Context) error
	// CleanUp removes the permissions and the Nodes of the given bases, by identity, from a cluster that outlives the
	// sandbox. Call it after the controllers have ended.
	CleanUp(ctx context.Context, bases map[string]bool) error
	// Maintain maintains the cluster until ctx ends.
	Maintain(ctx context.Context) error
	// IssueServingCert issues a serving certificate for hosts. caFile is the file of its CA certificate.
	IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// Properties may be called at any time. Host and KubeletClientCA are set when the API answers; Adopted is set after
	// Steps.Prepare.
	Properties() cluster.Properties
}

var (
	_ Cluster = (*embedded.ControlPlane)(nil)
	_ Cluster = (*kind.Provider)(nil)
	_ Cluster = (*existing.Provider)(nil)
)

// ControllerRunner runs module controllers. Ensure and StopAll must not be called concurrently.
type ControllerRunner interface {
	supervise.ComponentSet
	// Start watches the controllers until ctx ends. Call it once, before Ensure.
	Start(ctx context.Context) error
	// Ensure applies a configuration and blocks until all controllers are ready. It does not restart controllers whose
	// configuration is unchanged.
	Ensure(ctx context.Context, c v1alpha1.Controller) error
	// StopAll stops all controllers concurrently. It kills them if abruptly is true.
	StopAll(ctx context.Context, abruptly bool) error
	// ReplicaNumber returns the number, from 1, of the controller with a client ID, or 0 if the client ID is unknown.
	// It may be called concurrently.
	ReplicaNumber(clientID string) int
}

var (
	_ ControllerRunner = (*host.Runner)(nil)
	_ ControllerRunner = (*incluster.Runner)(nil)
)
