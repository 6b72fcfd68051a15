// Package supervise runs the components of a sandbox as processes, which a scenario can kill, stop, pause, resume and
// restart. It does not restart components that have failed.
//
// A run record, <dir>/<name>.json, identifies a process by its PID and start time, so that a later supervisor can end it.
// A process with another start time is never signalled.
package supervise
