package handover

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOrder(t *testing.T) {
	oldPod := Pod{Key: "old", IsReady: true, ShouldBeReady: false}
	newPod := Pod{Key: "new", IsReady: false, ShouldBeReady: true}
	cases := []struct {
		name   string
		pods   []Pod
		served bool
		want   []Write
	}{
		{"no Pods", nil, true, nil},
		{"old Pod turns Not Ready before new Pod turns Ready", []Pod{oldPod, newPod}, true,
			[]Write{{Key: "old"}, {Key: "new"}}},
		{
			"the older of two old Pods is first",
			[]Pod{oldPod, {Key: "middle", IsReady: true}, newPod}, true,
			[]Write{{Key: "old"}, {Key: "middle"}, {Key: "new"}},
		},
		{
			"the only Ready Pod stays Ready until the new Pod is Ready",
			[]Pod{oldPod, newPod}, false,
			[]Write{{Key: "old", PreferDeletion: true}, {Key: "new"}, {Key: "old"}},
		},
		{
			"a superseded only Ready Pod stays Ready",
			[]Pod{{Key: "old", IsReady: true, Superseded: true}, newPod}, false,
			[]Write{{Key: "old", PreferDeletion: true}, {Key: "new"}},
		},
		{"and turns Not Ready when the new Pod is already Ready",
			[]Pod{{Key: "old", IsReady: true, Superseded: true},
				{Key: "new", IsReady: true, ShouldBeReady: true}}, false,
			[]Write{{Key: "old"}, {Key: "new"}}},
		{"a first install is not a handover", []Pod{newPod}, false, []Write{{Key: "new"}}},
		{"a lost module is not kept Ready", []Pod{oldPod}, false, []Write{{Key: "old"}}},
		{
			"another Pod on this base stays Ready",
			[]Pod{oldPod, {Key: "stays", IsReady: true, ShouldBeReady: true}, newPod}, false,
			[]Write{{Key: "old"}, {Key: "new"}, {Key: "stays"}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Order(c.pods, func() bool { return c.served })); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdmit(t *testing.T) {
	now := time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC)
	readyPod := Pod{Key: "ready", IsReady: true, ShouldBeReady: true, Version: "1", Active: true,
		ReadySince: now.Add(-time.Minute)}
	newPod := func(change func(*Pod)) Pod {
		p := Pod{Key: "new", ShouldBeReady: true, Version: "2", Active: true}
		change(&p)
		return p
	}
	superseded := Pod{Key: "superseded", IsReady: true, Superseded: true, Version: "0"}
	since := func(p Pod, ready time.Duration) Pod {
		p.ReadySince = now.Add(-ready)
		return p
	}
	for name, tt := range map[string]struct {
		pods     []Pod
		admitted string
		again    time.Duration
	}{
		"a newer version": {[]Pod{readyPod, newPod(func(*Pod) {})}, "ready new", 0},
		"a version that is not active yet": {[]Pod{readyPod, newPod(func(p *Pod) { p.Active = false })}, "ready",
			0},
		"an outdated Pod": {[]Pod{readyPod, newPod(func(p *Pod) { p.Outdated = true })}, "ready",
			0},
		"the same version": {
			[]Pod{readyPod, newPod(func(p *Pod) { p.Version, p.Active = "1", false })}, "ready new", 0},
		"no other Pod is Ready": {[]Pod{newPod(func(p *Pod) { p.Active, p.Outdated = false, true })},
			"new", 0},
		"superseded by a Pod that has just turned Ready": {[]Pod{superseded, since(readyPod, 0)}, "ready",
			SupersedeDelay},
		"superseded by a Pod that turned Ready earlier": {[]Pod{superseded, since(readyPod, SupersedeDelay)},
			"superseded ready", 0},
		"superseded by a Pod that is not Ready yet": {[]Pod{superseded, newPod(func(*Pod) {})}, "superseded new", 0},
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
