// Package graph runs the steps of a bring-up in the order of what each needs, and undoes them
// backwards.
package graph
