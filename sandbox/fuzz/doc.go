// Package fuzz runs random releases under random disturbances, judges them by requests, and reduces
// what fails to a small scenario.
//
//	fuzz.go      Run: what it takes, what it returns, and what it tells meanwhile
//	schedule.go  Schedule: bases, workloads and moves, as plain data
//	moves.go     the moves: operations and disturbances, and what each of them needs
//	generate.go  a schedule from a seed
//	render.go    a schedule as a scenario
//	times.go     how long a schedule may take, at any speed
//	disturb.go   its disturbances: how they begin, and end again
//	template.go  the workloads' objects
//	reduce.go    runs smaller and smaller schedules that fail in the same way
//	shrink.go    what is smaller than a schedule
//	pool.go      the sandboxes that schedules run in
//	logs.go      the end of the controllers' logs
//	group.go     failures of the same kind
//	kubernetes.go  what Kubernetes does by itself
//	report.go    the files of a corpus
//	compare.go   Compare: the same schedules with two controllers
//
// A schedule is data: the generator draws it, the shrinker takes things away from it, and only then
// it becomes a scenario. So whatever fails is a scenario file, and whatever can be said in a scenario
// can become a move. pgregory.net/rapid draws and shrinks within a test function and one at a time;
// schedules take seconds and run beside each other.
package fuzz
