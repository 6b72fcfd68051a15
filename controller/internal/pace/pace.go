// Package pace divides the periods of the controller by one number, so that outages of minutes can be tested in
// seconds.
package pace

import "time"

// MaxTimeScale is the highest Speed: beyond it, periods come close to the latency of a busy machine.
const MaxTimeScale = 20

// TimeScale is the divisor of periods. The zero value means 1.
type TimeScale int

// Of divides a period. A value that is not positive is returned unchanged: it disables something, or means a default.
func (s TimeScale) Of(d time.Duration) time.Duration {
	if s <= 1 || d <= 0 {
		return d
	}
	return max(d/time.Duration(s), 1)
}

// Seconds is Of, rounded up to whole seconds.
func (s TimeScale) Seconds(d time.Duration) time.Duration {
	d = s.Of(d)
	if d <= 0 {
		return d
	}
	return (d + time.Second - 1).Truncate(time.Second)
}
