// Package cluster holds what every source of a Kubernetes API has in common.
//
// The providers:
//
//	embedded/   the upstream control plane as processes of this machine
//	kind/       a cluster of kind, nodes as containers
//	existing/   a kubeconfig context that the user names
package cluster
