// Package runner has the common parts of the packages that run module controllers:
//
//	host/       processes on this machine: the bundled controller, or a custom command
//	incluster/  Deployments in the cluster
package runner
