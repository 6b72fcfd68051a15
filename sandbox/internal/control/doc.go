// Package control is how a command talks to the daemon of a sandbox: HTTP with
// JSON on a unix socket that only its user can open.
//
//	types.go    what is said: status, components, bases, requests
//	server.go   Handler: the daemon's side, over the Service that the daemon is
//	client.go   Client: the command's side; the Go API of scenarios too
//
//	GET    /v1/status[?bases=true]               Status
//	POST   /v1/up                                UpRequest -> lines of progress, then UpResult or an error
//	POST   /v1/down                              stops everything, then answers
//	GET    /v1/events                            lines of progress, from the start of the daemon on
//	GET    /v1/bases                             Bases
//	POST   /v1/bases                             ScaleRequest -> the added Bases
//	DELETE /v1/bases                             RemoveRequest -> the removed Bases
//	GET    /v1/bases/{base}/faults               the faults of a base
//	POST   /v1/bases/{base}/faults               a fault -> its id
//	DELETE /v1/bases/{base}/faults[?id=...]      clears some or all
//	POST   /v1/components/{name}/{action}        kill, pause, resume, restart, stop, start
package control
