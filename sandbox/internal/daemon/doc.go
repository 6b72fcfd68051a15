// Package daemon is the process behind a sandbox: it runs the broker and the bases itself, supervises
// everything else as processes of their own, and answers the control API.
//
//	daemon.go      Daemon: New, Start(ctx); up and down as the phases of its life
//	ports.go       the interfaces behind which there are several ways: Cluster, ControllerRunner
//	providers.go   the clusters that there are
//	bringup.go     the first up: what needs what, as a graph of steps
//	assemble.go    what a sandbox is made of, and the steps that start it
//	topology.go    where controllers and bases run, and so where the broker listens
//	ensure.go      a later up: brings a running sandbox in line
//	controller.go  how many controllers there are, and their variables
//	repair.go      what a run has done to components and controllers is undone
//	faults.go      sets, lists and clears faults of all targets
//	pods.go        what runs bases in Pods
//	bases.go       the bases: add, remove, restart, faults
//	watch.go       everything that happens, as a stream; who owns a group of bases
//	subscriber.go  the queue behind such a stream
//	traffic.go     the gateway and the streams of requests
//	flows.go       who sends them: this process, or an agent in the cluster
//	components.go  kill, pause, resume, restart, stop, start
//	status.go      how everything is
//	events.go      the steps so far, for whoever asks later
//
// The life of a daemon: it listens, waits for a first up, and ends after down, on a signal, or when
// the first up fails or the command that asked for it goes away. Whatever ends it, it undoes the
// steps that have begun, backwards.
package daemon
