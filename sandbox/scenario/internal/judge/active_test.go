package judge

import (
	"time"
)

var activeCases = map[string]checkCase{
	"active: a lossless update": {events: rolling, want: Result{Compared: 2, Handovers: 1}},
	"active: both versions are active for a while": {
		events: script(up, vpod(1000, "p2", "2@a"), installed(1000, "2@a"), vpod(1020, "p1", "1@a", "deleting"),
			removed(1100, "1@a")),
		want: Result{Compared: 1, Handovers: 1, ShortestOverlap: ms(90)},
	},
	"active: the old version is deactivated before the new one is active": {
		events: script(up, vpod(1000, "p2", "2@a"), vpod(1001, "p1", "1@a", "deleting"), removed(1002, "1@a"),
			installed(1200, "2@a")),
		want: Result{Compared: 1, Violations: findings{noActive(1002, 208)}},
	},
	"active: replaced in place": {
		events: script(up, vpod(1000, "p1", "2@a"), removed(1002, "1@a"), installed(1200, "2@a")),
		want:   Result{Compared: 1, Violations: findings{noActive(1002, 208)}},
	},
	"active: never again": {
		events: script(up, removed(1000, "1@a")),
		want:   Result{Compared: 1, Violations: findings{noActive(1000, 59_000).open()}},
	},
	"active: the last Pod was deleted": {
		events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone")),
		want:   Result{Compared: 1},
	},
	"active: scaled down and up again": {
		events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"),
			vpod(4000, "p2", "1@a"), installed(4500, "1@a")),
		want: Result{Compared: 1},
	},
	"active: the last Pod was deleted, and the next version follows": {
		events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"),
			vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p3", "3@a"), installed(4500, "3@a")),
		want: Result{Compared: 1},
	},
	"active: the next Pod was bound after the controller's decision": {
		events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), vpod(2750, "p3", "3@a"),
			removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), installed(3500, "3@a")),
		want: Result{Compared: 1},
	},
	"active: the next Pod was bound before the controller's decision": {
		events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), vpod(2749, "p3", "3@a"),
			removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), installed(3500, "3@a")),
		want: Result{Compared: 1, Violations: findings{noActive(3000, 510)}},
	},
	"active: strategy Recreate": {
		events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"),
			vpod(4000, "p3", "3@a"), installed(4500, "3@a")),
		want: Result{Compared: 1, Violations: findings{noActive(3000, 1510)}},
	},
	"active: a much later Pod is a first installation": {
		events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"),
			vpod(14000, "p3", "3@a"), installed(14500, "3@a")),
		want: Result{Compared: 1},
	},
	"active: a DaemonSet deletes first while other bases are active": {
		events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"),
			vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
			vpod(3020, "p2", "2@a", "owner=DaemonSet/d"), installed(3030, "2@a")),
		want: violated(noActive(3000, 40)),
	},
	"active: a DaemonSet deletes first, and the watch event is late": {
		events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), installed(3030, "2@a"),
			vpod(3050, "p1", "1@a", "owner=DaemonSet/d", "gone"), vpod(3060, "p2", "2@a", "owner=DaemonSet/d")),
		want: violated(noActive(3000, 40)),
	},
	"active: a DaemonSet deletes right after the installation": {
		o: Options{Delay: 300 * time.Millisecond},
		events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(200, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"),
			vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
			vpod(3320, "p2", "2@a", "owner=DaemonSet/d"), installed(3330, "2@a")),
		want: violated(noActive(3000, 340)),
	},
	"active: a DaemonSet deletes while the base is unavailable": {
		events: script(vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			host(1000, "a", "disconnected"),
			vpod(20_000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), host(30_000, "a", "connected"),
			removed(30_300, "1@a"),
			vpod(30_310, "p1", "1@a", "owner=DaemonSet/d", "gone"), vpod(30_320, "p2", "2@a", "owner=DaemonSet/d"),
			installed(30_400, "2@a")),
		want: Result{Compared: 1},
	},
	"active: a Pod of another DaemonSet": {
		events: script(vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"),
			vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
			vpod(3020, "p2", "2@a", "owner=DaemonSet/e"), installed(3030, "2@a")),
		want: Result{Compared: 1},
	},
	"active: a failed Pod": {
		events: script(up, vpod(900, "p1", "1@a", "failed"), removed(1000, "1@a")),
		want:   Result{Compared: 1},
	},
	"active: the base crashes": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			installed(1600, "1@a")),
		want: Result{Compared: 1, Excused: findings{noActive(1000, 610).ended(610)}},
	},
	"active: the base is removed": {
		events: script(up, host(1000, "a", "down"), vpod(2000, "p1", "1@a", "gone")),
		want:   Result{Compared: 1, Excused: findings{noActive(1000, 1000).ended(1000)}},
	},
	"active: a gap that a crash prolongs": {
		events: script(up, removed(1000, "1@a"), host(1100, "a", "down"), host(1500, "a", "up"),
			installed(1600, "1@a")),
		want: Result{Compared: 1, Excused: findings{noActive(1000, 610).ended(510)}},
	},
	"active: the base restarts, and the module is reinstalled": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			biz(20_000, "1@a", "RESOLVED"), biz(50_000, "1@a", "ACTIVATED")),
		want: Result{Compared: 1, Excused: findings{noActive(1000, 49_000).ended(48_000)}},
	},
	"active: the base restarts late, and the module is reinstalled": {
		events: script(up, host(1000, "a", "down"), host(40_000, "a", "up"), host(40_000, "a", "ready"),
			installed(41_000, "1@a")),
		want: Result{Compared: 1, Excused: findings{noActive(1000, 40_010).ended(40_010)}},
	},
	"active: the base restarts, and the module is reinstalled too late": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			biz(20_001, "1@a", "RESOLVED"), biz(50_000, "1@a", "ACTIVATED")),
		want: Result{Compared: 1, Violations: findings{noActive(1000, 49_000).ended(47_999)}},
	},
	"active: the base restarts, and the module is never reinstalled": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready")),
		want:   Result{Compared: 1, Violations: findings{noActive(1000, 59_000).open().ended(18_000)}},
	},
	"active: the base restarts, and a fault affects the install": {
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			fires(2000, "a", "hang")),
		want: Result{Compared: 1, Excused: findings{noActive(1000, 59_000).open().ended(59_000)}},
	},
	"active: the base restarts, and the failed install is not retried": {
		o: Options{InstallTimeout: 30 * time.Second},
		events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"),
			fires(2000, "a", "hang")),
		want: Result{Compared: 1, Violations: findings{noActive(1000, 59_000).open().ended(31_000)}},
	},
	"active: the base restarts with another identity, and no Pod is bound to it": {
		events: script(identity("x", host(0, "a", "up")), onNode("vnode.x", up), host(1000, "a", "down"),
			identity("y", host(1500, "a", "up")), identity("y", host(1500, "a", "ready"))),
		want: excused(noActive(1000, 500).ended(500)),
	},
	"active: the base restarts with another identity, and a Pod is bound to it late": {
		events: script(identity("x", host(0, "a", "up")), onNode("vnode.x", up), host(1000, "a", "down"),
			identity("y", host(1500, "a", "up")), identity("y", host(1500, "a", "ready")),
			onNode("vnode.y", list{vpod(40_000, "p2", "1@a")}), biz(41_000, "1@a", "RESOLVED")),
		want: excused(noActive(1000, 500).ended(500), noActive(40_000, 20_000).open().ended(20_000)),
	},
	"active: the deletion event arrives after the uninstall": {
		o:      Options{Delay: 30 * time.Millisecond},
		events: script(up, removed(1000, "1@a"), vpod(1030, "p1", "1@a", "deleting")),
		want:   Result{Compared: 1},
	},
	"active: the deletion came after the uninstall": {
		o:      Options{Delay: 29 * time.Millisecond},
		events: script(up, removed(1000, "1@a"), vpod(1030, "p1", "1@a", "deleting")),
		want:   violated(noActive(1000, 30)),
	},
	"active: the deletion event is so late that the result is doubtful": {
		o:      Options{Delay: 3 * time.Second},
		events: script(up, removed(1000, "1@a"), vpod(3000, "p1", "1@a", "deleting")),
		want:   Result{Compared: 1, Doubtful: findings{noActive(1000, 2000).late(3000)}},
	},
	"active: the deletion event arrives after the next release": {
		o: Options{Delay: time.Second},
		events: script(vpod(0, "q", "1@b", "ready"), up, removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "deleting"), vpod(2010, "p2", "2@a")),
		want: Result{Compared: 1},
	},
	"active: the next release, and the deletion came after the uninstall": {
		o: Options{Delay: 999 * time.Millisecond},
		events: script(vpod(0, "q", "1@b", "ready"), up, removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "deleting"), vpod(2010, "p2", "2@a")),
		want: violated(noActive(1000, 510)),
	},
	"active: the deletion event arrives after the next release, and another Pod requests the module": {
		o: Options{Delay: 1500 * time.Millisecond},
		events: script(vpod(0, "q", "1@b", "ready"), up, vpod(600, "p2", "2@a"), removed(1000, "1@a"),
			installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "deleting")),
		want: violated(noActive(1000, 510)),
	},
	"active: the deletion event arrives after the next release of a DaemonSet": {
		o: Options{Delay: time.Second},
		events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
			removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(2000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), vpod(2010, "p2", "2@a", "owner=DaemonSet/d")),
		want: violated(noActive(1000, 510)),
	},
	"active: the event of the next Pod is so late that the result is doubtful": {
		o: Options{Delay: 3 * time.Second},
		events: script(vpod(0, "q", "1@b", "ready"), up, removed(1000, "1@a"), installed(1500, "2@a"),
			vpod(3000, "p1", "1@a", "deleting")),
		want: Result{Compared: 1, Doubtful: findings{noActive(1000, 510).late(3000)}},
	},
	"active: a Pod whose Node was unknown at the uninstall": {
		events: script(vpod(0, "q", "1@b", "ready"), up, vpod(900, "p1", "1@a", "deleting"),
			apiFaultEvent(950, "cutWatch", "fired"),
			vpod(1000, "p2", "2@a"), removed(1400, "1@a"), installed(1800, "2@a")),
		want: Result{Compared: 1},
	},
	"active: a Pod whose Node was known at the uninstall": {
		events: script(vpod(0, "q", "1@b", "ready"), up, vpod(900, "p1", "1@a", "deleting"),
			vpod(1000, "p2", "2@a"), removed(1400, "1@a"), installed(1800, "2@a")),
		want: violated(noActive(1400, 410)),
	},
	"active: a Pod whose Node was known before a fault of the API connection": {
		events: script(vpod(0, "q", "1@b", "ready"), up, vpod(900, "p1", "1@a", "deleting"),
			vpod(1000, "p2", "2@a"), apiFaultEvent(1300, "cutWatch", "fired"), removed(1400, "1@a"), installed(1800,
				"2@a")),
		want: violated(noActive(1400, 410)),
	},
	"active: a base without modules": {events: script(host(0, "a", "up")), want: Result{}},
}
