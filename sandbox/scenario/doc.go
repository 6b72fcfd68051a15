// Package scenario runs scenarios, rollouts with their disturbance, in a sandbox
// and says whether what they promise is so.
//
//	scenario.go    the front door: Options, Execute, and the events of progress
//	plan.go        which runs there will be: each cell of a matrix, each attempt
//	runner.go      which run when: exclusive ones alone, the others side by side
//	run.go         one run, from its namespace to its verdict
//	setup.go       what a run needs: namespace, bases, controllers, watches
//	identity.go    the identity of scripts: a ServiceAccount of the namespace
//	steps.go       steps and groups of steps: if, repeat, background, parallel, timeout
//	invariant.go   always and never, at every event
//	checks.go      the built-in checks
//	lag.go         how late the run sees what happens, and what that makes of verdicts
//	evidence.go    what helps to understand a failure
//	cleanup.go     everything goes, or is kept
//	result.go      Report: what a run leads to
//	redact.go      masks the credentials of URLs in a Report
//	again.go       the command that repeats a run
//
//	source/           files -> scenarios that have been checked
//	report/           a Report for terminals, CI and browsers
//	internal/action/  what a step does
//	internal/observe/ what happens, in one order
//	internal/kube/    what kubectl would do
//	internal/match/   a part of an object against an object
//	internal/expr/    the expressions
//	internal/judge/   the built-in checks
package scenario
