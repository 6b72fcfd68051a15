// Package layers has no code. Its test checks the layers in ARCHITECTURE.md: every import within this module
// points down.
package layers
