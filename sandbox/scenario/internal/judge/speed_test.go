package judge

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

func TestSpeedDividesTheBounds(t *testing.T) {
	one, ten := Options{}, Options{Speed: 10}
	one.setDefaults()
	ten.setDefaults()
	for _, c := range []struct {
		what     string
		one, ten time.Duration
	}{
		{"a list", one.listDelay(), ten.listDelay()},
		{"silence", one.detectionDelay(), ten.detectionDelay()},
		{"draining", one.scaled(api.Drain), ten.scaled(api.Drain)},
		{"an overtaken Pod", one.scaled(api.SwitchedReady), ten.scaled(api.SwitchedReady)},
	} {
		if c.ten != c.one/10 {
			t.Errorf("%s: %s at 1 and %s at 10", c.what, c.one, c.ten)
		}
	}
	if one.controllerRecovery() != 33*time.Second || ten.controllerRecovery() != 10800*time.Millisecond {
		t.Errorf("a controller recovers in %s at 1 and %s at 10: its Lease holds 4 s", one.controllerRecovery(),
			ten.controllerRecovery())
	}
}
