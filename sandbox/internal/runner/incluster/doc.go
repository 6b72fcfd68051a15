// Package incluster runs the module controller inside a cluster, from the manifests that a person
// applies with kubectl.
//
// The Pods are followed by one watch: what is known of them needs no call of the API, and every
// change is told at once.
package incluster
