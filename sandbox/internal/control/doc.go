// Package control is the API between commands and the daemon of a sandbox: calls of package rpc over a Unix
// socket that only its user can open.
//
// For example:
//
//	curl --unix-socket ~/.koupsandbox/koup/daemon.sock -d '{"group": ""}' http://sandbox/Bases
package control
