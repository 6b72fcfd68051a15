// Package fuzz runs random releases with random faults, and shrinks failures to small scenarios.
//
//	fuzz.go        Run and its options, progress and result
//	schedule.go    Schedule: bases, workloads and moves, as plain data
//	moves.go       the moves: operations and disturbances, and their effects
//	generate.go    a schedule from a seed
//	render.go      a schedule as a scenario
//	times.go       the time limits of a schedule
//	disturb.go     the steps that begin and end a disturbance
//	template.go    the objects of workloads
//	reduce.go      shrinks a failure by running simpler schedules
//	shrink.go      the schedules that are simpler than another
//	pool.go        the sandboxes in which schedules run
//	logs.go        the end of the controllers' logs
//	group.go       failures of the same kind
//	kubernetes.go  failures that Kubernetes causes itself
//	report.go      the files of a corpus
//	compare.go     Compare runs the same schedules with two controllers
//
// A schedule is plain data. The generator and the shrinker work on schedules, and only a schedule that runs is
// rendered as a scenario. Each failure is therefore a scenario file, and each step of the scenario language can be a
// move. The package does not use pgregory.net/rapid, which runs one test case at a time, within a test function.
package fuzz
