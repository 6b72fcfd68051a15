// Package mutate breaks the controller on purpose, so that tests can show that somebody would
// notice. A mutation is text that takes the place of other text in the controller's sources; go
// build -overlay builds what comes of it. The sources themselves have nothing of it, and are never
// written.
//
//	list.go    the mutations
//	mutate.go  applies one, and builds the controller with it
package mutate
