// Package sandbox puts a whole Koupleless platform on one machine: a Kubernetes
// API, an MQTT broker, simulated bases and the module controller.
//
// The packages below, each of which imports only what stands further down:
//
//	cmd/koupsandbox/      main, and the command line in its internal/
//	scenario/             runs scenarios in a sandbox
//	internal/daemon/      the process that runs one sandbox
//	internal/cluster/     where the Kubernetes API comes from
//	internal/broker/      MQTT
//	internal/fleet/       the simulated bases
//	internal/traffic/     requests to modules, and the gateway
//	internal/supervise/   processes that a scenario can kill, pause and restart
//	internal/control/     how a command talks to the daemon
//	internal/state/       files, socket, lock
//	internal/progress/    steps on the terminal
//	api/v1alpha1/         the configuration file
//	events/               typed events, and the state that they produce
//	controlplane/         the Kubernetes control plane as one binary, a module of its own
package sandbox
