// Package remote runs bases in another process, for example in a Pod. The other process calls Serve. This process starts
// it, with package stdio or through an API server, and calls New for each base.
//
// A base sends its events in one stream. The response to each request has the number of earlier events, and a call returns
// after these have been read. So the local copy of a base has the event order of package fakebase, and reading its state
// sends no request.
package remote
