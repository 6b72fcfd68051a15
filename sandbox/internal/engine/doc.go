// Package engine finds and runs the container engine of this machine, docker or podman, by its
// command.
//
//	engine.go   Find: which engine answers, and what it says of itself
//	command.go  Run, Load: one command, and an error that says what failed
package engine
