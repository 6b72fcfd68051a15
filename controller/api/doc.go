// Package api holds the names and default timings with which the module controller describes itself
// through the Kubernetes API. Programs that read Pods, Nodes and Events of modules use it. It imports
// no other package of the controller.
package api
