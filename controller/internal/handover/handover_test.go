package handover

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	oldPod := Pod{Key: "old", IsReady: true, Ready: false}
	newPod := Pod{Key: "new", IsReady: false, Ready: true}
	cases := []struct {
		name   string
		pods   []Pod
		served bool
		want   []Write
	}{
		{"nothing", nil, true, nil},
		{"old turns not ready before new turns ready", []Pod{oldPod, newPod}, true, []Write{{Key: "old"}, {Key: "new"}}},
		{
			"the older of two old Pods comes first",
			[]Pod{oldPod, {Key: "middle", IsReady: true}, newPod}, true,
			[]Write{{Key: "old"}, {Key: "middle"}, {Key: "new"}},
		},
		{
			"the only Ready Pod of the module stays Ready until the new one is",
			[]Pod{oldPod, newPod}, false,
			[]Write{{Key: "old", PreferDeletion: true}, {Key: "new"}, {Key: "old"}},
		},
		{
			"and longer, if it only yields",
			[]Pod{{Key: "old", IsReady: true, Superseded: true}, newPod}, false,
			[]Write{{Key: "old", PreferDeletion: true}, {Key: "new"}},
		},
		{"until it is asked again",
			[]Pod{{Key: "old", IsReady: true, Superseded: true}, {Key: "new", IsReady: true, Ready: true}}, false,
			[]Write{{Key: "old"}, {Key: "new"}}},
		{"a first install has nothing to hand over", []Pod{newPod}, false, []Write{{Key: "new"}}},
		{"a module that was lost is not kept Ready", []Pod{oldPod}, false, []Write{{Key: "old"}}},
		{
			"another Pod on this base that stays Ready closes the gap",
			[]Pod{oldPod, {Key: "stays", IsReady: true, Ready: true}, newPod}, false,
			[]Write{{Key: "old"}, {Key: "new"}, {Key: "stays"}},
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

func TestAdmit(t *testing.T) {
	now := time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC)
	serves := Pod{Key: "serves", IsReady: true, Ready: true, Version: "1", Active: true,
		ReadySince: now.Add(-time.Minute)}
	comes := func(change func(*Pod)) Pod {
		p := Pod{Key: "comes", Ready: true, Version: "2", Active: true}
		change(&p)
		return p
	}
	yields := Pod{Key: "yields", IsReady: true, Superseded: true, Version: "0"}
	since := func(p Pod, ready time.Duration) Pod {
		p.ReadySince = now.Add(-ready)
		return p
	}
	for name, tt := range map[string]struct {
		pods     []Pod
		admitted string
		again    time.Duration
	}{
		"a newer version": {[]Pod{serves, comes(func(*Pod) {})}, "serves comes", 0},
		"a version that is not active yet": {[]Pod{serves, comes(func(p *Pod) { p.Active = false })}, "serves",
			0},
		"a Pod that its workload does not want": {[]Pod{serves, comes(func(p *Pod) { p.Outdated = true })}, "serves",
			0},
		"of the same version": {
			[]Pod{serves, comes(func(p *Pod) { p.Version, p.Active = "1", false })}, "serves comes", 0},
		"while no other Pod serves": {[]Pod{comes(func(p *Pod) { p.Active, p.Outdated = false, true })},
			"comes", 0},
		"a Pod yields to one that is Ready now":   {[]Pod{yields, since(serves, 0)}, "serves", SupersedeDelay},
		"a Pod yields to one that was Ready":      {[]Pod{yields, since(serves, SupersedeDelay)}, "yields serves", 0},
		"a Pod yields to one that is Ready later": {[]Pod{yields, comes(func(*Pod) {})}, "yields comes", 0},
	} {
		admitted, again := Admit(tt.pods, now)
		var keys []string
		for _, p := range admitted {
			keys = append(keys, p.Key)
		}
		if got := strings.Join(keys, " "); got != tt.admitted || again != tt.again {
			t.Errorf("%s: %q, again after %s; want %q, %s", name, got, again, tt.admitted, tt.again)
		}
	}
}
