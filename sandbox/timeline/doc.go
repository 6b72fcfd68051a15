// Package timeline holds what was seen while a scenario ran, in the order in which it was seen:
// checks judge it, reports draw it, watch shows it live.
//
// State is the only place where events are folded into what there is. To show any moment of a
// recording, apply its events in order and keep a copy now and then; to go to a moment, copy the
// last one before it and apply the rest.
package timeline
