package pace

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		speed     TimeScale
		d         time.Duration
		of, whole time.Duration
	}{
		{0, time.Minute, time.Minute, time.Minute},
		{1, time.Minute, time.Minute, time.Minute},
		{10, 25 * time.Second, 2500 * time.Millisecond, 3 * time.Second},
		{20, 15 * time.Second, 750 * time.Millisecond, time.Second},
		{20, 40 * time.Second, 2 * time.Second, 2 * time.Second},
		{20, 1, 1, time.Second},
		{20, 0, 0, 0},
		{20, -1, -1, -1},
	} {
		if of, whole := c.speed.Of(c.d), c.speed.Seconds(c.d); of != c.of || whole != c.whole {
			t.Errorf("speed %d: %s is %s, in whole seconds %s; want %s and %s", c.speed, c.d, of, whole, c.of, c.whole)
		}
	}
}
