// Package fuzz runs random releases under random disturbances, judges them by requests, and reduces
// what fails to a small scenario.
//
//	fuzz.go      Run: what it takes, what it returns, and what it tells meanwhile
//	schedule.go  Schedule: bases, workloads and moves, as plain data
//	moves.go     the moves: operations and disturbances, and what each of them needs
//	generate.go  a schedule from a seed
//	coverage.go  which pairs of moves there were, and what they have shown, so that new ones are preferred
//	features.go  the kinds of events, and of lines of the controllers' logs
//	render.go    a schedule as a scenario
//	times.go     how long a schedule may take, at any speed
//	disturb.go   its disturbances: how they begin, and end again
//	template.go  the workloads' objects
//	reduce.go    runs smaller and smaller schedules that fail in the same way
//	shrink.go    what is smaller than a schedule
//	pool.go      the sandboxes that schedules run in
//	growth.go    the memory of controllers over many schedules
//	group.go     failures of the same kind
//	kubernetes.go  what Kubernetes does by itself
//	report.go    the files of a corpus
//	html.go      a result as a page, with a map of the pairs of moves (index.html, index.css)
//	junit.go     a result as JUnit XML
//	compare.go   Compare: the same schedules with two controllers
//
// A schedule is data: the generator draws it, the shrinker takes things away from it, and only then
// it becomes a scenario. So whatever fails is a scenario file, and whatever can be said in a scenario
// can become a move. pgregory.net/rapid draws and shrinks within a test function and one at a time;
// schedules take seconds and run beside each other.
package fuzz
