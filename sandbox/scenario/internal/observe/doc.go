// Package observe records the events of a run: changes of the objects in its namespace, of its bases and of its
// requests. All events pass one lock, so they have one order: the order in which they were observed.
//
// The current state is an events.State. Only the summaries of traffic are polled, because there is no stream of them.
package observe
