// Package control is how a command talks to the daemon of a sandbox: calls of package rpc over a
// unix socket that only its user can open.
//
//	methods.go  the names of the calls, with the types of what goes in and comes out
//	types.go    what is said: status, components, bases, requests
//	server.go   Handler: the daemon's side, over the Service that the daemon is
//	listen.go   Listen, Server: the socket, and who may call; peer_*.go says who does
//	client.go   Client: the command's side; the Go API of scenarios too
//
// For example:
//
//	curl --unix-socket ~/.koupsandbox/koup/daemon.sock -d '{"group": ""}' http://sandbox/Bases
package control
