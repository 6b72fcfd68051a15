// Package sandbox puts a whole Koupleless platform on one machine: a Kubernetes
// API, an MQTT broker, simulated bases and the module controller.
//
//	sandbox.go    front door: Up, Down, Open
//	launch.go     the daemon's process, or the daemon in this process
//	inspect.go    List, and the status of a sandbox whose daemon is gone
//	programs.go   where the programs are
//	provider.go   what the provider auto means on this machine
//
// The rooms below:
//
//	api/v1alpha1/        the configuration file
//	controlplane/        the Kubernetes control plane as one binary, a module of its own
//	internal/daemon/     the process that runs one sandbox
//	internal/broker/     MQTT
//	internal/fleet/      the simulated bases
//	internal/cluster/    where the Kubernetes API comes from
//	internal/supervise/  processes that a scenario can kill, pause and restart
//	internal/control/    how a command talks to the daemon
//	internal/state/      files, socket, lock
//	internal/progress/   steps on the terminal
//	internal/doctor/     what the machine must have
//	internal/cli/        the command line
//	cmd/koupsandbox/     main
package sandbox
