// Package e2e tests a sandbox through its user interfaces: the built binaries, kubectl and the Kubernetes API. Run it
// with make e2e.
package e2e
