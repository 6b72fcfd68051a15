// Package scenario runs scenarios (rollouts with faults) in a sandbox, and reports whether their expectations are met.
//
//	source/           reads and validates scenario files
//	report/           writes a Report for terminals, CI and browsers
//	internal/steps/   executes steps
//	internal/observe/ records events in one order
//	internal/kube/    implements kubectl operations
//	internal/match/   compares parts of objects with objects
//	internal/expr/    evaluates expressions
//	internal/judge/   implements the built-in checks
package scenario
