// Package fuzz runs random releases with random faults, and shrinks failures to small scenarios.
//
// A schedule is plain data. The generator and the shrinker work on schedules, and only a schedule that runs is
// rendered as a scenario. Each failure is therefore a scenario file, and each step of the scenario language can be a
// action. The package does not use pgregory.net/rapid, which runs one test case at a time, within a test function.
package fuzz
