package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

func TestChecks(t *testing.T) {
	type want struct {
		compared            int
		violations, excused []string
		summary             string
	}
	three := 3
	up := script(host(0, "a", "up"), host(1, "a", "ready"), vpod(10, "p1", "1@a"), installed(20, "1@a"), vpod(40, "p1", "1@a", "ready"))
	for name, c := range map[string]struct {
		check  string
		o      Options
		events list
		want   want
	}{
		// activeVersion
		"active: a lossless update": {
			check: ActiveVersion, events: rolling,
			want: want{2, nil, nil, "2 modules on bases, 1 handover, shortest overlap 0s, no gap"},
		},
		"active: both versions for a while": {
			check: ActiveVersion, events: script(up, vpod(1000, "p2", "2@a"), installed(1000, "2@a"), vpod(1020, "p1", "1@a", "deleting"), removed(1100, "1@a")),
			want: want{1, nil, nil, "1 module on bases, 1 handover, shortest overlap 90ms, no gap"},
		},
		"active: the old one goes before the new one comes": {
			check: ActiveVersion, events: script(up, vpod(1000, "p2", "2@a"), vpod(1001, "p1", "1@a", "deleting"), removed(1002, "1@a"), installed(1200, "2@a")),
			want: want{1, []string{"1.002s a: a has no active version of biz for 208ms"}, nil, "1 module on bases, 1 gap, the longest 208ms"},
		},
		"active: replaced in place": {
			check: ActiveVersion, events: script(up, vpod(1000, "p1", "2@a"), removed(1002, "1@a"), installed(1200, "2@a")),
			want: want{1, []string{"1.002s a: a has no active version of biz for 208ms"}, nil, "1 module on bases, 1 gap, the longest 208ms"},
		},
		"active: never again": {
			check: ActiveVersion, events: script(up, removed(1000, "1@a")),
			want: want{1, []string{"1s a: a has no active version of biz for 59s, until the end"}, nil, "1 module on bases, 1 gap, the longest 59s"},
		},
		"active: the last Pod was deleted": {
			check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone")),
			want: want{1, nil, nil, "1 module on bases, no gap"},
		},
		"active: scaled down and up again": {
			check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p2", "1@a"), installed(4500, "1@a")),
			want: want{1, nil, nil, "1 module on bases, no gap"},
		},
		"active: a base that others made superfluous gets the next version": {
			check: ActiveVersion, events: script(up, vpod(900, "q", "2@b", "ready"), vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p3", "3@a"), installed(4500, "3@a")),
			want: want{1, nil, nil, "1 module on bases, no gap"},
		},
		"active: Recreate deletes all and then creates": {
			check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(4000, "p3", "3@a"), installed(4500, "3@a")),
			want: want{1, []string{"3s a: a has no active version of biz for 1.51s"}, nil, "1 module on bases, 1 gap, the longest 1.51s"},
		},
		"active: the same after a long time is a first installation": {
			check: ActiveVersion, events: script(up, vpod(1000, "p1", "1@a", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "gone"), vpod(14000, "p3", "3@a"), installed(14500, "3@a")),
			want: want{1, nil, nil, "1 module on bases, no gap"},
		},
		"active: a DaemonSet deletes first, while others serve": {
			check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
				vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
				vpod(3020, "p2", "2@a", "owner=DaemonSet/d"), installed(3030, "2@a")),
			want: want{1, []string{"3s a: a has no active version of biz for 40ms"}, nil, "1 module on bases, 1 gap, the longest 40ms"},
		},
		"active: the same, and the watch tells of it later": {
			check: ActiveVersion, events: script(vpod(0, "q", "1@b", "ready"), vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
				vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), installed(3030, "2@a"),
				vpod(3050, "p1", "1@a", "owner=DaemonSet/d", "gone"), vpod(3060, "p2", "2@a", "owner=DaemonSet/d")),
			want: want{1, []string{"3s a: a has no active version of biz for 40ms"}, nil, "1 module on bases, 1 gap, the longest 40ms"},
		},
		"active: another DaemonSet is no replacement": {
			check: ActiveVersion, events: script(vpod(10, "p1", "1@a", "owner=DaemonSet/d"), installed(20, "1@a"),
				vpod(1000, "p1", "1@a", "owner=DaemonSet/d", "deleting"), removed(3000, "1@a"), vpod(3010, "p1", "1@a", "owner=DaemonSet/d", "gone"),
				vpod(3020, "p2", "2@a", "owner=DaemonSet/e"), installed(3030, "2@a")),
			want: want{1, nil, nil, "1 module on bases, no gap"},
		},
		"active: a Pod that has failed wants nothing": {
			check: ActiveVersion, events: script(up, vpod(900, "p1", "1@a", "failed"), removed(1000, "1@a")),
			want: want{1, nil, nil, "1 module on bases, no gap"},
		},
		"active: the base crashes": {
			check: ActiveVersion, events: script(up, host(1000, "a", "down"), host(1500, "a", "up"), host(1500, "a", "ready"), installed(1600, "1@a")),
			want: want{1, nil, []string{"1s a: a has no active version of biz for 610ms, since its process ended"},
				"1 module on bases, no gap; 1 more where a process ended, the longest 610ms"},
		},
		"active: the base is removed": {
			check: ActiveVersion, events: script(up, host(1000, "a", "down"), vpod(2000, "p1", "1@a", "gone")),
			want: want{1, nil, []string{"1s a: a has no active version of biz for 1s, since its process ended"},
				"1 module on bases, no gap; 1 more where a process ended, the longest 1s"},
		},
		"active: a gap that a crash prolongs is not the rollout's": {
			check: ActiveVersion, events: script(up, removed(1000, "1@a"), host(1100, "a", "down"), host(1500, "a", "up"), installed(1600, "1@a")),
			want: want{1, nil, []string{"1s a: a has no active version of biz for 610ms, since its process ended"},
				"1 module on bases, no gap; 1 more where a process ended, the longest 610ms"},
		},
		"active: nothing served": {check: ActiveVersion, events: script(host(0, "a", "up")), want: want{0, nil, nil, "0 modules on bases, no gap"}},

		// truth
		"truth: a lossless update": {
			check: Truth, events: rolling,
			want: want{6, nil, []string{
				"1.02s a p1: Pod p1 is Ready, and a has no active biz:1 for 10ms, where another version serves",
				"1.02s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 20ms, where another version serves",
			}, "6 times something became Ready, 2 disagreements with the base, the longest 20ms"},
		},
		"truth: Ready too early, and a request is lost": {
			check: Truth, events: script(vpod(10, "p1", "1@a", "ready"), lost(15, "a"), lost(15, "b"), installed(20, "1@a")),
			want: want{1, []string{"10ms a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms, in which 1 request was lost"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 20ms"},
		},
		"truth: Ready too long": {
			check: Truth, events: script(up, removed(1000, "1@a"), vpod(2001, "p1", "1@a")),
			want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.001s"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 1.001s"},
		},
		"truth: Ready as long as is allowed": {
			check: Truth, events: script(up, removed(1000, "1@a"), vpod(2000, "p1", "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1s"},
				"1 time something became Ready, 1 disagreement with the base, the longest 1s"},
		},
		"truth: the endpoint stays ready": {
			check: Truth, events: script(up, endpoints(50, "p1@a"), removed(1000, "1@a"), vpod(1010, "p1", "1@a")),
			want: want{2, []string{"1s a p1: the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 59s"},
				[]string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 10ms"},
				"2 times something became Ready, 2 disagreements with the base, the longest 59s"},
		},
		"truth: a Pod that is being deleted is in no Service": {
			check: Truth, events: script(up, vpod(900, "p1", "1@a", "ready", "deleting"), removed(1000, "1@a")),
			want: want{1, nil, nil, "1 time something became Ready, always true"},
		},
		"truth: the base crashes": {
			check: Truth, events: script(up, host(1000, "a", "down"), lost(2000, "a"), vpod(26000, "p1", "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 25s, in which 1 request was lost, since its process ended"},
				"1 time something became Ready, always true; where a process ended, up to 25s"},
		},
		"truth: a request that was under way": {
			check: Truth, events: script(up, removed(1000, "1@a"), vpod(1020, "p1", "1@a"),
				timeline.Event{Time: at(1500), Kind: timeline.Request, Base: "a", Elapsed: 490 * time.Millisecond}),
			want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms, in which 1 request was lost"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 20ms"},
		},
		"truth: a request from afterwards": {
			check: Truth, events: script(up, removed(1000, "1@a"), vpod(1020, "p1", "1@a"),
				timeline.Event{Time: at(1500), Kind: timeline.Request, Base: "a", Elapsed: 470 * time.Millisecond}),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 20ms"},
				"1 time something became Ready, 1 disagreement with the base, the longest 20ms"},
		},
		"truth: the base crashes while it disagrees": {
			check: Truth, events: script(up, removed(1000, "1@a"), host(1010, "a", "down"), vpod(26000, "p1", "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 25s, since its process ended"},
				"1 time something became Ready, always true; where a process ended, up to 25s"},
		},
		"truth: an endpoint that is not ready says nothing": {
			check: Truth, events: script(vpod(10, "p1", "1@a"), timeline.Event{Time: at(20), Kind: timeline.Endpoints, Name: "svc",
				Endpoints: []timeline.Endpoint{{Pod: "p1", Base: "a", Serving: true, Terminating: true}}}),
			want: want{0, nil, nil, "0 times something became Ready, always true"},
		},
		"truth: Ready long after a switch": {
			check: Truth, events: script(up, swap(1000, "a"), vpod(6000, "p1", "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 5s, where another version serves"},
				"1 time something became Ready, 1 disagreement with the base, the longest 5s"},
		},
		"truth: Ready too long after a switch": {
			check: Truth, events: script(up, swap(1000, "a"), vpod(6001, "p1", "1@a")),
			want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 5.001s, where another version serves"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 5.001s"},
		},
		"truth: after a while no version serves": {
			check: Truth, events: script(up, swap(1000, "a"), removed(1500, "2@a"), vpod(2501, "p1", "1@a")),
			want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.501s"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 1.501s"},
		},
		"truth: the controller is away": {
			check: Truth, events: script(up, component(500, "module-controller", "exited"), removed(1000, "1@a"), component(3000, "module-controller", "running"), vpod(53_500, "p1", "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 52.5s, 52s of it while something was away"},
				"1 time something became Ready, 1 disagreement with the base, the longest 52.5s"},
		},
		"truth: the controller was away, and takes too long": {
			check: Truth, events: script(up, component(500, "module-controller", "exited"), removed(1000, "1@a"), component(3000, "module-controller", "running"), vpod(54_500, "p1", "1@a")),
			want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 53.5s, 52s of it while something was away"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 53.5s"},
		},
		"truth: another base is disconnected": {
			check: Truth, events: script(up, host(500, "b", "disconnected"), removed(1000, "1@a"), vpod(2500, "p1", "1@a")),
			want: want{1, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 1.5s"}, nil,
				"1 time something became Ready, 1 disagreement with the base, the longest 1.5s"},
		},
		"truth: the base is disconnected twice": {
			check: Truth, events: script(up, removed(1000, "1@a"), host(1100, "a", "disconnected"), host(1200, "a", "connected"), host(2000, "a", "disconnected"), host(3000, "a", "connected"), vpod(23_800, "p1", "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 22.8s, 21.9s of it while something was away"},
				"1 time something became Ready, 1 disagreement with the base, the longest 22.8s"},
		},
		"truth: the broker never returns": {
			check: Truth, events: script(up, component(500, "broker", "exited"), removed(1000, "1@a")),
			want: want{1, nil, []string{"1s a p1: Pod p1 is Ready, and a has no active biz:1 for 59s, 59s of it while something was away"},
				"1 time something became Ready, 1 disagreement with the base, the longest 59s"},
		},
		"truth: a version that the Pod does not name": {
			check: Truth, events: script(installed(20, "1@a"), vpod(40, "p1", "@a", "ready")),
			want: want{1, nil, nil, "1 time something became Ready, always true"},
		},

		// order
		"order: a lossless update": {check: Order, events: rolling, want: want{1, nil, nil, "1 handover"}},
		"order: the new one first": {
			check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
			want: want{1, []string{"1.01s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order"},
		},
		"order: the new one first, but the old one is the only one": {
			check: Order, events: script(up, vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
			want: want{1, nil, nil, "1 handover, 1 of the only Ready Pod of a module"},
		},
		"order: the only one when the controller decided": {
			check: Order, events: script(up, vpod(1000, "p2", "2@a"), vpod(1009, "q1", "2@b", "ready"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
			want: want{1, nil, nil, "1 handover, 1 of the only Ready Pod of a module"},
		},
		"order: the old one is being deleted": {
			check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1005, "p1", "1@a", "ready", "deleting"), vpod(1010, "p2", "2@a", "ready")),
			want: want{1, nil, nil, "1 handover"},
		},
		"order: one version on two Pods": {
			check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "1@a"), vpod(1010, "p2", "1@a", "ready")),
			want: want{0, nil, nil, "0 handovers"},
		},
		"order: the old one has never been Ready": {
			check: Order, events: script(vpod(40, "p1", "1@a"), vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready")),
			want: want{0, nil, nil, "0 handovers"},
		},
		"order: the old one belongs to a process that has ended": {
			check: Order, events: script(onNode("n1", up), vpod(50, "q1", "1@b", "ready"), onNode("n2", list{vpod(1000, "p2", "2@a", "ready")})),
			want: want{0, nil, nil, "0 handovers"},
		},
		"order: the old one comes back": {
			check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(900, "p2", "2@a"), vpod(1000, "p2", "2@a", "ready"), vpod(1001, "p1", "1@a"), vpod(2000, "p1", "1@a", "ready")),
			want: want{1, []string{"1s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order"},
		},

		// installedOnce
		"installed: an update": {check: InstalledOnce, events: rolling, want: want{3, nil, nil, "3 installations, none twice"}},
		"installed: a second command": {
			check: InstalledOnce, events: script(up, command(1000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
			want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: Arklet.RepeatBiz"}, nil, "1 installation, 1 repeated"},
		},
		"installed: the command's clock is a little ahead": {
			check: InstalledOnce, events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "ACTIVATED"), command(31, "1@a", "installBiz", "", 10*time.Millisecond)),
			want: want{1, nil, nil, "1 installation, none twice"},
		},
		"installed: a second command that succeeds": {
			check: InstalledOnce, events: script(up, command(1000, "1@a", "installBiz", "", time.Millisecond)),
			want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated"},
		},
		"installed: after an uninstall": {
			check: InstalledOnce, events: script(up, removed(500, "1@a"), installed(1000, "1@a")),
			want: want{2, nil, nil, "2 installations, none twice"},
		},
		"installed: after a failure": {
			check: InstalledOnce, events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "BROKEN"), command(31, "1@a", "installBiz", "x", 15*time.Millisecond),
				command(60, "1@a", "installBiz", "x", time.Millisecond), biz(70, "1@a", "STOPPED"), installed(100, "1@a")),
			want: want{2, nil, nil, "2 installations, none twice"},
		},
		"installed: after a restart": {
			check: InstalledOnce, events: script(up, host(500, "a", "down"), host(1000, "a", "up"), installed(1100, "1@a")),
			want: want{2, nil, nil, "2 installations, none twice"},
		},
		"installed: resolved twice": {
			check: InstalledOnce, events: script(up, biz(1000, "1@a", "RESOLVED")),
			want: want{2, []string{"1s a: biz:1 was resolved again after 980ms"}, nil, "2 installations, 1 repeated"},
		},
		"installed: the broker went in between": {
			check: InstalledOnce, events: script(up, component(500, "broker", "exited"),
				command(1000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
			want: want{1, nil, []string{"999ms a: biz:1 was installed again after 979ms, and answered: Arklet.RepeatBiz (the first answer may have been lost)"},
				"1 installation, none twice; 1 more repeated after a disturbance"},
		},
		"installed: the end of a fault is no excuse": {
			check: InstalledOnce, events: script(up, timeline.Event{Time: at(500), Kind: timeline.Fault, Base: "a", Name: "f", State: "cleared"},
				command(1000, "1@a", "installBiz", "", time.Millisecond)),
			want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated"},
		},
		"installed: a fault of another base is no excuse": {
			check: InstalledOnce, events: script(up, timeline.Event{Time: at(500), Kind: timeline.Fault, Base: "b", Name: "f", State: "fired"},
				command(1000, "1@a", "installBiz", "", time.Millisecond)),
			want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated"},
		},

		// nothingLeft
		"left: an update": {check: NothingLeft, events: rolling, want: want{2, nil, nil, "2 bases, nothing left"}},
		"left: the old version": {
			check: NothingLeft, events: rolling[:len(rolling)-2],
			want: want{2, nil, nil, "2 bases, nothing left"}, // its Pod is still being deleted
		},
		"left: the old version without its Pod": {
			check: NothingLeft, events: append(slices.Clone(rolling[:len(rolling)-2]), rolling[len(rolling)-1]),
			want: want{2, []string{"20ms a: biz:1 is left on a, DEACTIVATED, and no Pod there wants it"}, nil, "2 bases, 1 module left"},
		},
		"left: the base's own module": {
			check: NothingLeft, events: script(host(0, "a", "up"), installed(5, "9@a"), host(20, "a", "ready")),
			want: want{1, nil, nil, "1 base, nothing left"},
		},
		"left: a module from before the run": {
			check: NothingLeft, events: script(host(0, "a", "up"), host(0, "a", "ready"), biz(0, "9@a", "ACTIVATED"), timeline.Event{Time: at(1), Kind: timeline.Synced}, installed(5, "8@a")),
			want: want{1, []string{"5ms a: biz:8 is left on a, ACTIVATED, and no Pod there wants it"}, nil, "1 base, 1 module left"},
		},
		"left: a base that is gone": {check: NothingLeft, events: script(up, host(50, "a", "down"), vpod(60, "p1", "1@a", "gone")), want: want{0, nil, nil, "0 bases, nothing left"}},

		// maxPodWrites
		"writes: reported": {check: MaxPodWrites, events: writes(5, 2), want: want{2, nil, nil, "2 Pods, written at most 5 times each, 3.5 on average"}},
		"writes: too many": {
			check: MaxPodWrites, o: Options{MaxPodWrites: &three}, events: writes(5, 3),
			want: want{2, []string{"0s a p0: Pod p0 was written 5 times; at most 3 were allowed"}, nil, "2 Pods, written at most 5 times each, 4.0 on average"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := judged(c.check, c.o, c.events)
			got := want{r.Compared, told(r.Violations), told(r.Excused), r.Summary}
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(want{}), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func writes(counts ...int) (out list) {
	for i, n := range counts {
		for w := 1; w <= n; w++ {
			e := vpod(10*w, fmt.Sprint("p", i), "1@a")
			e.Pod.Writes, e.Pod.Created = w, zero
			out = append(out, e)
		}
	}
	return out
}

// told writes violations as a line each.
func told(all []Violation) []string {
	var out []string
	for _, v := range all {
		out = append(out, fmt.Sprintf("%v %s: %s", v.Time.Sub(zero), strings.TrimSpace(v.Base+" "+v.Pod), v.Message))
	}
	return out
}

func TestFigures(t *testing.T) {
	want := map[string]map[string]float64{
		ActiveVersion: {"handovers": 1, "shortestOverlap": 0, "longestGap": 0},
		Truth:         {"disagreements": 2, "longest": 20},
		Order:         {"handovers": 1, "exempt": 0},
		InstalledOnce: {"installs": 3, "repeated": 0},
		NothingLeft:   {"left": 0},
		MaxPodWrites:  {"max": 1, "mean": 1},
	}
	got := map[string]map[string]float64{}
	for name := range want {
		got[name] = judged(name, Options{}, rolling).Figures
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("figures (-want +got):\n%s", d)
	}
}

// Results may be asked for at any time and change nothing.
func TestResultsInBetween(t *testing.T) {
	events := script(rolling, removed(5000, "2@a"), installed(5100, "2@a"))
	j := New(Options{})
	for i, e := range events {
		j.Observe(e)
		if i%7 == 0 {
			j.Results(e.Time)
		}
	}
	once := New(Options{})
	for _, e := range events {
		once.Observe(e)
	}
	if d := cmp.Diff(once.Results(at(9000)), j.Results(at(9000))); d != "" {
		t.Errorf("asked once (-) and often (+):\n%s", d)
	}
}

// What happens on one base has nothing to do with when the events of another one
// come, as long as each keeps its order and comes within the window.
func TestOtherBasesDoNotMatter(t *testing.T) {
	states := []string{"RESOLVED", "ACTIVATED", "DEACTIVATED", "BROKEN", "STOPPED"}
	rapid.Check(t, func(t *rapid.T) {
		histories := make([]list, 3)
		for i := range histories {
			name, bizName := fmt.Sprint("base-", i), fmt.Sprint("biz", i)
			histories[i] = list{host(0, name, "up"), host(0, name, "ready")}
			ms := 0
			for range rapid.IntRange(1, 25).Draw(t, "events") {
				ms += rapid.IntRange(0, 400).Draw(t, "pause")
				version := fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "version"))
				var e timeline.Event
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0, 1:
					e = biz(ms, version+"@"+name, rapid.SampledFrom(states).Draw(t, "state"))
					e.Module = bizName
				case 2, 3:
					e = vpod(ms, fmt.Sprint("pod", i, "-", version), version+"@"+name,
						rapid.SliceOf(rapid.SampledFrom([]string{"ready", "deleting", "gone", "failed"})).Draw(t, "flags")...)
					e.Pod.Modules[0].Name = bizName
				case 4:
					e = host(ms, name, rapid.SampledFrom([]string{"up", "ready", "down"}).Draw(t, "state"))
				}
				histories[i] = append(histories[i], e)
			}
		}
		results := func(label string) []Result {
			j := New(Options{Window: time.Hour})
			left := [][]timeline.Event{histories[0], histories[1], histories[2]}
			for {
				var open []int
				for i, l := range left {
					if len(l) > 0 {
						open = append(open, i)
					}
				}
				if len(open) == 0 {
					return j.Results(at(60_000))
				}
				i := rapid.SampledFrom(open).Draw(t, label)
				j.Observe(left[i][0])
				left[i] = left[i][1:]
			}
		}
		if d := cmp.Diff(results("first"), results("second")); d != "" {
			t.Errorf("one way (-) and another (+):\n%s", d)
		}
	})
}

// Events that come late, but within the window, are put where they belong.
func TestLateEvents(t *testing.T) {
	// The base's change comes 40 ms after the Pod that follows from it.
	events := script(vpod(10, "p1", "1@a"), vpod(40, "p1", "1@a", "ready"), installed(20, "1@a"))
	if got := judged(Truth, Options{}, events); got.Figures["disagreements"] != 0 || got.Compared != 1 {
		t.Errorf("%+v", got)
	}
	slow := script(vpod(10, "p1", "1@a"), vpod(40, "p1", "1@a", "ready"), host(5000, "b", "up"), host(9000, "b", "up"), installed(20, "1@a"))
	if got := judged(Truth, Options{}, slow); got.Figures["disagreements"] != 1 {
		t.Errorf("beyond the window: %+v", got)
	}
}
