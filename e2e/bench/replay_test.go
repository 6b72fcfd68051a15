package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// found is what a replay has found, in whole seconds.
type found struct {
	Early, Without           int
	Gaps, Wrong, Left, Apart []int
}

func TestReplay(t *testing.T) {
	const end = 10
	begin := time.Now()
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	of := func(second int, name, version string, to timeline.ModuleState) timeline.Event {
		return timeline.Event{Kind: timeline.Module, Time: at(second), Base: "a", Module: name, Version: version, State: string(to)}
	}
	module := func(second int, version string, to timeline.ModuleState) timeline.Event {
		return of(second, comparedModule, version, to)
	}
	pod := func(second int, version string, ready, deleting bool) timeline.Event {
		return timeline.Event{Kind: timeline.Pod, Time: at(second), Base: "a", Pod: &timeline.PodState{
			Name: version, UID: version, Phase: "Running", Ready: ready, Deleting: deleting,
			Modules: []timeline.ModuleRef{{Name: comparedModule, Version: version}},
		}}
	}
	active, off, stopped := timeline.ModuleActivated, timeline.ModuleDeactivated, timeline.ModuleStopped
	served := []timeline.Event{module(0, "1", active), pod(0, "1", true, false)}

	for _, c := range []struct {
		name   string
		events []timeline.Event
		want   found
	}{
		{"a switch leaves no gap", []timeline.Event{pod(1, "1", false, true), module(1, "1", off), module(1, "2", active), pod(1, "2", true, false)}, found{}},
		{"a gap", []timeline.Event{pod(1, "1", true, true), module(1, "1", off), module(4, "2", active)}, found{Gaps: []int{3}}},
		{"a gap to the end", []timeline.Event{pod(1, "1", false, true), module(1, "1", stopped)}, found{Gaps: []int{9}, Without: 1}},
		{"a Pod that says Ready for two seconds after the switch", []timeline.Event{
			module(1, "1", off), module(1, "2", active), module(3, "1", active),
		}, found{Wrong: []int{2}, Apart: []int{2}}},
		{"its module goes meanwhile, and another one's change is nothing to it", []timeline.Event{
			module(1, "2", active), pod(1, "1", true, true), module(2, "1", stopped), module(2, "3", off), module(7, "1", active),
		}, found{Left: []int{5}}},
		{"it is gone", []timeline.Event{
			module(1, "2", active), module(1, "1", stopped), {Kind: timeline.Pod, Time: at(3), Pod: &timeline.PodState{Name: "1", UID: "1", Gone: true}},
		}, found{Wrong: []int{2}, Left: []int{2}, Apart: []int{2}}},
		{"a Pod that is Ready before its version is active", []timeline.Event{pod(1, "2", true, false), module(1, "2", active)}, found{Early: 1}},
		{"one that is Ready after it was active once", []timeline.Event{
			module(1, "2", active), module(1, "2", off), pod(2, "2", true, false), module(4, "2", active),
		}, found{Wrong: []int{2}, Apart: []int{2}}},
		{"another module", []timeline.Event{of(1, "other", "1", off)}, found{}},
		{"after the end", []timeline.Event{module(11, "1", off)}, found{}},
		{"told late", []timeline.Event{module(5, "1", active), module(3, "1", off), module(3, "2", active)}, found{Wrong: []int{2}, Apart: []int{2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := play(append(served, c.events...), comparedModule, at(end))
			seconds := func(spans []span) (list []int) {
				for _, s := range spans {
					list = append(list, int(s.length().Round(time.Second).Seconds()))
				}
				return list
			}
			got := found{Early: len(r.early), Without: int(r.without()), Gaps: seconds(r.gaps), Wrong: seconds(r.wrong), Left: seconds(r.left), Apart: seconds(r.apart)}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the replay (-want +got):\n%s", diff)
			}
		})
	}
}
