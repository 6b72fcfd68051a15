// Package peer makes the replicas of a peer Deployment follow the number of bases, so that every
// base has the module once (Module Controller V2 document 5.2).
//
//	peer.go      Options, New, Start: one instance of the controller leads, by a Lease
//	replicas.go  what the leader does: watch, debounce, patch spec.replicas through the scale subresource
//	count.go     how many replicas a Deployment should have; pure
//
// A Deployment takes part if it is labelled component=module-deployment and strategy=peer, under
// either prefix of the documents, and not replicas-control=true. It counts the Ready bases that its
// Pods may run on: node selector, required node affinity and tolerations, as the scheduler reads
// them.
//
// Replicas grow with the bases. They shrink when a base's Node is gone, or when it has not been
// Ready for Options.Grace: an outage of the broker makes all bases Not Ready at once, and a
// Deployment that followed at once would remove every module. A cordoned base counts while it has a
// Pod of the Deployment that is up to date.
package peer
