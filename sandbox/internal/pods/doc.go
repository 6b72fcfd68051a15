// Package pods runs simulated bases in Pods of a cluster, several in each Pod.
//
// The container of a Pod is idle. Package pods executes a binary in it, like kubectl exec, and controls the bases
// through the standard streams of that binary (package remote). So the Pods need no listener and no password, this
// machine only needs access to the API server, and the permission pods/exec protects the bases. The bases end with the
// connection to this process. If the connection to a Pod ends, package pods reconnects and recreates the bases of the
// Pod.
package pods
