// Package nodes watches the Nodes that module controllers create for bases.
//
//	nodes.go    Watch: which are Ready; Remove: those of bases that have ended
//	owner.go    Owner: which Nodes and Leases of a shared cluster belong to a sandbox
package nodes
