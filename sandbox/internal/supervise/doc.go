// Package supervise runs the components of a sandbox as processes of their own, so that a scenario
// can kill, stop, pause, resume or restart each of them, and so that what a crashed sandbox left
// behind can be found and ended safely.
//
// A process is known by its pid together with its start time, written to <dir>/<name>.json. A pid
// whose start time differs from the record belongs to somebody else and is never signalled.
//
// Nothing is started again by itself: a component that was killed stays down, and its status says
// why.
package supervise
