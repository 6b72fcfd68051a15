// Package control is how a command talks to the daemon of a sandbox: calls of package rpc over a
// unix socket that only its user can open.
//
// For example:
//
//	curl --unix-socket ~/.koupsandbox/koup/daemon.sock -d '{"group": ""}' http://sandbox/Bases
package control
