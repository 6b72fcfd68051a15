package handover

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	oldPod := Pod{Key: "old", IsReady: true, Ready: false}
	newPod := Pod{Key: "new", IsReady: false, Ready: true}
	cases := []struct {
		name   string
		pods   []Pod
		served bool
		want   []Step
	}{
		{"nothing", nil, true, nil},
		{"old turns not ready before new turns ready", []Pod{oldPod, newPod}, true, []Step{{Key: "old"}, {Key: "new"}}},
		{
			"the older of two old Pods comes first",
			[]Pod{oldPod, {Key: "middle", IsReady: true}, newPod}, true,
			[]Step{{Key: "old"}, {Key: "middle"}, {Key: "new"}},
		},
		{
			"the only Ready Pod of the module stays Ready until the new one is",
			[]Pod{oldPod, newPod}, false,
			[]Step{{Key: "old", PreferDeletion: true}, {Key: "new"}, {Key: "old"}},
		},
		{
			"and longer, if it only yields",
			[]Pod{{Key: "old", IsReady: true, Yields: true}, newPod}, false,
			[]Step{{Key: "old", PreferDeletion: true}, {Key: "new"}},
		},
		{"until it is asked again", []Pod{{Key: "old", IsReady: true, Yields: true}, {Key: "new", IsReady: true, Ready: true}}, false, []Step{{Key: "old"}, {Key: "new"}}},
		{"a first install has nothing to hand over", []Pod{newPod}, false, []Step{{Key: "new"}}},
		{"a module that was lost is not kept Ready", []Pod{oldPod}, false, []Step{{Key: "old"}}},
		{
			"another Pod on this base that stays Ready closes the gap",
			[]Pod{oldPod, {Key: "stays", IsReady: true, Ready: true}, newPod}, false,
			[]Step{{Key: "old"}, {Key: "new"}, {Key: "stays"}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Order(c.pods, func() bool { return c.served })); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}
