// Package component is what the parts of a sandbox have in common: the components that `koupsandbox
// status` lists, and what `koupsandbox component` does to them.
//
//	component.go  Component, Action, Part
//	none.go       None: a Part without components
//	processes.go  Processes: a Part whose components are supervised processes of this machine
package component
