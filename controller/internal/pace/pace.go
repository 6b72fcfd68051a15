// Package pace divides the periods of the controller by one number, so that outages of minutes can
// be tested in seconds.
//
// Its test reads the controller's sources and finds every period that is written there: each is
// divided, or named with the reason why not.
package pace

import "time"

// Fastest is the highest Speed: beyond it the periods come close to what a busy machine needs.
const Fastest = 20

// Speed says how many times as fast the system lives. The zero value is 1: periods are as they are
// written.
type Speed int

// Of is how long a period takes at this speed. What is not positive stays as it is: it turns
// something off, or means a default.
func (s Speed) Of(d time.Duration) time.Duration {
	if s <= 1 || d <= 0 {
		return d
	}
	return max(d/time.Duration(s), 1)
}

// Seconds is the same for what Kubernetes keeps in whole seconds: rounded up, so that nothing ends
// before its time.
func (s Speed) Seconds(d time.Duration) time.Duration {
	d = s.Of(d)
	if d <= 0 {
		return d
	}
	return (d + time.Second - 1).Truncate(time.Second)
}
