// Package control is how a command talks to the daemon of a sandbox: HTTP with
// JSON on a unix socket that only its user can open.
//
//	types.go    what is said: status, components, bases, requests
//	server.go   Handler: the daemon's side, over the Service that the daemon is
//	watch.go    the parts of Handler that scenarios need: events, traffic, controllers
//	client.go   Client: the command's side; the Go API of scenarios too
//	follow.go   the methods of Client for those parts
//
//	GET    /v1/status[?bases=true]               Status
//	POST   /v1/up                                UpRequest -> lines of progress, then UpResult or an error
//	POST   /v1/down                              stops everything, then answers
//	GET    /v1/events                            lines of progress, from the start of the daemon on
//	GET    /v1/bases[?group=...]                 Bases
//	POST   /v1/bases                             AddRequest -> the added Bases
//	DELETE /v1/bases                             RemoveRequest -> the removed Bases
//	POST   /v1/bases/{base}/restart              RestartRequest -> the Base with its new process
//	GET    /v1/bases/{base}/faults               the faults of a base
//	POST   /v1/bases/{base}/faults               a fault -> its id
//	DELETE /v1/bases/{base}/faults[?id=...]      clears some or all
//	POST   /v1/components/{name}/{action}        kill, pause, resume, restart, stop, start
//	PUT    /v1/controller                        ControllerRequest -> what was before
//	GET    /v1/watch[?group=...&own=true]        lines of timeline events: what is, synced, then what changes
//	GET    /v1/traffic/{group}                   traffic.Summary of each stream
//	POST   /v1/traffic/{group}                   traffic.Spec: starts a stream
//	DELETE /v1/traffic/{group}/{name}            stops a stream -> traffic.End
//	GET    /v1/traffic/{group}/{name}/records    lines of traffic.Record: the whole ledger
package control
