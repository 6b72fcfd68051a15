// Package demo runs a lossless and a lossy rolling update side by side in its own sandbox. The directory scenarios
// has the two scenarios.
package demo
