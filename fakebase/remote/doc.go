// Package remote runs bases in another process, such as one in a Pod, and
// shows each as if it were in this one. The other process calls Serve; whoever has
// started it, with package stdio or through an API server, calls New for each base.
//
// A base tells what happens to it in one stream, and each answer to a request
// says how much of the stream has to be read before it counts. So this side's
// copy is in the order that package fakebase promises for a base itself, and asking
// for the state costs no message.
package remote
