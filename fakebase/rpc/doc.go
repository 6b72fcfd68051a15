// Package rpc is how processes of this module call each other: JSON over HTTP, on any connection.
//
// A call is POST /NAME with its input as the body. A Unary is answered with its output, or with a
// status of 400 or more and an Error. A Stream is answered with lines of {"item": ..}, of which the
// last may be {"error": ..}. So curl can make each call:
//
//	curl --unix-socket SOCKET -d '{"bases": true}' http://sandbox/Status
//
// The package imports nothing of this module.
package rpc
