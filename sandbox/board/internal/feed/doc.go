// Package feed holds rows by kind and key, tells subscribers what changes, and keeps the past. It
// knows nothing of what the rows mean: they are JSON to it.
//
//	feed.go     Feed: rows as they are now, Put, Subscribe
//	history.go  the past, in chunks: each begins with everything, and goes on with changes
package feed
