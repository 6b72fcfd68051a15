// Package feed stores rows by kind and key, sends changes to subscribers, and keeps their history. The rows are
// opaque JSON.
package feed
