// Package httptunnel carries arklet messages over HTTP (protocol 4).
//
//	http.go    options, start and stop
//	server.go  what bases send: heartbeats and baseline queries
//	client.go  what bases are sent: commands, each with its own connection
//	proxy.go   the way to bases that can't be reached directly
//	answer.go  what an answer means, or why there is none
//
// A base registers by its heartbeats and is then asked at the address that it named. Each base has
// its own queue: one that hangs holds up nobody else.
package httptunnel
