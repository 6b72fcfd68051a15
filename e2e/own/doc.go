// Package own proves that a sandbox runs a module controller of the user's own,
// spec.controller.command, and that scenarios judge it.
//
//	own_test.go  our own program as such a command; a naive controller, which scenarios find out
//	naive/       the naive controller
package own
