// Package demo shows in half a minute what the sandbox is for: a lossless
// rolling update and a lossy one, side by side, on a sandbox of its own.
//
//	demo.go      Run: up, two scenarios, down
//	teller.go    tells what happens, in two columns
//	handover.go  which version answers on a base, and since when none does
//	scenarios/   the two scenarios
package demo
