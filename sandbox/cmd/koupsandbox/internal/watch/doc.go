// Package watch follows the events of a sandbox and shows them as a live table, as lines of text or as JSON.
package watch
