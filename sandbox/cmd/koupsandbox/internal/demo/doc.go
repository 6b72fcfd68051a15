// Package demo shows in half a minute what the sandbox is for: a lossless
// rolling update and a lossy one, side by side, on a sandbox of its own.
//
//	scenarios/   the two scenarios
package demo
