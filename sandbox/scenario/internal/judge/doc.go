// Package judge says what a rollout did to the bases and to what Kubernetes showed of them: the
// built-in checks. It is pure: events in, results out, no clock.
//
//	judge.go     Judge, Options, Result; puts events into the order of their times
//	world.go     what there is, a timeline.State, and what counts of the past
//	active.go    activeVersion: no base is without an active version
//	truth.go     truth: Ready, and ready endpoints, against what the base serves
//	wrong.go     which mismatches are violations
//	outage.go    when nobody could know or write what a base serves
//	order.go     order: old Not Ready before new Ready
//	installs.go  installedOnce
//	rest.go      nothingLeft, maxPodWrites and maxCommands
//
// A check is about what the controller and Kubernetes did. Nobody can do anything before he can
// know, so each excuse ends when the controller can know at the latest: by an answer, by the base's
// own words, by the next list, or by silence. The comments of the checks have the arithmetic.
//
// The watches may tell late. Event.Late says how much earlier something may have been written.
// What is a violation whenever it was written is one; what depends on it is Doubtful.
package judge
