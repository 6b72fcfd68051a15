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

// Cluster describes how an administrator reaches a Kubernetes API.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig with administrator rights.
	Kubeconfig string
	// Config is what Kubeconfig says, without a client-side rate limit. Copy it before changing it.
	Config *rest.Config
	// Version that the API reports, such as "v1.36.3".
	Version string
}

// Properties are what the daemon must know of a cluster besides its API.
type Properties struct {
	// Host is the address of this machine at which the cluster reaches it. Empty means that it does not.
	Host string
	// KubeletClientCA is the file of the authority behind the certificate with which the API server calls
	// kubelets. Empty means that the API server does not reach this machine.
	KubeletClientCA string
	// Nodes are the nodes of a cluster whose nodes are containers of this machine; nil for any other.
	Nodes Nodes
	// Ephemeral means that nothing that a controller would remove outlives the sandbox.
	Ephemeral bool
	// Adopted means that the cluster existed before: an up that fails leaves it.
	Adopted bool
}

// Steps bring a cluster up, one after the other.
type Steps struct {
	// Prepare finds out what the cluster will be. Then Properties are known, and Nodes.Load may be called.
	Prepare []Step
	// Start runs the API server. Then the API answers.
	Start []Step
	// Complete runs the rest of the cluster.
	Complete []Step
}

// All lists the steps in their order.
func (s Steps) All() []Step { return slices.Concat(s.Prepare, s.Start, s.Complete) }

// Step is a part of bringing a cluster up.
type Step struct {
	// Name for people, such as "Starting etcd".
	Name string
	// Run blocks until the step is done or ctx ends.
	Run func(ctx context.Context) error
	// Undo takes back what Run has done, or has begun before it failed. nil = there is nothing to take back.
	Undo func(ctx context.Context) error
}

// Nodes are the nodes of a cluster whose nodes are containers of this machine.
type Nodes interface {
	// Load gives an image to every node. Call it after Steps.Prepare; it waits for the nodes.
	Load(ctx context.Context, b *image.Image) error
	// Launch starts a program of this machine in the network of the nodes. Call it after Steps.Start.
	Launch(ctx context.Context, program string, stderr io.Writer, args ...string) (*stdio.Process, error)
	// KillContainer, PauseContainer and ResumeContainer do to the processes of a container what
	// Kubernetes does not.
	KillContainer(ctx context.Context, node, id string) error
	PauseContainer(ctx context.Context, node, id string) error
	ResumeContainer(ctx context.Context, node, id string) error
}

// ServerVersion asks the API for its version, which needs no rights.
func ServerVersion(ctx context.Context, config *rest.Config) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", config.Host, err)
	}
	var info struct{ GitVersion string }
	data, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(data, &info)
	}
	if err != nil {
		return "", fmt.Errorf("asking %s for its version: %w", config.Host, err)
	}
	return info.GitVersion, nil
}
