// Package judge says what a rollout did to the bases and to what Kubernetes showed of them: the
// built-in checks. It is pure: events in, results out, no clock.
//
//	judge.go     Judge, Options, Result; puts events into the order of their times
//	world.go     what there is, a timeline.State, and what counts of the past
//	active.go    activeVersion: no base is without an active version
//	truth.go     truth: Ready, and ready endpoints, against what the base serves
//	wrong.go     which mismatches are violations
//	outage.go    windows in which mismatches are allowed, because of outages
//	order.go     order: old Not Ready before new Ready
//	installs.go  installedOnce
//	rest.go      nothingLeft, maxPodWrites and maxCommands
//
// A check is about what the controller and Kubernetes did. They cannot act before they can know of a change, so each check
// ignores the time until the controller can know: by an answer, by the base's own messages, by the next list, or by missed
// heartbeats. The periods come from package controller/api. Outages have windows in which mismatches are allowed
// (outage.go), whatever the check.
//
// Watches may be late. A violation that depends on an Options.Delay of more than a second is Doubtful.
package judge
