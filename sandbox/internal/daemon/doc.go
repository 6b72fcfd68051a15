// Package daemon is the process behind a sandbox: it runs the broker and the
// bases itself, supervises everything else as processes of their own, and
// answers the control API.
//
//	daemon.go      Daemon: New, Start(ctx); up and down as the phases of its life
//	bringup.go     the first up: what overlaps with what
//	ensure.go      a later up: brings a running sandbox in line
//	platform.go    the Kubernetes API, from whichever provider
//	kind.go        that of kind
//	deployed.go    the module controllers in the cluster
//	authority.go   who signs where the cluster's authority is not ours
//	rights.go      what the controller needs in the cluster
//	forget.go      the clean-up of a cluster that stays, when the daemon is gone
//	controller.go  the processes of the module controllers
//	hearts.go      heartbeats over HTTP, to each of them
//	mqtt.go        the broker, or the way to the user's: both can be stopped and started like a process
//	bases.go       the bases: add, remove, restart, faults
//	containers.go  bases in containers of the cluster's network
//	watch.go       everything that happens, as a stream; who owns a group of bases
//	subscriber.go  the queue behind such a stream
//	traffic.go     the gateway and the streams of requests
//	flows.go       who sends them: this process, or an agent in the cluster
//	nodes.go       which Nodes are Ready, by a watch
//	components.go  kill, pause, resume, restart, stop, start
//	status.go      how everything is
//	events.go      the steps so far, for whoever asks later
//
// The life of a daemon: it listens, waits for a first up, and ends after down, on
// a signal, or when the first up fails or the command that asked for it goes
// away. Whatever ends it, it stops all it has started.
package daemon
