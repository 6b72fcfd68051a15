// Package observe sees what happens to a run: the objects of its namespace, its bases, its
// requests. Everything goes through one lock, so that it has one order: that in which it was seen.
//
//	world.go   World: notes events, tells watchers, lets others wait
//	table.go   the objects of one kind, followed by a watch
//	lag.go     when objects were written, and how late the watches deliver that
//	record.go  objects -> events of the timeline
//	base.go    bases as the daemon tells of them
//	switch.go  two events that are one change
//	data.go    what expressions see
//
// What the events leave is a timeline.State. Nothing is polled but the figures of the ledger, which
// no stream tells.
package observe
