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

// Cluster is a cluster that runs the Kubernetes API of a sandbox. Its methods may be called once the API server is
// available, unless stated otherwise.
type Cluster interface {
	// Steps returns the steps that start the cluster, and that stop it in reverse order. It may be called at any
	// time.
	Steps() cluster.Steps
	// ComponentSet returns the components of the cluster, or nil if the cluster has no components. It may be called
	// at any time.
	ComponentSet() supervise.ComponentSet
	// Cluster returns the administrator's connection data for the cluster.
	Cluster() *cluster.Cluster
	// RemoveLeftovers removes the Nodes of bases that a killed daemon left in the cluster. In a cluster that the
	// sandbox created, it also removes the controllers.
	RemoveLeftovers(ctx context.Context) error
	// AuthorizeController grants the module controller its permissions and writes the kubeconfig of the controller.
	AuthorizeController(ctx context.Context) error
	// CleanUp removes the permissions of the controllers and the Nodes of the given bases from a cluster that
	// outlives the sandbox. bases contains base identities. Call CleanUp after the controllers have exited.
	CleanUp(ctx context.Context, bases map[string]bool) error
	// Maintain runs the background tasks of the cluster until ctx ends. For example, it renews the token of the
	// controller's ServiceAccount.
	Maintain(ctx context.Context) error
	// IssueServingCert issues a server certificate for hosts. caFile is the path of the CA certificate.
	IssueServingCert(hosts ...string) (certPEM, keyPEM []byte, caFile string, err error)
	// Properties returns the properties of the cluster. It may be called at any time. Host and KubeletClientCA are
	// set once the API server is available, and Adopted is set after Steps.Prepare.
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
	// Start monitors the controllers until ctx ends. Call it once, before Ensure.
	Start(ctx context.Context) error
	// Ensure applies a configuration and blocks until all controllers are ready. It only restarts controllers whose
	// configuration has changed.
	Ensure(ctx context.Context, c v1alpha1.Controller) error
	// StopAll stops all controllers concurrently and blocks until they have exited. If abruptly is true, it kills
	// them.
	StopAll(ctx context.Context, abruptly bool) error
	// ReplicaNumber returns the number of the controller with the given client ID, counted from 1. It returns 0 if
	// the client ID is unknown. It may be called concurrently.
	ReplicaNumber(clientID string) int
}

var (
	_ ControllerRunner = (*host.Runner)(nil)
	_ ControllerRunner = (*incluster.Runner)(nil)
)
