package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/graph"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// Cluster is a Kubernetes API that answers, and the administrator's way in.
type Cluster struct {
	// Sandbox is the name of the sandbox in the ownership marker of the cluster.
	Sandbox string
	// Kubeconfig is the path of a kubeconfig with administrator rights.
	Kubeconfig string
	// Context in Kubeconfig; never empty.
	Context string
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

// What the steps of a cluster give, in this order.
const (
	// Prepared: it is known what the cluster will be, and nodes may come into being.
	Prepared graph.Condition = "the cluster is prepared"
	// Answers: the API answers.
	Answers graph.Condition = "the API answers"
	// Complete: everything of the cluster runs.
	Complete graph.Condition = "the cluster is complete"
)

// Populated is what the rest of a cluster may need that is to be complete only then.
const Populated graph.Condition = "the Nodes of the bases are there"

// Nodes are the nodes of a cluster whose nodes are containers of this machine.
type Nodes interface {
	// Load gives an image to every node. Call it when the cluster is Prepared; it waits for the nodes.
	Load(ctx context.Context, b *image.Image) error
	// Launch starts a program of this machine in the network of the nodes. Call it when the API Answers.
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
