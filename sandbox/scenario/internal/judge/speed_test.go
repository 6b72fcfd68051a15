package judge

import (
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
)

func TestSpeedDividesTimings(t *testing.T) {
	one, ten := Options{}, Options{Speed: 10}
	one.setDefaults()
	ten.setDefaults()
	for _, c := range []struct {
		what     string
		one, ten time.Duration
	}{
		{"list delay", one.listDelay(), ten.listDelay()},
		{"detection delay", one.detectionDelay(), ten.detectionDelay()},
		{"drain", one.scaled(api.Drain), ten.scaled(api.Drain)},
		{"superseded Pod", one.scaled(api.SwitchedReady), ten.scaled(api.SwitchedReady)},
	} {
		if c.ten != c.one/10 {
			t.Errorf("%s: %s at speed 1, %s at speed 10", c.what, c.one, c.ten)
		}
	}
	if one.controllerRecovery() != 33*time.Second || ten.controllerRecovery() != 10800*time.Millisecond {
		t.Errorf("controller recovery: %s at speed 1, %s at speed 10, want 33s and 10.8s (minimum Lease 4s)",
			one.controllerRecovery(),
			ten.controllerRecovery())
	}
}
