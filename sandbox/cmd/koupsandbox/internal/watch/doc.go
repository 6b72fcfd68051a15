// Package watch shows the events of a sandbox live.
//
//	watch.go    Follow merges the events of the daemon and the changes of Pods into one stream
//	pods.go     changes of Pods as events
//	events.go   an event as a line of text
//	lines.go    events as lines of text, or of JSON
//	screen.go   Screen shows a live table in a terminal
//	table.go    the rows of the table
//	traffic.go  the request rates of the streams
package watch
