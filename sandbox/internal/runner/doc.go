// Package runner holds what every way of running module controllers has in common.
//
// The ways:
//
//	host/       processes of this machine: the sandbox's own program, or a command of the user's
//	incluster/  a Deployment of the cluster
package runner
