// Package remote runs a base in another process, such as one in a container, and
// shows it as if it were in this one. The other process calls Serve; whoever has
// started it, with package stdio, calls New.
//
//	control.go  Control: one base as HTTP, which the fakebase program offers too
//	serve.go    Serve: the process of the base
//	outbox.go   what it has to tell, in order
//	base.go     Base: the side that asks
//	mirror.go   its copy of the base
//
// The base tells what happens to it in one stream, and each answer to a request
// says up to where the stream has to be read before it counts. So this side's
// copy is in the order that package fakebase promises for a base itself, and asking
// for the state costs no message.
package remote
