// Package cli is the command line of koupsandbox.
//
//	cli.go         Run: the application, its common flags, errors and exit codes
//	up.go          up and down
//	status.go      status and list
//	bases.go       base list, add, remove, inject, faults, clear
//	components.go  component kill, pause, resume, restart, stop, start
//	logs.go        logs
//	tools.go       kubeconfig, doctor, version, completion
//	daemon.go      the hidden command behind up
//	output.go      text, JSON and YAML
package cli
