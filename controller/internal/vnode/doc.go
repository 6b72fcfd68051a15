// Package vnode shows each base to Kubernetes as a Node, and settles which controller serves it.
//
//	convert.go     a base becomes a Node; pure
//	reconciler.go  a queue of bases whose Nodes and Leases are brought up to date
//	node.go        creates a Node, and writes what differs
//	lease.go       the Lease of a Node, for Kubernetes alone
//	ledger.go      what is kept on that Lease: what Pods had put on the base
//	journal.go     what is new of that since the Leases were written: one write for many bases
//	entry.go       how a journal is written down, and read by whoever takes a base over
//	member.go      the Lease of this controller, and what is seen of the others'
//	process.go     distinguishes a restarted controller from a second one with the same CLIENT_ID
//	guard.go       a loop without I/O that ceases to serve when this controller may not act
//	owner.go       which controller serves a base: what the Node says, and who may take it
//	older.go       Nodes of controllers that say it otherwise
//
// Who serves a base stands on its Node: the annotations labels.Holder and labels.Fence, which only
// change together with the Node's resourceVersion. Whether the holder is still there is told by its
// one Lease. So a controller writes one Lease every 3 s however many bases it serves, and another
// one that takes them over needs one write for each.
//
// virtual-kubelet's NodeController is not used: it runs five goroutines and a GET before every
// write for each Node, and writes every status once a minute whether it changed or not.
package vnode
