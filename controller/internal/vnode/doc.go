// Package vnode shows each base to Kubernetes as a Node, with a Lease that says which controller
// serves it.
//
//	convert.go     a base becomes a Node; pure
//	reconciler.go  a queue of bases whose Nodes and Leases are brought up to date
//	node.go        creates a Node, and writes what differs
//	lease.go       who serves which base
//
// virtual-kubelet's NodeController is not used: it runs five goroutines and a GET before every
// write for each Node, writes every status once a minute whether it changed or not, and names the
// Node as holder of the Lease, which leaves no room for several controllers that share the bases.
package vnode
