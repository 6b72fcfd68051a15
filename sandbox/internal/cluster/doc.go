// Package cluster has the common parts of the packages that provide a Kubernetes API:
//
//	embedded/   the upstream control plane as processes on this machine
//	kind/       a kind cluster with containers as nodes
//	existing/   an existing cluster, selected by its kubeconfig context
package cluster
