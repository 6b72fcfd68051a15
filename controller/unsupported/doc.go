// Package unsupported says which fields of a Pod mean nothing to a module. A module is no container:
// it is classes in the JVM of its base, so most of what a kubelet does for a container has no
// counterpart. The controller tells it in an Event of the Pod, and koupsandbox lint in a finding.
//
//	unsupported.go  Of: the fields of a Pod spec that are ignored; Names
//
// The package is pure and imports nothing of this module, so that whoever reads manifests may use
// it.
package unsupported
