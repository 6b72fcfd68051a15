// Package remote runs bases in another process, such as one in a Pod, and
// shows each base as if it were in this process. The other process calls Serve. This process starts it, with package
// stdio or through an API server, and calls New for each base.
//
// A base sends its events in one stream. Each answer to a request contains the number of events before it, and a call
// returns when these have been read. So the copy of a base on this side follows the order that package fakebase
// promises, and reading its state sends no message.
package remote
