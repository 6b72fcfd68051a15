// Package timeline holds what was seen while a scenario ran, in the order in which it was seen:
// checks judge it, reports draw it, watch shows it live.
//
//	event.go   Event: one thing that was seen
//	kinds.go   the states that events tell, as types
//	pod.go     PodStateOf: what counts of a Pod, the versions of its modules among it
//	state.go   State: what the events so far leave
//	status.go  BaseStatus, PodStatus and the rest of what a State holds
//	table.go   Table: things by name, cheap to copy
//
// State is the only place where events are folded into what there is. To show any moment of a
// recording, apply its events in order and keep a copy now and then; to go to a moment, copy the
// last one before it and apply the rest.
package timeline
