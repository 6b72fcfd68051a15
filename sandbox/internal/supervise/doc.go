// Package supervise runs the components of a sandbox as processes of their own, so that a scenario
// can kill, stop, pause, resume or restart each of them, and so that what a crashed sandbox left
// behind can be found and ended safely.
//
// A process is known by its pid together with its start time, written to <dir>/<name>.json. A pid
// whose start time differs from the record belongs to somebody else and is never signalled.
//
// Nothing is started again by itself: a component that was killed stays down, and its status says
// why.
//
//	supervisor.go   Supervisor: Start, WaitReady, Stop, Kill, Pause, Resume, Restart
//	status.go       what each component is doing now
//	tail.go         the last lines of a log
//	change.go       told as it happens
//	environ.go      which variables a process gets from the environment
//	record.go       run records on disk, and cleaning up after a crash
//	identity*.go    start time, memory and CPU of a process, per operating system
package supervise
