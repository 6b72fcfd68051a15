package handover

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2024, 7, 18, 0, 0, s, 0, time.UTC) }
	oldPod := Pod{Key: "old", Created: at(1), IsReady: true, Ready: false}
	newPod := Pod{Key: "new", Created: at(3), IsReady: false, Ready: true}
	cases := []struct {
		name   string
		pods   []Pod
		served bool
		want   []Step
	}{
		{"nothing", nil, true, nil},
		{"old turns not ready before new turns ready", []Pod{newPod, oldPod}, true, []Step{{Key: "old"}, {Key: "new"}}},
		{
			"the older of two old Pods comes first",
			[]Pod{{Key: "middle", Created: at(2), IsReady: true}, newPod, oldPod}, true,
			[]Step{{Key: "old"}, {Key: "middle"}, {Key: "new"}},
		},
		{
			"the only Ready Pod of the module stays Ready until the new one is",
			[]Pod{newPod, oldPod}, false,
			[]Step{{Key: "old", PreferDeletion: true}, {Key: "new"}, {Key: "old"}},
		},
		{"a first install has nothing to hand over", []Pod{newPod}, false, []Step{{Key: "new"}}},
		{"a module that was lost is not kept Ready", []Pod{oldPod}, false, []Step{{Key: "old"}}},
		{
			"another Pod on this base that stays Ready closes the gap",
			[]Pod{{Key: "stays", Created: at(2), IsReady: true, Ready: true}, newPod, oldPod}, false,
			[]Step{{Key: "old"}, {Key: "new"}, {Key: "stays"}},
		},
		{
			"Pods created in the same second are told apart by when they were seen",
			[]Pod{{Key: "a", Created: at(1), Seen: 2, IsReady: true}, {Key: "b", Created: at(1), Seen: 1, IsReady: true}}, true,
			[]Step{{Key: "b"}, {Key: "a"}},
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
