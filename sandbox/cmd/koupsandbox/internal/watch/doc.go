// Package watch shows the events of a sandbox live.
package watch
