package judge

import (
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// The tables of the checks compare fields. Only this test compares the sentences.
func TestSentences(t *testing.T) {
	few := Finding{Count: 5, Limit: 3, Pod: "p1", Modules: version("1"), Command: "installBiz"}
	writes, commands := few, few
	writes.Kind, commands.Kind = TooManyWrites, TooManyCommands
	for _, c := range []struct{ got, want string }{
		{noActive(0, 2000).open().ended(1500).String(),
			"a has no active version of biz for 2s, until the end, since its process ended, 1.5s of it during an " +
				"outage or an installation"},
		{ready(0, 2000).replaced().failed(2).late(3000).String(),
			"Pod p1 is Ready, and a has no active biz:1 for 2s, where another version serves, in which 2 " +
				"requests failed; " +
				"events were up to 3s late, and with their earliest times it is no violation"},
		{endpoint(0, 2000).known(500).allowed(1500).String(),
			"the endpoint of Pod p1 in Service svc is ready, and a has no active biz:1 for 2s (the controller could " +
				"know within 500ms), 1.5s of it during an outage"},
		{early(0, 10).String(),
			"Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"},
		{again(InstalledAgain, 0, 10, "").lost().String(),
			"biz:1 was installed again after 10ms, and answered: success (the first answer may have been lost)"},
		{again(ResolvedAgain, 0, 10, "").String(), "biz:1 was resolved again after 10ms"},
		{left(0, "1", events.ModuleActivated, "ns/p").String(),
			"biz:1 is left on a, ACTIVATED, and no Pod of the run on that base requests it; Pod ns/p, which is not " +
				"part of the run, requests it"},
		{writes.String(), "Pod p1 was written 5 times; at most 3 were allowed"},
		{commands.String(), "installBiz of biz:1 came 5 times; at most 3 were allowed"},

		{(&Result{Name: ActiveVersion, Compared: 2, Handovers: 1, Violations: findings{noActive(0, 10)},
			Excused: findings{noActive(0, 20)}}).Summary(),
			"2 modules on bases, 1 handover, shortest overlap 0s, 1 gap, the longest 10ms; 1 more where a process " +
				"ended, the longest 20ms"},
		{(&Result{Name: Truth, Compared: 2, Violations: findings{ready(0, 10)}, Excused: findings{ready(0, 20)},
			Published: []string{"svc"}}).Summary(),
			"2 times something became Ready; Ready without its module 2 times, the longest 20ms (allowed: 1s once " +
				"the controller can know, 5s beside another version); " +
				"endpoints of Pods that are not Ready are ignored, because publishNotReadyAddresses is set " +
				"in Service svc"},
		{(&Result{Name: Order, Compared: 3, OnlyReady: 1, Violations: findings{early(0, 10)}}).Summary(),
			"3 handovers, 1 of the only Ready Pod of a module, 1 in the wrong order"},
		{(&Result{Name: InstalledOnce, Compared: 3, Excused: findings{again(ResolvedAgain, 0, 10, "")}}).Summary(),
			"3 installations, none twice; 1 more repeated after a disturbance"},
		{(&Result{Name: NothingLeft, Compared: 1}).Summary(), "1 base, nothing left"},
		{(&Result{Name: MaxPodWrites, Compared: 2, Writes: 7, Highest: 5}).Summary(),
			"2 Pods, written at most 5 times each, 3.5 on average"},
		{(&Result{Name: MaxCommands, Compared: 2, Highest: 4}).Summary(), "2 commands, each at most 4 times"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
