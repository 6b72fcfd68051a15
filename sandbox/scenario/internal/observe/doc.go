// Package observe sees what happens to a run: the objects of its namespace, its bases, its
// requests. Everything goes through one lock, so that it has one order: that in which it was seen.
//
// What the events leave is an events.State. Nothing is polled but the figures of the ledger, which
// no stream tells.
package observe
