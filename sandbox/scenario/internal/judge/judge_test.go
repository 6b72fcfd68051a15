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

// checkCase is a script and what a check finds in it.
type checkCase struct {
	check  string
	o      Options
	events list
	want   want
}

type want struct {
	compared            int
	violations, excused []string
	summary             string
	doubtful            []string
}

var three = 3

// up is a base whose module serves, and its Pod.
var up = script(host(0, "a", "up"), host(1, "a", "ready"), vpod(10, "p1", "1@a"), installed(20, "1@a"), vpod(40, "p1", "1@a", "ready"))

func TestChecks(t *testing.T) {
	cases := map[string]checkCase{}
	for _, of := range []map[string]checkCase{activeCases, truthCases, orderCases, installedCases, leftCases, writesCases} {
		maps.Copy(cases, of)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := judged(c.check, c.o, c.events)
			got := want{r.Compared, told(r.Violations), told(r.Excused), r.Summary, told(r.Doubtful)}
			if d := cmp.Diff(c.want, got, cmp.AllowUnexported(want{}), cmpopts.EquateEmpty()); d != "" {
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

// told writes violations as a line each.
func told(all []Violation) []string {
	var out []string
	for _, v := range all {
		out = append(out, fmt.Sprintf("%v %s: %s", v.Time.Sub(zero), strings.TrimSpace(v.Base+" "+v.Pod), v.Message))
	}
	return out
}

// What happens on one base has nothing to do with when the events of another one
// come, as long as each keeps its order.
func TestOtherBasesDoNotMatter(t *testing.T) {
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
						rapid.SliceOf(rapid.SampledFrom([]string{"ready", "deleting", "gone", "failed"})).Draw(t, "flags")...)
					e.Pod.Modules[0].Name = bizName
				case 4:
					e = host(ms, name, rapid.SampledFrom([]events.BaseChange{events.BaseUp, events.BaseReady, events.BaseDown}).Draw(t, "state"))
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
					return Judge(all, at(60_000), Options{})
				}
				i := rapid.SampledFrom(open).Draw(t, label)
				all = append(all, left[i][0])
				left[i] = left[i][1:]
			}
		}
		if d := cmp.Diff(results("first"), results("second")); d != "" {
			t.Errorf("one way (-) and another (+):\n%s", d)
		}
	})
}

// Events that come late are put where they belong, however late they come.
func TestLateEvents(t *testing.T) {
	events := script(vpod(10, "p1", "1@a"), vpod(40, "p1", "1@a", "ready"), host(5000, "b", "up"), host(9000, "b", "up"), installed(20, "1@a"))
	if got := judged(Truth, Options{}, events); len(got.Violations)+len(got.Excused) != 0 || got.Compared != 1 {
		t.Errorf("%+v", got)
	}
}

var orderCases = map[string]checkCase{
	"order: a lossless update": {check: Order, events: rolling, want: want{1, nil, nil, "1 handover", nil}},
	"order: the new one first": {
		check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
		want: want{1, []string{"1.01s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order", nil},
	},
	"order: the new one first, but the old one is the only one": {
		check: Order, events: script(up, vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
		want: want{1, nil, nil, "1 handover, 1 of the only Ready Pod of a module", nil},
	},
	"order: the only one when the controller decided": {
		check: Order, events: script(up, vpod(1000, "p2", "2@a"), vpod(1009, "q1", "2@b", "ready"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a")),
		want: want{1, nil, nil, "1 handover, 1 of the only Ready Pod of a module", nil},
	},
	"order: the only one when the controller decided, at a slow API": {
		check: Order, events: script(up, vpod(1000, "p2", "2@a"), rule(1005, "delay", "fired"), vpod(1009, "q1", "2@b", "ready"), vpod(2000, "p2", "2@a", "ready"), vpod(2020, "p1", "1@a")),
		want: want{1, nil, nil, "1 handover, 1 of the only Ready Pod of a module", nil},
	},
	"order: the other one was Ready before the API was slow": {
		check: Order, events: script(up, vpod(50, "q1", "2@b", "ready"), rule(500, "delay", "fired"), vpod(1000, "p2", "2@a"), vpod(2000, "p2", "2@a", "ready"), vpod(2020, "p1", "1@a")),
		want: want{1, []string{"2s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order", nil},
	},
	"order: the other one has been Ready for seconds at a slow API": {
		check: Order, events: script(up, rule(500, "holdWatch", "set"), vpod(1009, "q1", "2@b", "ready"), vpod(2000, "p2", "2@a"), vpod(7000, "p2", "2@a", "ready"), vpod(7020, "p1", "1@a")),
		want: want{1, []string{"7s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order", nil},
	},
	"order: the other base hands over at the same time": {
		check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a"), vpod(1260, "q1", "1@b")),
		want: want{1, nil, nil, "1 handover, 1 of the only Ready Pod of a module", nil},
	},
	"order: the other base hands over later": {
		check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready"), vpod(1020, "p1", "1@a"), vpod(1261, "q1", "1@b")),
		want: want{1, []string{"1.01s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order", nil},
	},
	"order: the old one is being deleted": {
		check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1005, "p1", "1@a", "ready", "deleting"), vpod(1010, "p2", "2@a", "ready")),
		want: want{1, nil, nil, "1 handover", nil},
	},
	"order: one version on two Pods": {
		check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "1@a"), vpod(1010, "p2", "1@a", "ready")),
		want: want{0, nil, nil, "0 handovers", nil},
	},
	"order: the old one has never been Ready": {
		check: Order, events: script(vpod(40, "p1", "1@a"), vpod(50, "q1", "1@b", "ready"), vpod(1000, "p2", "2@a"), vpod(1010, "p2", "2@a", "ready")),
		want: want{0, nil, nil, "0 handovers", nil},
	},
	"order: the old one belongs to a process that has ended": {
		check: Order, events: script(onNode("n1", up), vpod(50, "q1", "1@b", "ready"), onNode("n2", list{vpod(1000, "p2", "2@a", "ready")})),
		want: want{0, nil, nil, "0 handovers", nil},
	},
	"order: the old one comes back": {
		check: Order, events: script(up, vpod(50, "q1", "1@b", "ready"), vpod(900, "p2", "2@a"), vpod(1000, "p2", "2@a", "ready"), vpod(1001, "p1", "1@a"), vpod(2000, "p1", "1@a", "ready")),
		want: want{1, []string{"1s a p2: Pod p2 with biz:2 turned Ready on a before Pod p1 with version 1 had turned Not Ready"}, nil, "1 handover, 1 in the wrong order", nil},
	},
}

var installedCases = map[string]checkCase{
	"installed: an update": {check: InstalledOnce, events: rolling, want: want{3, nil, nil, "3 installations, none twice", nil}},
	"installed: a second command": {
		check: InstalledOnce, events: script(up, command(1000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: Arklet.RepeatBiz"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: the command's clock is a little ahead": {
		check: InstalledOnce, events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "ACTIVATED"), command(31, "1@a", "installBiz", "", 10*time.Millisecond)),
		want: want{1, nil, nil, "1 installation, none twice", nil},
	},
	"installed: a second command that succeeds": {
		check: InstalledOnce, events: script(up, command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: after an uninstall": {
		check: InstalledOnce, events: script(up, removed(500, "1@a"), installed(1000, "1@a")),
		want: want{2, nil, nil, "2 installations, none twice", nil},
	},
	"installed: after a failure": {
		check: InstalledOnce, events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "BROKEN"), command(31, "1@a", "installBiz", "x", 15*time.Millisecond),
			command(60, "1@a", "installBiz", "x", time.Millisecond), biz(70, "1@a", "STOPPED"), installed(100, "1@a")),
		want: want{2, nil, nil, "2 installations, none twice", nil},
	},
	"installed: after a restart": {
		check: InstalledOnce, events: script(up, host(500, "a", "down"), host(1000, "a", "up"), installed(1100, "1@a")),
		want: want{2, nil, nil, "2 installations, none twice", nil},
	},
	"installed: resolved twice": {
		check: InstalledOnce, events: script(up, biz(1000, "1@a", "RESOLVED")),
		want: want{2, []string{"1s a: biz:1 was resolved again after 980ms"}, nil, "2 installations, 1 repeated", nil},
	},
	"installed: the broker went in between": {
		check: InstalledOnce, events: script(up, component(500, "broker", "exited"),
			command(1000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: want{1, nil, []string{"999ms a: biz:1 was installed again after 979ms, and answered: Arklet.RepeatBiz (the first answer may have been lost)"},
			"1 installation, none twice; 1 more repeated after a disturbance", nil},
	},
	"installed: the broker was away long before": {
		check: InstalledOnce, events: script(up, component(500, "broker", "exited"), component(600, "broker", "running"),
			command(20_602, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, []string{"20.601s a: biz:1 was installed again after 20.581s, and answered: success"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: who was away later had the answer": {
		check: InstalledOnce, events: script(up, component(2000, "module-controller", "exited"), component(2500, "module-controller", "running"),
			command(3000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: want{1, []string{"2.999s a: biz:1 was installed again after 2.979s, and answered: Arklet.RepeatBiz"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: who was away before there was an answer had none": {
		check: InstalledOnce, events: script(biz(20, "1@a", "RESOLVED"), biz(30, "1@a", "ACTIVATED"), component(2000, "module-controller", "exited"), component(2500, "module-controller", "running"),
			command(3000, "1@a", "installBiz", "Arklet.RepeatBiz", time.Millisecond)),
		want: want{1, nil, []string{"2.999s a: biz:1 was installed again after 2.979s, and answered: Arklet.RepeatBiz (the first answer may have been lost)"},
			"1 installation, none twice; 1 more repeated after a disturbance", nil},
	},
	"installed: a fault struck a moment before": {
		check: InstalledOnce, events: script(up, fires(500, "a", "corrupt"), command(18_001, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, nil, []string{"18s a: biz:1 was installed again after 17.98s, and answered: success (the first answer may have been lost)"},
			"1 installation, none twice; 1 more repeated after a disturbance", nil},
	},
	"installed: a fault struck long before": {
		check: InstalledOnce, events: script(up, fires(500, "a", "corrupt"), command(18_002, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, []string{"18.001s a: biz:1 was installed again after 17.981s, and answered: success"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: a fault lasts": {
		check: InstalledOnce, events: script(up, events.Event{Time: at(500), Fault: &events.FaultEvent{Target: "base", Base: "a", ID: "f", Kind: "disconnect", Change: "set"}},
			command(50_000, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, nil, []string{"49.999s a: biz:1 was installed again after 49.979s, and answered: success (the first answer may have been lost)"},
			"1 installation, none twice; 1 more repeated after a disturbance", nil},
	},
	"installed: a fault that is set and strikes nobody is no excuse": {
		check: InstalledOnce, events: script(up, events.Event{Time: at(500), Fault: &events.FaultEvent{Target: "base", Base: "a", ID: "f", Kind: "corrupt", Change: "set"}},
			command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: the end of a fault is no excuse": {
		check: InstalledOnce, events: script(up, events.Event{Time: at(500), Fault: &events.FaultEvent{Target: "base", Base: "a", ID: "f", Change: "cleared"}},
			command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated", nil},
	},
	"installed: a fault of another base is no excuse": {
		check: InstalledOnce, events: script(up, events.Event{Time: at(500), Fault: &events.FaultEvent{Target: "base", Base: "b", ID: "f", Change: "fired"}},
			command(1000, "1@a", "installBiz", "", time.Millisecond)),
		want: want{1, []string{"999ms a: biz:1 was installed again after 979ms, and answered: success"}, nil, "1 installation, 1 repeated", nil},
	},
}

var leftCases = map[string]checkCase{
	"left: an update": {check: NothingLeft, events: rolling, want: want{2, nil, nil, "2 bases, nothing left", nil}},
	"left: the old version": {
		check: NothingLeft, events: rolling[:len(rolling)-2],
		want: want{2, nil, nil, "2 bases, nothing left", nil}, // its Pod is still being deleted
	},
	"left: the old version without its Pod": {
		check: NothingLeft, events: append(slices.Clone(rolling[:len(rolling)-2]), rolling[len(rolling)-1]),
		want: want{2, []string{"20ms a: biz:1 is left on a, DEACTIVATED, and no Pod of the run on that base requests it"}, nil, "2 bases, 1 module left", nil},
	},
	"left: a module that a Pod of another namespace wants": {
		check: NothingLeft, events: append(slices.Clone(rolling[:len(rolling)-2]), rolling[len(rolling)-1]),
		o: Options{Foreign: []events.PodStatus{
			{Base: "a", PodState: events.PodState{Name: "default/stock-1", Modules: []events.ModuleRef{{Name: "biz", Version: "1"}}}},
			{Base: "a", PodState: events.PodState{Name: "default/stock-2", Modules: []events.ModuleRef{{Name: "biz", Version: "2"}}}},
			{Base: "b", PodState: events.PodState{Name: "default/stock-3", Modules: []events.ModuleRef{{Name: "biz", Version: "1"}}}},
		}},
		want: want{2, []string{"20ms a: biz:1 is left on a, DEACTIVATED, and no Pod of the run on that base requests it; Pod default/stock-1, which is not part of the run, requests it"},
			nil, "2 bases, 1 module left", nil},
	},
	"left: the base's own module": {
		check: NothingLeft, events: script(host(0, "a", "up"), installed(5, "9@a"), host(20, "a", "ready")),
		want: want{1, nil, nil, "1 base, nothing left", nil},
	},
	"left: a module from before the run": {
		check: NothingLeft, events: script(host(0, "a", "up"), host(0, "a", "ready"), biz(0, "9@a", "ACTIVATED"), events.Event{Time: at(1), Synced: true}, installed(5, "8@a")),
		want: want{1, []string{"5ms a: biz:8 is left on a, ACTIVATED, and no Pod of the run on that base requests it"}, nil, "1 base, 1 module left", nil},
	},
	"left: a Pod answers for its module while that may still go": {
		check: NothingLeft, o: Options{UninstallWithin: 30 * time.Second}, events: script(up, vpod(10_500, "p1", "1@a", "deleting"), vpod(11_000, "p1", "1@a", "deleting")),
		want: want{1, nil, nil, "1 base, nothing left", nil},
	},
	"left: a Pod that never goes answers for nothing": {
		check: NothingLeft, o: Options{UninstallWithin: 30 * time.Second}, events: script(up, vpod(10_499, "p1", "1@a", "deleting"), vpod(50_000, "p1", "1@a", "deleting")),
		want: want{1, []string{"20ms a: biz:1 is left on a, ACTIVATED, and no Pod of the run on that base requests it"}, nil, "1 base, 1 module left", nil},
	},
	"left: a base that is gone": {check: NothingLeft, events: script(up, host(50, "a", "down"), vpod(60, "p1", "1@a", "gone")), want: want{0, nil, nil, "0 bases, nothing left", nil}},
}

var writesCases = map[string]checkCase{
	"writes: reported": {check: MaxPodWrites, events: writes(5, 2), want: want{2, nil, nil, "2 Pods, written at most 5 times each, 3.5 on average", nil}},
	"writes: too many": {
		check: MaxPodWrites, o: Options{MaxPodWrites: &three}, events: writes(5, 3),
		want: want{2, []string{"0s a p0: Pod p0 was written 5 times; at most 3 were allowed"}, nil, "2 Pods, written at most 5 times each, 4.0 on average", nil},
	},
	"commands: reported": {check: MaxCommands, events: script(tries(4, "1@a"), tries(2, "2@a"), asked(10, "a")), want: want{2, nil, nil, "2 commands, each at most 4 times", nil}},
	"commands: too many": {
		check: MaxCommands, o: Options{MaxCommands: &three}, events: script(tries(3, "1@a"), tries(4, "1@b")),
		want: want{2, []string{"0s b: installBiz of biz:1 came 4 times; at most 3 were allowed"}, nil, "2 commands, each at most 4 times", nil},
	},
}
