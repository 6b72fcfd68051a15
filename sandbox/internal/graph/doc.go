// Package graph runs the steps of a bring-up in the order of what each needs, and undoes them
// backwards.
//
//	graph.go    Graph: Add, Run, Undo
//	service.go  Service: a step that starts something long-lived; Chain: steps one after the other
package graph
