// Package scenario runs scenarios, rollouts with their disturbance, in a sandbox
// and says whether what they promise is so.
//
//	source/           files -> scenarios that have been checked
//	report/           a Report for terminals, CI and browsers
//	internal/steps/   what a step does
//	internal/observe/ what happens, in one order
//	internal/kube/    what kubectl would do
//	internal/match/   a part of an object against an object
//	internal/expr/    the expressions
//	internal/judge/   the built-in checks
package scenario
