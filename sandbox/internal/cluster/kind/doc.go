// Package kind provides a Kubernetes cluster with kind: real nodes as containers of docker or podman, with kubelet,
// kube-proxy and DNS.
//
// A cluster belongs to the sandbox if it has the sandbox's ownership marker, or if the state directory records that the
// sandbox was creating it. Other clusters are not changed. The user's kubeconfig is neither read nor written.
package kind
