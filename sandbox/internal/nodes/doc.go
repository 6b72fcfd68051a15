// Package nodes watches the Nodes that module controllers create for bases.
package nodes
