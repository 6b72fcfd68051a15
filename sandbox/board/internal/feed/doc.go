// Package feed holds rows by kind and key, tells subscribers what changes, and keeps the past. It
// knows nothing of what the rows mean: they are JSON to it.
package feed
