package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// Cluster contains the data for connecting to a Kubernetes API as its administrator.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig with administrator permissions.
	Kubeconfig string
	// Config is the client configuration from Kubeconfig, without a client-side rate limit. Copy it before you change
	// it.
	Config *rest.Config
	// Version is the version that the API server reports, such as "v1.37.2".
	Version string
}

// Properties are properties of a cluster that the Kubernetes API does not show.
type Properties struct {
	// Host is the address at which the cluster can reach this machine. Empty means that the cluster cannot reach this
	// machine.
	Host string
	// KubeletClientCA is the path of the CA certificate that verifies the API server's client certificate for
	// kubelets. Empty means that the API server cannot reach this machine.
	KubeletClientCA string
	// Nodes controls the nodes of the cluster. It is nil if the nodes are not containers on this machine.
	Nodes Nodes
	// Ephemeral means that the cluster data is deleted with the sandbox, so the controllers do not have to clean up.
	Ephemeral bool
	// Adopted means that the cluster existed before the sandbox was started. A failed up keeps such a cluster.
	Adopted bool
}

// Steps contains the steps that bring up a cluster, in the order in which they run.
type Steps struct {
	// Prepare determines the properties of the cluster. After these steps, the Properties are known and Nodes.Load
	// may be called.
	Prepare []Step
	// Start starts the API server. After these steps, the API is available.
	Start []Step
	// Complete starts the remaining parts of the cluster.
	Complete []Step
}

// All returns all steps in order.
func (s Steps) All() []Step { return slices.Concat(s.Prepare, s.Start, s.Complete) }

// Step is one step of bringing up a cluster.
type Step struct {
	// Name is the step name that is shown to users, such as "Starting etcd".
	Name string
	// Run blocks until the step is done or ctx ends.
	Run func(ctx context.Context) error
	// Undo reverts Run. It is called even if Run failed. nil means that there is nothing to revert.
	Undo func(ctx context.Context) error
}

// Nodes controls the nodes of a cluster whose nodes are containers on this machine.
type Nodes interface {
	// Load loads an image onto all nodes. It blocks until the nodes are available and have the image. Call it after
	// Steps.Prepare.
	Load(ctx context.Context, b *image.Image) error
	// Launch starts a binary from this machine in the network namespace of a node. Call it after Steps.Start.
	Launch(ctx context.Context, binary string, stderr io.Writer, args ...string) (*stdio.Process, error)
	// KillContainer, PauseContainer and ResumeContainer act directly on the processes of a container, without using
	// the Kubernetes API.
	KillContainer(ctx context.Context, node, id string) error
	PauseContainer(ctx context.Context, node, id string) error
	ResumeContainer(ctx context.Context, node, id string) error
}

// ServerVersion requests the version from the API server. The request requires no permissions.
func ServerVersion(ctx context.Context, config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("creating a client for %s: %w", config.Host, err)
	}
	var info struct{ GitVersion string }
	data, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return "", fmt.Errorf("requesting the Kubernetes version of %s: %w", config.Host, err)
	}
	return info.GitVersion, nil
}
