// Package judge implements the built-in checks of scenarios. Its functions are pure: they take events, return results,
// and use no clock.
//
// The checks evaluate the actions of the controller and of Kubernetes. The controller cannot react to a change before
// it can detect the change: by a response, a message of the base, the next module list, or missed heartbeats. Each
// check ignores the time until then. The periods come from package controller/api. All checks tolerate mismatches in
// the windows of outages (outage.go).
//
// Watch events may arrive late. A violation that depends on an Options.Delay of more than a second is Doubtful.
package judge
