// Package supervise runs the components of a sandbox as processes. A scenario can kill, stop, pause, resume and restart
// them. The package does not restart failed components.
//
// A run record, <dir>/<name>.json, identifies a process by its PID and start time, so that a later supervisor can end
// the process. A process with another start time never gets a signal.
package supervise
