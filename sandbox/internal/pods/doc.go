// Package pods runs simulated bases in Pods of a cluster, many in each.
//
// A Pod does nothing. For its bases a program is executed in it, as kubectl exec does, and told by its
// standard streams, with package remote, what to do. So nothing listens for that, nothing has to be reachable
// from this machine but the API server, which knows who may do that (the right to pods/exec), and no
// password lies in the cluster. The bases end with that connection: none outlives its owner. A Pod
// whose connection ends is tried again until it is back; its bases are made again then.
package pods
