// Package e2e tests a sandbox as its user drives it: with the built binaries, kubectl and the Kubernetes API. Run it
// with make e2e.
package e2e
