// Package layers has no code. Its tests check the layers in ARCHITECTURE.md: every import within this module points
// down. They also check that the Go modules of the repository select the same versions of shared modules.
package layers
