package embedded

import (
	"slices"
	"testing"
)

// TestNodeLifecycleFlags checks that the periods of the node lifecycle are divided by the time scale. A Node Lease
// must always have time for two renewals before the Node becomes unreachable.
func TestNodeLifecycleFlags(t *testing.T) {
	for speed, want := range map[int][]string{
		1: nil,
		10: {"--node-monitor-period=500ms", "--node-monitor-grace-period=5s", "--node-startup-grace-period=6s",
			"--default-not-ready-toleration-seconds=30", "--default-unreachable-toleration-seconds=30"},
		20: {"--node-monitor-period=250ms", "--node-monitor-grace-period=4s", "--node-startup-grace-period=4s",
			"--default-not-ready-toleration-seconds=15", "--default-unreachable-toleration-seconds=15"},
	} {
		c := &ControlPlane{o: Options{Speed: speed}, pki: &pki{}}
		c.access.Store(&access{})
		all := slices.Concat(c.controllerManagerFlags(), c.apiserverFlags())
		for _, flag := range want {
			if !slices.Contains(all, flag) {
				t.Errorf("speed %d: no flag %s", speed, flag)
			}
		}
		if speed == 1 && slices.ContainsFunc(all,
			func(f string) bool { return f == "--node-monitor-grace-period=50s" }) {
			t.Error("speed 1 does not use the defaults of Kubernetes")
		}
	}
}
