// Package fleet runs the simulated bases of a sandbox, in this process or in Pods of a cluster (package
// pods): the sandbox's own bases, and groups of others that come and go.
package fleet
