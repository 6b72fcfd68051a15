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

// Cluster has the connection data of a Kubernetes API for an administrator.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig with administrator permissions.
	Kubeconfig string
	// Config is the configuration from Kubeconfig, without a client-side rate limit. Copy it before changing it.
	Config *rest.Config
	// Version is the version that the API server reports, such as "v1.36.3".
	Version string
}

// Properties are properties of a cluster other than its API.
type Properties struct {
	// Host is the address of this machine for the cluster. Empty means that the cluster cannot reach this machine.
	Host string
	// KubeletClientCA is the path of the CA certificate of the client certificate that the API server presents to
	// kubelets. Empty means that the API server cannot reach this machine.
	KubeletClientCA string
	// Nodes controls the nodes of a cluster whose nodes are containers on this machine; nil for other clusters.
	Nodes Nodes
	// Ephemeral means that the data of the cluster is removed with the sandbox, so controllers need not clean up.
	Ephemeral bool
	// Adopted means that the cluster existed before. A failed up keeps it.
	Adopted bool
}

// Steps has the steps that bring up a cluster, in order.
type Steps struct {
	// Prepare determines the properties of the cluster. After it, Properties are known and Nodes.Load may be called.
	Prepare []Step
	// Start starts the API server. After it, the API answers.
	Start []Step
	// Complete starts the rest of the cluster.
	Complete []Step
}

// All returns all steps in order.
func (s Steps) All() []Step { return slices.Concat(s.Prepare, s.Start, s.Complete) }

// Step is one step of bringing up a cluster.
type Step struct {
	// Name is the name for users, such as "Starting etcd".
	Name string
	// Run blocks until the step is done or ctx ends.
	Run func(ctx context.Context) error
	// Undo reverts Run, including a failed Run. nil means that there is nothing to revert.
	Undo func(ctx context.Context) error
}

// Nodes controls the nodes of a cluster whose nodes are containers on this machine.
type Nodes interface {
	// Load loads an image onto all nodes. Call it after Steps.Prepare. It waits for the nodes.
	Load(ctx context.Context, b *image.Image) error
	// Launch starts a binary of this machine in the network of the nodes. Call it after Steps.Start.
	Launch(ctx context.Context, binary string, stderr io.Writer, args ...string) (*stdio.Process, error)
	// KillContainer, PauseContainer and ResumeContainer signal the processes of a container, without Kubernetes.
	KillContainer(ctx context.Context, node, id string) error
	PauseContainer(ctx context.Context, node, id string) error
	ResumeContainer(ctx context.Context, node, id string) error
}

// ServerVersion requests the version of the API server, which needs no permissions.
func ServerVersion(ctx context.Context, config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("requesting the version of %s: %w", config.Host, err)
	}
	var info struct{ GitVersion string }
	data, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return "", fmt.Errorf("requesting the version of %s: %w", config.Host, err)
	}
	return info.GitVersion, nil
}
