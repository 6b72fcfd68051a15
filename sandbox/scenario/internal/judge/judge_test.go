package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// checkCase contains the events of a run and the expected result of one check. The name of the case starts with the
// name of the check.
type checkCase struct {
	o      Options
	events list
	want   Result
}

var three = 3

// up contains the events of a base with an active module and a Ready Pod that requests the module.
var up = script(host(0, "a", "up"), host(1, "a", "ready"), vpod(10, "p1", "1@a"), installed(20, "1@a"),
	vpod(40, "p1", "1@a", "ready"))

func TestChecks(t *testing.T) {
	cases := map[string]checkCase{}
	checks := map[string]string{
		"active": ActiveVersion, "truth": Truth, "order": Order, "installed": InstalledOnce, "left": NothingLeft,
		"writes":   MaxPodWrites,
		"commands": MaxCommands,
	}
	for _, of := range []map[string]checkCase{activeCases, truthCases, orderCases, installedCases, leftCases,
		writesCases} {
		maps.Copy(cases, of)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check, _, _ := strings.Cut(name, ":")
			c.want.Name = checks[check]
			if d := cmp.Diff(c.want, judged(c.want.Name, c.o, c.events), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func tries(times int, where string) (out list) {
	for i := range times {
		out = append(out, command(i, where, "installBiz", "Arklet.InstallBizFailed", 0))
	}
	return out
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

type findings = []Finding

// violated and excused return the expected result of a check that has compared one item.
func violated(all ...Finding) Result { return Result{Compared: 1, Violations: all} }
func excused(all ...Finding) Result  { return Result{Compared: 1, Excused: all} }

// noActive returns the finding of a gap on base a. from and length are in milliseconds.
func noActive(from, length int) Finding {
	return Finding{Kind: NoActiveVersion, Time: at(from), Length: ms(length), Base: "a",
		Modules: []events.ModuleRef{{Name: "biz"}}}
}

// ready returns the finding that Pod p1 was Ready although version 1 was not active on base a.
func ready(from, length int) Finding {
	return Finding{Kind: PodWithoutModule, Time: at(from), Length: ms(length), Base: "a", Pod: "p1",
		Modules: version("1")}
}

// endpoint returns the finding that the endpoint of Pod p1 was ready although version 1 was not active on base a.
func endpoint(from, length int) Finding {
	f := ready(from, length)
	f.Kind, f.Service = EndpointWithoutModule, "svc"
	return f
}

// early returns the finding of a handover in the wrong order: Pod p2 became Ready before Pod p1 became Not Ready.
func early(from, length int) Finding {
	return Finding{
		Kind: ReadyBeforeOld, Time: at(from), Length: ms(length), Base: "a", Pod: "p2", Modules: version("2"),
		OldPod: "p1", OldVersion: "1",
	}
}

// again returns the finding of a second installation of version 1.
func again(kind FindingKind, from, after int, code string) Finding {
	return Finding{Kind: kind, Time: at(from), Base: "a", Modules: version("1"), After: ms(after), Code: code}
}

// left returns the finding of a version that is still on base a when the run ends at 60 s.
func left(since int, v string, state events.ModuleState, foreign ...string) Finding {
	return Finding{
		Kind: ModuleLeft, Time: at(since), Length: ms(60_000 - since), Base: "a", Modules: version(v), State: state,
		Foreign: foreign,
	}
}

func version(v string) []events.ModuleRef { return []events.ModuleRef{{Name: "biz", Version: v}} }

func (f Finding) open() Finding               { f.Open = true; return f }
func (f Finding) ended(allowed int) Finding   { f.ProcessEnded, f.Allowed = true, ms(allowed); return f }
func (f Finding) allowed(length int) Finding  { f.Allowed = ms(length); return f }
func (f Finding) replaced() Finding           { f.Replaced = true; return f }
func (f Finding) failed(requests int) Finding { f.FailedRequests = requests; return f }
func (f Finding) known(within int) Finding    { f.KnownWithin = ms(within); return f }
func (f Finding) lost() Finding               { f.ResponseLost = true; return f }
func (f Finding) late(delay int) Finding      { f.Delay = ms(delay); return f }

// TestResultsDoNotDependOnInterleaving checks that the results do not depend on how the events of different bases are
// interleaved.
func TestResultsDoNotDependOnInterleaving(t *testing.T) {
	states := []events.ModuleState{"RESOLVED", "ACTIVATED", "DEACTIVATED", "BROKEN", "STOPPED"}
	rapid.Check(t, func(t *rapid.T) {
		histories := make([]list, 3)
		for i := range histories {
			name, bizName := fmt.Sprint("base-", i), fmt.Sprint("biz", i)
			histories[i] = list{host(0, name, "up"), host(0, name, "ready")}
			ms := 0
			for range rapid.IntRange(1, 25).Draw(t, "events") {
				ms += rapid.IntRange(0, 400).Draw(t, "pause")
				version := fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "version"))
				var e events.Event
				switch rapid.IntRange(0, 4).Draw(t, "kind") {
				case 0, 1:
					e = biz(ms, version+"@"+name, rapid.SampledFrom(states).Draw(t, "state"))
					e.Module.Name = bizName
				case 2, 3:
					e = vpod(ms, fmt.Sprint("pod", i, "-", version), version+"@"+name,
						rapid.SliceOf(rapid.SampledFrom([]string{"ready", "deleting", "gone", "failed"})).Draw(t,
							"flags")...)
					e.Pod.Modules[0].Name = bizName
				case 4:
					e = host(ms, name,
						rapid.SampledFrom([]events.BaseChange{events.BaseUp, events.BaseReady, events.BaseDown}).Draw(t,
							"state"))
				}
				histories[i] = append(histories[i], e)
			}
		}
		results := func(label string) []Result {
			var all list
			left := [][]events.Event{histories[0], histories[1], histories[2]}
			for {
				var open []int
				for i, l := range left {
					if len(l) > 0 {
						open = append(open, i)
					}
				}
				if len(open) == 0 {
					return Evaluate(all, at(60_000), Options{})
				}
				i := rapid.SampledFrom(open).Draw(t, label)
				all = append(all, left[i][0])
				left[i] = left[i][1:]
			}
		}
		if d := cmp.Diff(results("first"), results("second")); d != "" {
			t.Errorf("results of two interleavings (-first +second):\n%s", d)
		}
	})
}

// TestEventsAreSortedByTime checks that Evaluate sorts events that arrive late by their times.
func TestEventsAreSortedByTime(t *testing.T) {
	events := script(vpod(10, "p1", "1@a"), vpod(40, "p1", "1@a", "ready"), host(5000, "b", "up"),
		host(9000, "b", "up"), installed(20, "1@a"))
	if got := judged(Truth, Options{}, events); len(got.Violations)+len(got.Excused) != 0 || got.Compared != 1 {
		t.Errorf("got %+v, want 1 change to Ready without findings", got)
	}
}

var orderCases = map[string]checkCase{
	"order: a lossless update": {events: rolling, want: Result{Compared: 1}},
	"order: the new Pod turns Ready first": {
		events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"),
			vpod(1020, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{early(1010, 10)}},
	},
	"order: the new Pod turns Ready first, the old Pod is the only Ready Pod": {
		events: script(up, vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
		want:   Result{Compared: 1, OnlyReady: 1},
	},
	"order: the only Ready Pod at the controller's decision": {
		events: script(up, vpod(1000, "p2", "2@a"), vpod(1009, "q1", "2@b", "ready"), vpod(1010, "p2", "2@a", "ready"),
			vpod(1020, "p1", "1@a")),
		want: Result{Compared: 1, OnlyReady: 1},
	},
	"order: the only Ready Pod at the controller's decision, with a slow API": {
		events: script(up, vpod(1000, "p2", "2@a"), apiFaultEvent(1005, "delay", "fired"), vpod(1009, "q1", "2@b",
			"ready"),
			vpod(2000, "p2", "2@a", "ready"), vpod(2020, "p1", "1@a")),
		want: Result{Compared: 1, OnlyReady: 1},
	},
	"order: another Pod was Ready before the API was slow": {
		events: script(up, vpod(50, "q1", "2@b", "ready"), apiFaultEvent(500, "delay", "fired"), vpod(1000, "p2",
			"2@a"),
			vpod(2000, "p2", "2@a", "ready"), vpod(2020, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{early(2000, 20)}},
	},
	"order: another Pod has been Ready for seconds, with a slow API": {
		events: script(up, apiFaultEvent(500, "holdWatch", "set"), vpod(1009, "q1", "2@b", "ready"), vpod(2000, "p2",
			"2@a"),
			vpod(7000, "p2", "2@a", "ready"), vpod(7020, "p1", "1@a")),
		want: Result{Compared: 1, Violations: findings{early(7000, 20)}},
	},
	"order: a handover on another base at the same time": {
		events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"),
			vpod(1020, "p1", "1@a"), vpod(1260, "q1", "1@b")),
		want: Result{Compared: 1, OnlyReady: 1},
	},
	"order: a later handover on another base": {
		events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"),
			vpod(1020, "p1", "1@a"), vpod(1261, "q1", "1@b")),
		want: Result{Compared: 1, Violations: findings{early(1010, 10)}},
	},
	"order: the old Pod is being deleted": {
		events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"),
			vpod(1005, "p1", "1@a", "ready", "deleting"), vpod(1010, "p2", "2@a", "ready")),
		want: Result{Compared: 1},
	},
	"order: two Pods of the same version": {
		events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "1@a"), vpod(1010, "p2", "1@a", "ready")),
		want:   Result{},
	},
	"order: the old Pod was never Ready": {
		events: script(vpod(40, "p1", "1@a"), vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"),
			vpod(1010, "p2", "2@a", "ready")),
		want: Result{},
	},
	"order: the old Pod belongs to an earlier process": {
		events: script(onNode("n1", up), vpod(50, "q1", "1@b", "ready"),
			onNode("n2", list{vpod(1000, "p2", "2@a", "ready")})),
		want: Result{},
	},
	"order: the old Pod turns Ready again": {
		events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(900, "p2", "2@a"), vpod(1000, "p2", "2@a", "ready"),
			vpod(1001, "p1", "1@a"), vpod(2000, "p1", "1@a", "ready")),
		want: Result{Compared: 1, Violations: findings{early(1000, 1)}},
	},
}

var installedCases = map[string]checkCase{
	"installed: an update": {events: rolling, want: Result{Compared: 3}},
	"installed: a second command": {
		events: script(up, command(1000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want:   Result{Compared: 1, Violations: findings{again(InstalledAgain, 999, 979, "Arklet.RepeatBiz")}},
	},
	"installed: rejected while the base installs its baseline": {
		events: script(biz(20, "1@a", "RESOLVED"),
			command(40, "1@a", "installBiz", "Arklet.InstallBizExecuting", time.Millisecond),
			biz(100, "1@a", "ACTIVATED")),
		want: Result{Compared: 1},
	},
	"installed: rejected while an earlier command installs": {
		events: script(biz(20, "1@a", "RESOLVED"),
			command(40, "1@a", "installBiz", "Arklet.InstallBizExecuting", time.Millisecond),
			biz(100, "1@a", "ACTIVATED"), command(100, "1@a", "installBiz", "", 81*time.Millisecond)),
		want: violated(again(InstalledAgain, 39, 19, "Arklet.InstallBizExecuting")),
	},
	"installed: the clock of the command is slightly ahead": {
		events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "ACTIVATED"),
			command(31, "1@a", "installBiz", "", 10*time.Millisecond)),
		want: Result{Compared: 1},
	},
	"installed: a second command that succeeds": {
		events: script(up, command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want:   Result{Compared: 1, Violations: findings{again(InstalledAgain, 999, 979, "")}},
	},
	"installed: after an uninstall": {
		events: script(up, removed(500, "1@a"), installed(1000, "1@a")),
		want:   Result{Compared: 2},
	},
	"installed: after a failure": {
		events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "BROKEN"),
			command(31, "1@a", "installBiz", "x", 15*time.Millisecond),
			command(60, "1@a", "installBiz", "x", time.Millisecond), biz(70, "1@a", "STOPPED"), installed(100, "1@a")),
		want: Result{Compared: 2},
	},
	"installed: after a restart": {
		events: script(up, host(500, "a", "down"), host(1000, "a", "up"), installed(1100, "1@a")),
		want:   Result{Compared: 2},
	},
	"installed: resolved twice": {
		events: script(up, biz(1000, "1@a", "RESOLVED")),
		want:   Result{Compared: 2, Violations: findings{again(ResolvedAgain, 1000, 980, "")}},
	},
	"installed: a broker outage in between": {
		events: script(up, component(500, "broker", "exited"),
			command(1000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: excused(again(InstalledAgain, 999, 979, "Arklet.RepeatBiz").lost()),
	},
	"installed: a broker outage long before": {
		events: script(up, component(500, "broker", "exited"), component(600, "broker", "running"),
			command(20_602, "1@a", "installBiz", "", time.Millisecond)),
		want: violated(again(InstalledAgain, 20_601, 20_581, "")),
	},
	"installed: an outage after the response is no excuse": {
		events: script(up, component(2000, "module-controller", "exited"),
			component(2500, "module-controller", "running"),
			command(3000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: violated(again(InstalledAgain, 2999, 2979, "Arklet.RepeatBiz")),
	},
	"installed: an outage before the response": {
		events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "ACTIVATED"),
			component(2000, "module-controller", "exited"), component(2500, "module-controller", "running"),
			command(3000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: excused(again(InstalledAgain, 2999, 2979, "Arklet.RepeatBiz").lost()),
	},
	"installed: a fault was triggered shortly before": {
		events: script(up, fires(500, "a", "corrupt"), command(18_001, "1@a", "installBiz", "", time.Millisecond)),
		want:   Result{Compared: 1, Excused: findings{again(InstalledAgain, 18_000, 17_980, "").lost()}},
	},
	"installed: a fault was triggered long before": {
		events: script(up, fires(500, "a", "corrupt"), command(18_002, "1@a", "installBiz", "", time.Millisecond)),
		want:   Result{Compared: 1, Violations: findings{again(InstalledAgain, 18_001, 17_981, "")}},
	},
	"installed: a fault is in effect": {
		events: script(up, events.Event{Time: at(500),
			Fault: &events.FaultEvent{Target: "base", Base: "a", ID: "f", Kind: "disconnect", Change: "set"}},
			command(50_000, "1@a", "installBiz", "", time.Millisecond)),
		want: excused(again(InstalledAgain, 49_999, 49_979, "").lost()),
	},
	"installed: a fault that was never triggered is no excuse": {
		events: script(up, events.Event{Time: at(500),
			Fault: &events.FaultEvent{Target: "base", Base: "a", ID: "f", Kind: "corrupt", Change: "set"}},
			command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: violated(again(InstalledAgain, 999, 979, "")),
	},
	"installed: the end of a fault is no excuse": {
		events: script(up, events.Event{Time: at(500),
			Fault: &events.FaultEvent{Target: "base", Base: "a", ID: "f", Change: "cleared"}},
			command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: violated(again(InstalledAgain, 999, 979, "")),
	},
	"installed: a fault of another base is no excuse": {
		events: script(up, events.Event{Time: at(500),
			Fault: &events.FaultEvent{Target: "base", Base: "b", ID: "f", Change: "fired"}},
			command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: violated(again(InstalledAgain, 999, 979, "")),
	},
}

var leftCases = map[string]checkCase{
	"left: an update": {events: rolling, want: Result{Compared: 2}},
	"left: the old version": {
		events: rolling[:len(rolling)-2],
		want:   Result{Compared: 2}, // its Pod is still being deleted
	},
	"left: the old version after the removal of its Pod": {
		events: append(slices.Clone(rolling[:len(rolling)-2]), rolling[len(rolling)-1]),
		want:   Result{Compared: 2, Violations: findings{left(20, "1", events.ModuleDeactivated)}},
	},
	"left: a module that a Pod of another namespace requests": {
		events: append(slices.Clone(rolling[:len(rolling)-2]), rolling[len(rolling)-1]),
		o: Options{Foreign: []events.PodStatus{
			{Base: "a", PodState: events.PodState{Name: "default/stock-1",
				Modules: []events.ModuleRef{{Name: "biz", Version: "1"}}}},
			{Base: "a", PodState: events.PodState{Name: "default/stock-2",
				Modules: []events.ModuleRef{{Name: "biz", Version: "2"}}}},
			{Base: "b", PodState: events.PodState{Name: "default/stock-3",
				Modules: []events.ModuleRef{{Name: "biz", Version: "1"}}}},
		}},
		want: Result{Compared: 2, Violations: findings{left(20, "1", events.ModuleDeactivated, "default/stock-1")}},
	},
	"left: a pre-installed module": {
		events: script(host(0, "a", "up"), installed(5, "9@a"), host(20, "a", "ready")),
		want:   Result{Compared: 1},
	},
	"left: a module from before the run": {
		events: script(host(0, "a", "up"), host(0, "a", "ready"), biz(0, "9@a", "ACTIVATED"),
			events.Event{Time: at(1), Synced: true}, installed(5, "8@a")),
		want: Result{Compared: 1, Violations: findings{left(5, "8", events.ModuleActivated)}},
	},
	"left: a deleted Pod whose uninstall has time left": {
		o:      Options{UninstallTimeout: 30 * time.Second},
		events: script(up, vpod(10_500, "p1", "1@a", "deleting"), vpod(11_000, "p1", "1@a", "deleting")),
		want:   Result{Compared: 1},
	},
	"left: a deleted Pod whose uninstall took too long": {
		o:      Options{UninstallTimeout: 30 * time.Second},
		events: script(up, vpod(10_499, "p1", "1@a", "deleting"), vpod(50_000, "p1", "1@a", "deleting")),
		want:   violated(left(20, "1", events.ModuleActivated)),
	},
	"left: a stopped base": {events: script(up, host(50, "a", "down"), vpod(60, "p1", "1@a", "gone")),
		want: Result{}},
}

var writesCases = map[string]checkCase{
	"writes: reported": {events: writes(5, 2), want: Result{Compared: 2, Writes: 7, Highest: 5}},
	"writes: too many": {
		o: Options{MaxPodWrites: &three}, events: writes(5, 3),
		want: Result{
			Compared: 2, Writes: 8, Highest: 5,
			Violations: findings{{Kind: TooManyWrites, Time: zero, Pod: "p0", Base: "a", Count: 5, Limit: 3}},
		},
	},
	"commands: reported": {events: script(tries(4, "1@a"), tries(2, "2@a"), asked(10, "a")),
		want: Result{Compared: 2, Highest: 4}},
	"commands: too many": {
		o: Options{MaxCommands: &three}, events: script(tries(3, "1@a"), tries(4, "1@b")),
		want: Result{
			Compared: 2, Highest: 4,
			Violations: findings{
				{Kind: TooManyCommands, Time: zero, Base: "b", Modules: version("1"), Command: "installBiz", Count: 4,
					Limit: 3}},
		},
	},
}
