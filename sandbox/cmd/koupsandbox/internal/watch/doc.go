// Package watch shows what happens in a sandbox while it happens.
//
//	watch.go   Follow: the events of the daemon and of Pods, as one stream
//	pods.go    Pods as events
//	lines.go   events as lines, for people and as JSON
//	screen.go  Screen: the same lanes as in the HTML report, live in a terminal
//	lanes.go   how a lane looks in characters
//	beside.go  what a lane is now, in words beside it
//	key.go     which colour a version has; what signs and colours mean
//	events.go  how an event reads in a line
package watch
