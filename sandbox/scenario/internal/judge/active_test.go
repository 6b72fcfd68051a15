package judge

import (
	"time"
)

var activeCases = map[string]checkCase{
	"active: a lossless update": {
		check: ActiveVersion, events: rolling,
		want: want{2, nil, nil, "2 modules on bases, 1 handover, shortest overlap 0s, no gap", nil},
	},
	"active: both versions for a while": {
		check: ActiveVersion, events: script(up, vpod(1000, "p2", "2@a"), installed(1000, "2@a"), vpod(1020, "p1", "1@a", "deleting"), removed(1100, "1@a")),
		want: want{1, nil, nil, "1 module on bases, 1 handover, shortest overlap 90ms, no gap", nil},
	},
	"active: the old one goes before the new one comes": {
		check: ActiveVersion, events: script(up, vpod(1000, "p2", "2@a"), vpod(1001, "p1", "1@a", "deleting"), removed(1002, "1@a"), installed(1200, "2@a")),
		want: want{1, []string{"1.002s a: a has no active version of biz for 208ms"}, nil, "1 module on bases, 1 gap, the longest 208ms", nil},
	},
	"active: replaced in place": {
		check: ActiveVersion, events: script(up, vpod(1000, "p1", "2@a"), removed(1002, "1@a"), installed(1200, "2@a")),
		want: want{1, []string{"1.002s a: a has no active version of biz for 208ms"}, nil, "1 module on bases, 1 gap, the longest 208ms", nil},
	},
	"active: never again": {
		check: ActiveVersion, events: script(up, removed(1000, "1@a")),
		want: want{1, []string{"1s a: a has no active version of biz for 59s, until the end"}, nil, "1 module on bases, 1 gap, the longest 59s", nil},
	},
	"active: the last Pod was deleted": {
		check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: scaled down and up again": {
		check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p2", "1@a"), installed(4500, "1@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: a base that others made superfluous gets the next version": {
		check: ActiveVersion, events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p3", "3@a"), installed(4500, "3@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: the same, and it got its Node when the controller had decided": {
		check: ActiveVersion, events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), vpod(2750, "p3", "3@a"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), installed(3500, "3@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: the same, and the controller could know": {
		check: ActiveVersion, events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), vpod(2749, "p3", "3@a"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), installed(3500, "3@a")),
		want: want{1, []string{"3s a: a has no active version of biz for 510ms"}, nil, "1 module on bases, 1 gap, the longest 510ms", nil},
	},
	"active: Recreate deletes all and then creates": {
		check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p3", "3@a"), installed(4500, "3@a")),
		want: want{1, []string{"3s a: a has no active version of biz for 1.51s"}, nil, "1 module on bases, 1 gap, the longest 1.51s", nil},
	},
	"active: the same after a long time is a first installation": {
		check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(14000, "p3", "3@a"), installed(14500, "3@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: a DaemonSet deletes first, while others serve": {
		check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
			vpod(3020, "p2", "2@a", "owner=DaemonSet/d"), installed(3030, "2@a")),
		want: want{1, []string{"3s a: a has no active version of biz for 40ms"}, nil, "1 module on bases, 1 gap, the longest 40ms", nil},
	},
	"active: the same, and the watch tells of it later": {
		check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), installed(3030, "2@a"),
			vpod(3050, "p1", "1@a", "owner=DaemonSet/d", "gone"), vpod(3060, "p2", "2@a", "owner=DaemonSet/d")),
		want: want{1, []string{"3s a: a has no active version of biz for 40ms"}, nil, "1 module on bases, 1 gap, the longest 40ms", nil},
	},
	"active: a DaemonSet deletes while the base is away, and is later than that": {
		check: ActiveVersion, events: script(vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"), host(1000, "a", "disconnected"),
			vpod(20_000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), host(30_000, "a", "connected"), removed(30_300, "1@a"),
			vpod(30_310, "p1", "1@a", "owner=DaemonSet/d", "gone"), vpod(30_320, "p2", "2@a", "owner=DaemonSet/d"), installed(30_400, "2@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: another DaemonSet is no replacement": {
		check: ActiveVersion, events: script(vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
			vpod(3020, "p2", "2@a", "owner=DaemonSet/e"), installed(3030, "2@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: a Pod that has failed wants nothing": {
		check: ActiveVersion, events: script(up, vpod(900, "p1", "1@a", "failed"), removed(1000, "1@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: the base crashes": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), installed(1600, "1@a")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 610ms, since its process ended, 610ms of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 610ms", nil},
	},
	"active: the base is removed": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), vpod(2000, "p1", "1@a", "gone")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 1s, since its process ended, 1s of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 1s", nil},
	},
	"active: a gap that a crash prolongs is not the rollout's": {
		check: ActiveVersion, events: script(up, removed(1000, "1@a"), host(1100, "a", "down"), host(1500, "a", "up"), installed(1600, "1@a")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 610ms, since its process ended, 510ms of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 610ms", nil},
	},
	"active: the base is back, and its module is installed again": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), biz(20_000, "1@a", "RESOLVED"), biz(50_000, "1@a", "ACTIVATED")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 49s, since its process ended, 48s of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 49s", nil},
	},
	"active: the base is back late, and its module is installed again": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(40_000, "a", "up"), host(40_000, "a", "ready"), installed(41_000, "1@a")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 40.01s, since its process ended, 40.01s of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 40.01s", nil},
	},
	"active: the base is back, and nobody installs its module in time": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), biz(20_001, "1@a", "RESOLVED"), biz(50_000, "1@a", "ACTIVATED")),
		want: want{1, []string{"1s a: a has no active version of biz for 49s, since its process ended, 47.999s of it during an outage or an installation"}, nil,
			"1 module on bases, 1 gap, the longest 49s", nil},
	},
	"active: the base is back, and nobody ever installs its module": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready")),
		want: want{1, []string{"1s a: a has no active version of biz for 59s, until the end, since its process ended, 18s of it during an outage or an installation"}, nil,
			"1 module on bases, 1 gap, the longest 59s", nil},
	},
	"active: the base is back, and a fault takes what installs its module": {
		check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), fires(2000, "a", "hang")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 59s, until the end, since its process ended, 59s of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 59s", nil},
	},
	"active: the base is back, and its install is never tried again": {
		check: ActiveVersion, o: Options{InstallWithin: 30 * time.Second},
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), fires(2000, "a", "hang")),
		want: want{1, []string{"1s a: a has no active version of biz for 59s, until the end, since its process ended, 31s of it during an outage or an installation"}, nil,
			"1 module on bases, 1 gap, the longest 59s", nil},
	},
	"active: the base is back as another one, which no Pod is bound to": {
		check: ActiveVersion, events: script(identity("x", host(0, "a", "up")), onNode("vnode.x", up), host(1000, "a", "down"),
			identity("y", host(1500, "a", "up")), identity("y", host(1500, "a", "ready"))),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 500ms, since its process ended, 500ms of it during an outage or an installation"},
			"1 module on bases, no gap; 1 more where a process ended, the longest 500ms", nil},
	},
	"active: the base is back as another one, which a Pod is bound to late": {
		check: ActiveVersion, events: script(identity("x", host(0, "a", "up")), onNode("vnode.x", up), host(1000, "a", "down"),
			identity("y", host(1500, "a", "up")), identity("y", host(1500, "a", "ready")), onNode("vnode.y", list{vpod(40_000, "p2", "1@a")}), biz(41_000, "1@a", "RESOLVED")),
		want: want{1, nil, []string{"1s a: a has no active version of biz for 500ms, since its process ended, 500ms of it during an outage or an installation",
			"40s a: a has no active version of biz for 20s, until the end, since its process ended, 20s of it during an outage or an installation"},
			"1 module on bases, no gap; 2 more where a process ended, the longest 20s", nil},
	},
	"active: the watch tells of the deletion after the base has done it": {
		check: ActiveVersion, o: Options{Delay: 30 * time.Millisecond}, events: script(up, removed(1000, "1@a"), vpod(1030, "p1", "1@a", "deleting")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: the deletion did come after the uninstall": {
		check: ActiveVersion, o: Options{Delay: 29 * time.Millisecond}, events: script(up, removed(1000, "1@a"), vpod(1030, "p1", "1@a", "deleting")),
		want: want{1, []string{"1s a: a has no active version of biz for 30ms"}, nil, "1 module on bases, 1 gap, the longest 30ms", nil},
	},
	"active: the watch is so late that nobody knows": {
		check: ActiveVersion, o: Options{Delay: 3 * time.Second}, events: script(up, removed(1000, "1@a"), vpod(3000, "p1", "1@a", "deleting")),
		want: want{1, nil, nil, "1 module on bases, no gap",
			[]string{"1s a: a has no active version of biz for 2s; events were up to 3s late, and with their earliest times it is no violation"}},
	},
	"active: the watch tells of the deletion after the next release is there": {
		check: ActiveVersion, o: Options{Delay: time.Second}, events: script(vpod(0, "q", "1@b", "ready"), up, removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "deleting"), vpod(2010, "p2", "2@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: the same, and the deletion did come after the uninstall": {
		check: ActiveVersion, o: Options{Delay: 999 * time.Millisecond}, events: script(vpod(0, "q", "1@b", "ready"), up, removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "deleting"), vpod(2010, "p2", "2@a")),
		want: want{1, []string{"1s a: a has no active version of biz for 510ms"}, nil, "1 module on bases, 1 gap, the longest 510ms", nil},
	},
	"active: the same, and another Pod wants it": {
		check: ActiveVersion, o: Options{Delay: 1500 * time.Millisecond}, events: script(vpod(0, "q", "1@b", "ready"), up, vpod(600, "p2", "2@a"), removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "deleting")),
		want: want{1, []string{"1s a: a has no active version of biz for 510ms"}, nil, "1 module on bases, 1 gap, the longest 510ms", nil},
	},
	"active: the same of a DaemonSet, which deletes first": {
		check: ActiveVersion, o: Options{Delay: time.Second}, events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), vpod(2010, "p2", "2@a", "owner=DaemonSet/d")),
		want: want{1, []string{"1s a: a has no active version of biz for 510ms"}, nil, "1 module on bases, 1 gap, the longest 510ms", nil},
	},
	"active: the watch tells of it so late that nobody knows": {
		check: ActiveVersion, o: Options{Delay: 3 * time.Second}, events: script(vpod(0, "q", "1@b", "ready"), up, removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(3000, "p1", "1@a", "deleting")),
		want: want{1, nil, nil, "1 module on bases, no gap",
			[]string{"1s a: a has no active version of biz for 510ms; events were up to 3s late, and with their earliest times it is no violation"}},
	},
	"active: a Pod comes whose Node nobody could know when the base was emptied": {
		check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), up, vpod(900, "p1", "1@a", "deleting"), rule(950, "cutWatch", "fired"),
			vpod(1000, "p2", "2@a"), removed(1400, "1@a"), installed(1800, "2@a")),
		want: want{1, nil, nil, "1 module on bases, no gap", nil},
	},
	"active: a Pod comes whose Node was known when the base was emptied": {
		check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), up, vpod(900, "p1", "1@a", "deleting"),
			vpod(1000, "p2", "2@a"), removed(1400, "1@a"), installed(1800, "2@a")),
		want: want{1, []string{"1.4s a: a has no active version of biz for 410ms"}, nil, "1 module on bases, 1 gap, the longest 410ms", nil},
	},
	"active: the same, and the view of the API was disturbed later": {
		check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), up, vpod(900, "p1", "1@a", "deleting"),
			vpod(1000, "p2", "2@a"), rule(1300, "cutWatch", "fired"), removed(1400, "1@a"), installed(1800, "2@a")),
		want: want{1, []string{"1.4s a: a has no active version of biz for 410ms"}, nil, "1 module on bases, 1 gap, the longest 410ms", nil},
	},
	"active: nothing served": {check: ActiveVersion, events: script(host(0, "a", "up")), want: want{0, nil, nil, "0 modules on bases, no gap", nil}},
}
