// Package fleet runs the simulated bases of a sandbox, in this process or in Pods (package pods). A fleet has its own
// bases, and groups of bases that are added and removed at run time.
package fleet
