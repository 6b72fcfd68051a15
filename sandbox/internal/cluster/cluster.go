// Package cluster holds what every source of a Kubernetes API has in common: the description of the cluster that a sandbox
// runs on, the steps of a bring-up, and the mark by which a sandbox recognises its own cluster.
//
//	embedded/   the upstream control plane as processes of this machine
//	kind/       a cluster of kind, nodes as containers
//	existing/   a kubeconfig context that the user names
package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Cluster is a Kubernetes API that answers, and the administrator's way in.
type Cluster struct {
	// Sandbox is the name of the sandbox that the cluster bears the mark of.
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

// Step is one part of a bring-up that a person sees: run in order, each blocks until its part is done or ctx ends.
type Step struct {
	// Name in the form "Starting etcd".
	Name string
	// Run does it.
	Run func(ctx context.Context) error
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
