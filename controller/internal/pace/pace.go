// Package pace divides the periods of the controller by a time scale, so that tests of long outages take seconds.
package pace

import "time"

// MaxTimeScale is the maximum TimeScale. With a higher TimeScale, periods would be almost as short as the latency of
// a busy machine.
const MaxTimeScale = 20

// TimeScale is a divisor for periods. The zero value means 1.
type TimeScale int

// Of divides a period by the time scale. It does not change a period that is zero or negative, because such a period
// disables something or selects a default.
func (s TimeScale) Of(d time.Duration) time.Duration {
	if s <= 1 || d <= 0 {
		return d
	}
	return max(d/time.Duration(s), 1)
}

// Seconds divides a period in the same way as Of, and rounds the result up to whole seconds.
func (s TimeScale) Seconds(d time.Duration) time.Duration {
	d = s.Of(d)
	if d <= 0 {
		return d
	}
	return (d + time.Second - 1).Truncate(time.Second)
}
