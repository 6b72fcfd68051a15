// Package kind gives a sandbox a cluster of kind: real nodes, as containers of docker or podman,
// with kubelet, kube-proxy and DNS.
//
//	kind.go           Provider: what it offers, and the steps of bring-up
//	controller.go     what a module controller gets of the cluster, and how it shows as a component
//	create.go         making the cluster, and removing it: Down
//	owner.go          who owns a cluster of the name, before it is touched
//	requirements.go   what a cluster needs of the container engine and of the machine
//	nodeimage.go      which image the nodes are made of
//	network.go        the engine's network: the address of this machine in it, routes between nodes
//	load.go           images for the nodes
//	launch.go         a program of this machine, started in a node
//	containers.go     kill, pause and resume of containers in the nodes
//	archive.go        the node image as a file, for machines without a registry
//	daemonsets.go     keeps Pods that tolerate everything off the Nodes of bases
//	log.go            kind's log in ours
//
// A cluster is the sandbox's when it bears the sandbox's mark, or when the sandbox's folder notes
// that it was being made. No other is touched. The user's own kubeconfig is neither read nor
// written.
package kind
