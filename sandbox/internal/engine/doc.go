// Package engine finds and runs the container engine of this machine, docker or podman, by its
// command.
package engine
