// Package cluster holds what every source of a Kubernetes API has in common.
//
//	cluster.go    Cluster: how it is reached; what the steps of a provider give; Nodes
//	mark.go       the mark by which a sandbox recognises its own cluster
//	rights.go     what a module controller outside the cluster needs in it
//	authority.go  certificates where the cluster keeps its own authority to itself
//
// The providers:
//
//	embedded/   the upstream control plane as processes of this machine
//	kind/       a cluster of kind, nodes as containers
//	existing/   a kubeconfig context that the user names
package cluster
