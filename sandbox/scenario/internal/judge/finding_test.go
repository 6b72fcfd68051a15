package judge

import (
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// TestFindingAndSummaryText checks the texts of findings and summaries. It is the only test of these texts; the tests
// of the individual checks compare fields.
func TestFindingAndSummaryText(t *testing.T) {
	few := Finding{Count: 5, Limit: 3, Pod: "p1", Modules: version("1"), Command: "installBiz"}
	writes, commands := few, few
	writes.Kind, commands.Kind = TooManyWrites, TooManyCommands
	for _, c := range []struct{ got, want string }{
		{noActive(0, 2000).open().ended(1500).String(),
			"a had no active version of biz for 2s, until the end of the run, after its process ended (1.5s of it " +
				"during an outage or an installation)"},
		{ready(0, 2000).replaced().failed(2).late(3000).String(),
			"Pod p1 was Ready, but biz:1 was not active on a for 2s; another version was active; 2 requests failed; " +
				"events arrived up to 3s late, and with their earliest possible times this is not a violation"},
		{endpoint(0, 2000).known(500).allowed(1500).String(),
			"the endpoint of Pod p1 in Service svc was ready, but biz:1 was not active on a for 2s " +
				"(1.5s of it during " +
				"an outage); the controller could detect this within 500ms"},
		{early(0, 10).String(),
			"Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 turned Not Ready"},
		{again(InstalledAgain, 0, 10, "").lost().String(),
			"biz:1 was installed again after 10ms; response: success (the first response may have been lost)"},
		{again(ResolvedAgain, 0, 10, "").String(), "biz:1 entered the state RESOLVED again after 10ms"},
		{left(0, "1", events.ModuleActivated, "ns/p").String(),
			"biz:1 remains on a in state ACTIVATED, but no Pod of the run on this base requests it; Pod ns/p, which " +
				"is not part of the run, requests it"},
		{writes.String(), "Pod p1 was written 5 times; the limit is 3"},
		{commands.String(), "installBiz of biz:1 was sent 5 times; the limit is 3"},

		{(&Result{Name: ActiveVersion, Compared: 2, Handovers: 1, Violations: findings{noActive(0, 10)},
			Excused: findings{noActive(0, 20)}}).Summary(),
			"2 modules on bases, 1 handover, shortest overlap 0s, 1 gap, the longest 10ms; 1 tolerated gap after a " +
				"process ended, the longest 20ms"},
		{(&Result{Name: Truth, Compared: 2, Violations: findings{ready(0, 10)}, Excused: findings{ready(0, 20)},
			Published: []string{"svc"}}).Summary(),
			"2 changes to Ready; Ready without an active module 2 times, for up to 20ms (tolerated: 1s after the " +
				"controller can detect it, 5s while another version is active); endpoints of Not Ready Pods are " +
				"ignored, because publishNotReadyAddresses is set in Service svc"},
		{(&Result{Name: Order, Compared: 3, OnlyReady: 1, Violations: findings{early(0, 10)}}).Summary(),
			"3 handovers, 1 of the only Ready Pod of a module, 1 in the wrong order"},
		{(&Result{Name: InstalledOnce, Compared: 3, Excused: findings{again(ResolvedAgain, 0, 10, "")}}).Summary(),
			"3 installations, none twice; 1 more repeated after a disruption"},
		{(&Result{Name: NothingLeft, Compared: 1}).Summary(), "1 base, no module left"},
		{(&Result{Name: MaxPodWrites, Compared: 2, Writes: 7, Highest: 5}).Summary(),
			"2 Pods, written at most 5 times each, 3.5 on average"},
		{(&Result{Name: MaxCommands, Compared: 2, Highest: 4}).Summary(), "2 commands, each sent at most 4 times"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
