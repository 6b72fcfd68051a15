// Package judge says what a rollout did to the bases and to what Kubernetes showed of them: the
// built-in checks. It is pure: events in, results out, no clock.
//
//	judge.go     Judge: New, Observe, Results; puts events into the order of their times
//	world.go     what there is, a timeline.State, and what counts of the past
//	active.go    activeVersion: no base is without an active version
//	truth.go     truth: Ready, and ready endpoints, against what the base serves
//	outage.go    when nobody could know or write what a base serves
//	order.go     order: old Not Ready before new Ready
//	installs.go  installedOnce
//	rest.go      nothingLeft and maxPodWrites
//
// A check is about what the controller and Kubernetes did. What the end of a base's process brings
// about, by a crash, a restart or its removal, is told apart, as excused: nothing that is not there
// any more can be kept active, and nobody can know of it before it has been silent for a while.
package judge
