// Package rpc is how processes of this module call each other: JSON over HTTP, on any connection.
//
//	method.go  Unary and Stream: a name with its types, which the server handles and the client calls
//	client.go  Client: reaches the server; Error: what the server reports
//	clock.go   Ahead: how the clock of the server's machine differs
//	queue.go   Queue: what a stream still has to tell; Mark: how much of it has been read
//
// A call is POST /NAME with its input as the body. A Unary is answered with its output, or with a
// status of 400 or more and an Error. A Stream is answered with lines of {"item": ..}, of which the
// last may be {"error": ..}. So curl can make each call:
//
//	curl --unix-socket SOCKET -d '{"bases": true}' http://sandbox/Status
//
// The package imports nothing of this module.
package rpc
