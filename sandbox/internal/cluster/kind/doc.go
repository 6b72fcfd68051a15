// Package kind gives a sandbox a cluster of kind: real nodes, as containers of docker or podman,
// with kubelet, kube-proxy and DNS.
//
// A cluster is the sandbox's when it bears the sandbox's mark, or when the sandbox's directory notes
// that it was being made. No other is touched. The user's own kubeconfig is neither read nor
// written.
package kind
