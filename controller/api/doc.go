// Package api holds the names and default timings with which the module controller describes itself
// through the Kubernetes API. Programs that read Pods, Nodes and Events of modules use it. It imports
// no other package of the controller.
//
//	reasons.go  reasons of containers, conditions and Events; condition types
//	timings.go  default periods and timeouts, and when the controller knows of a change
//	text.go     parts of messages and log lines that programs can parse
package api
