package pace

import (
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		scale     TimeScale
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
		if of, whole := c.scale.Of(c.d), c.scale.Seconds(c.d); of != c.of || whole != c.whole {
			t.Errorf("time scale %d: Of(%s) is %s and Seconds is %s, want %s and %s", c.scale, c.d, of, whole, c.of,
				c.whole)
		}
	}
}
