// Package nodes looks at the Nodes that module controllers make of bases.
//
//	nodes.go    Watch: which are Ready; Remove: those of bases that have ended
//	leases.go   RemoveLeases: what controllers that have ended keep
package nodes
