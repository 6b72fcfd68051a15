// Package pace divides the periods of the controller by one number, so that outages of minutes can
// be tested in seconds.
//
//	pace.go  Speed
//
// Its test reads the controller's sources and finds every period that is written there: each is
// divided, or named with the reason why not.
package pace
