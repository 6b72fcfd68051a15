package judge

import (
	"testing"
	"time"
)

func TestSpeedDividesTheBounds(t *testing.T) {
	one := Options{ListEvery: 15 * time.Second, SilentAfter: 25 * time.Second}
	ten := Options{ListEvery: 1500 * time.Millisecond, SilentAfter: 2500 * time.Millisecond, Speed: 10}
	for _, c := range []struct {
		what     string
		one, ten time.Duration
	}{
		{"a list", one.listed(), ten.listed()},
		{"silence", one.silent(), ten.silent()},
		{"draining", one.of(Draining), ten.of(Draining)},
		{"an overtaken Pod", one.of(overtakenFor), ten.of(overtakenFor)},
	} {
		if c.ten != c.one/10 {
			t.Errorf("%s: %s at 1 and %s at 10", c.what, c.one, c.ten)
		}
	}
	if one.controllerRecovery() != 50*time.Second || ten.controllerRecovery() != 9*time.Second {
		t.Errorf("a controller recovers in %s at 1 and %s at 10: its Lease holds 4 s", one.controllerRecovery(), ten.controllerRecovery())
	}
}
