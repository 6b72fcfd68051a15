// Package unsupported lists the fields of a Pod that are ignored on a base. A module is not a container:
// it is classes in the JVM of its base, so most of what a kubelet does for a container has no
// counterpart. The controller reports the fields in an Event of the Pod, and koupsandbox lint in a
// finding.
//
//	unsupported.go  Of: the fields of a Pod spec that are ignored
//	table.go        the rule for each field; Names
//
// The package is pure.
package unsupported
