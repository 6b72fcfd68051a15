// Package judge says what a rollout did to the bases and to what Kubernetes showed of them: the
// built-in checks. It is pure: events in, results out, no clock.
//
// A check is about what the controller and Kubernetes did. They cannot act before they can know of a change, so each check
// ignores the time until the controller can know: by an answer, by the base's own messages, by the next list, or by missed
// heartbeats. The periods come from package controller/api. Outages have windows in which mismatches are allowed
// (outage.go), whatever the check.
//
// Watches may be late. A violation that depends on an Options.Delay of more than a second is Doubtful.
package judge
