// Package layers has no code: its test holds the picture in ARCHITECTURE.md. Every import of this
// module points down, and the package comment of every package maps the files that are there.
package layers
