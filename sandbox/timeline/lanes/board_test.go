package lanes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
	"github.com/koupleless/koupsandbox/sandbox/timeline/lanes"
)

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func base(ms int, state string) timeline.Event {
	return timeline.Event{Kind: timeline.Base, Time: at(ms), Base: "base-1", State: state}
}

func module(ms int, version, state string) timeline.Event {
	return timeline.Event{Kind: timeline.Module, Time: at(ms), Base: "base-1", Module: "stock", Version: version, State: state}
}

func pod(ms int, base, phase string, change func(*timeline.PodState)) timeline.Event {
	p := &timeline.PodState{Name: "stock-a", UID: "u", Phase: phase, Modules: []timeline.ModuleRef{{Name: "stock", Version: "1"}}}
	if base != "" {
		p.Node = "vnode.1"
	}
	change(p)
	return timeline.Event{Kind: timeline.Pod, Time: at(ms), Base: base, Pod: p}
}

func segments(list ...lanes.Segment) []lanes.Segment { return list }

func segment(from, to int, state, text string) lanes.Segment {
	return lanes.Segment{From: at(from), To: at(to), State: state, Text: text}
}

func TestBoard(t *testing.T) {
	const end = 100
	endpoint := func(base string, ready, terminating bool) timeline.Endpoint {
		return timeline.Endpoint{IP: "198.18.0.1", Base: base, Ready: ready, Serving: ready || terminating, Terminating: terminating}
	}
	for _, tc := range []struct {
		name   string
		events []timeline.Event
		want   []*lanes.Lane
	}{
		{"a base comes, is cut off, and goes", []timeline.Event{base(0, "up"), base(5, "ready"), base(7, "connected"), base(20, "disconnected"), base(30, "connected"), base(50, "down")},
			[]*lanes.Lane{{Kind: lanes.Base, Name: "base-1", Spans: []*lanes.Span{{Thing: lanes.Life, Name: "base-1", Segments: segments(
				segment(0, 5, lanes.Starting, ""), segment(5, 7, lanes.Disconnected, ""), segment(7, 20, lanes.Ready, ""), segment(20, 30, lanes.Disconnected, ""),
				segment(30, 50, lanes.Ready, ""), segment(50, end, lanes.Down, ""))}}}}},
		{"a version takes over from another", []timeline.Event{module(0, "1", "ACTIVATED"), module(10, "2", "RESOLVED"), module(20, "2", "ACTIVATED"), module(20, "1", "DEACTIVATED"),
			module(40, "1", ""), module(50, "3", "RESOLVED")},
			[]*lanes.Lane{{Kind: lanes.Base, Name: "base-1", Spans: []*lanes.Span{
				{Thing: lanes.Module, Name: "stock:1", Module: "stock", Version: "1", Segments: segments(segment(0, 20, "ACTIVATED", ""), segment(20, 40, "DEACTIVATED", ""))},
				{Thing: lanes.Module, Name: "stock:2", Module: "stock", Version: "2", Track: 1, Segments: segments(segment(10, 20, "RESOLVED", ""), segment(20, end, "ACTIVATED", ""))},
				{Thing: lanes.Module, Name: "stock:3", Module: "stock", Version: "3", Segments: segments(segment(50, end, "RESOLVED", ""))},
			}}}},
		{"a base takes its modules with it", []timeline.Event{base(0, "connected"), module(1, "1", "ACTIVATED"), base(9, "down")},
			[]*lanes.Lane{{Kind: lanes.Base, Name: "base-1", Spans: []*lanes.Span{
				{Thing: lanes.Life, Name: "base-1", Segments: segments(segment(0, 9, lanes.Connected, ""), segment(9, end, lanes.Down, ""))},
				{Thing: lanes.Module, Name: "stock:1", Module: "stock", Version: "1", Segments: segments(segment(1, 9, "ACTIVATED", ""))},
			}}}},
		{"a Pod finds a base, and leaves it", []timeline.Event{
			pod(0, "", "Pending", func(*timeline.PodState) {}),
			pod(5, "base-1", "Pending", func(*timeline.PodState) {}),
			pod(6, "base-1", "Running", func(p *timeline.PodState) { p.Reason = "Installing" }),
			pod(9, "base-1", "Running", func(p *timeline.PodState) { p.Ready = true }),
			pod(12, "base-1", "Running", func(p *timeline.PodState) { p.Ready, p.Writes = true, 7 }), // nothing that is drawn
			pod(20, "base-1", "Running", func(p *timeline.PodState) { p.Ready, p.Deleting = true, true }),
			pod(30, "", "Running", func(p *timeline.PodState) { p.Deleting = true }), // its base is gone
			pod(40, "", "Running", func(p *timeline.PodState) { p.Gone = true }),
		}, []*lanes.Lane{
			{Kind: lanes.Waiting, Spans: []*lanes.Span{{Thing: lanes.Pod, Name: "stock-a", Module: "stock", Version: "1", Segments: segments(segment(0, 5, lanes.Pending, "Pending; stock:1"))}}},
			{Kind: lanes.Base, Name: "base-1", Spans: []*lanes.Span{{Thing: lanes.Pod, Name: "stock-a", Module: "stock", Version: "1", Segments: segments(
				segment(5, 6, lanes.Pending, "Pending; stock:1"), lanes.Segment{From: at(6), To: at(9), State: lanes.NotReady, Text: "Running, Installing; stock:1", Reason: "Installing"}, segment(9, 20, lanes.Ready, "Running; stock:1"),
				segment(20, 30, lanes.Terminating, "Running, still Ready; stock:1"), segment(30, 40, lanes.Terminating, "Running, not Ready; stock:1"))}}},
		}},
		{"endpoints", []timeline.Event{
			{Kind: timeline.Endpoints, Time: at(0), Name: "stock"},
			{Kind: timeline.Endpoints, Time: at(1), Name: "stock", Endpoints: []timeline.Endpoint{endpoint("base-1", true, false), endpoint("base-2", false, false)}},
			{Kind: timeline.Endpoints, Time: at(2), Name: "stock", Endpoints: []timeline.Endpoint{endpoint("base-1", true, false)}},
			{Kind: timeline.Endpoints, Time: at(3), Name: "stock", Endpoints: []timeline.Endpoint{endpoint("base-1", false, true)}},
		}, []*lanes.Lane{{Kind: lanes.Service, Name: "stock", Spans: []*lanes.Span{{Thing: lanes.Endpoints, Name: "stock", Segments: segments(
			segment(0, 1, lanes.NoEndpoints, "0 of 0 ready"), segment(1, 2, lanes.SomeReady, "1 of 2 ready; not ready: base-2"), segment(2, 3, lanes.AllReady, "1 of 1 ready"),
			segment(3, end, lanes.NoneReady, "0 of 1 ready, 1 terminating that still serve; not ready: base-1"))}}}}},
		{"faults, commands and lost requests", []timeline.Event{
			{Kind: timeline.Fault, Time: at(0), Base: "base-1", Name: "fault-1", State: "set", Message: "silent"},
			{Kind: timeline.Fault, Time: at(4), Base: "base-1", Name: "fault-1", State: "fired"},
			{Kind: timeline.Command, Time: at(5), Base: "base-1", Name: "installBiz", Module: "stock", Version: "1", Elapsed: 2 * time.Millisecond},
			{Kind: timeline.Command, Time: at(5), Base: "base-1", Name: "queryAllBiz"}, // asked all the time
			{Kind: timeline.Command, Time: at(6), Base: "base-1", Name: "health", Code: "User.DiskFull", Message: "no space"},
			{Kind: timeline.Request, Time: at(7), Base: "base-1", Name: "traffic", State: "refused", Message: "nobody listens"},
			{Kind: timeline.Fault, Time: at(8), Base: "base-1", Name: "fault-1", State: "cleared"},
		}, []*lanes.Lane{
			{Kind: lanes.Faults, Spans: []*lanes.Span{{Thing: lanes.Fault, Name: "fault-1 on base-1", Base: "base-1", Segments: segments(segment(0, 8, "set", "silent"))}},
				Marks: []lanes.Mark{{Kind: lanes.Fired, From: at(4), To: at(4), Text: "fault-1 on base-1"}}},
			{Kind: lanes.Base, Name: "base-1", Marks: []lanes.Mark{
				{Kind: lanes.Command, From: at(3), To: at(5), Text: "installBiz stock:1"},
				{Kind: lanes.Failure, From: at(6), To: at(6), Text: "health: User.DiskFull: no space", Code: "User.DiskFull"},
				{Kind: lanes.Lost, From: at(7), To: at(7), Text: "refused: nobody listens"}}},
		}},
		{"components and Nodes", []timeline.Event{
			{Kind: timeline.Component, Time: at(0), Name: "broker", State: "running"},
			{Kind: timeline.Component, Time: at(5), Name: "broker", State: "paused"},
			{Kind: timeline.Node, Time: at(1), Base: "base-1", Name: "vnode.1", State: "Ready"},
			{Kind: timeline.Node, Time: at(2), Base: "base-1", Name: "vnode.1"},
			{Kind: timeline.Node, Time: at(3), Name: "not-a-base", State: "Ready"},
		}, []*lanes.Lane{
			{Kind: lanes.Component, Name: "broker", Spans: []*lanes.Span{{Thing: lanes.Process, Name: "broker", Segments: segments(segment(0, 5, "running", ""), segment(5, end, "paused", ""))}}},
			{Kind: lanes.Base, Name: "base-1", Spans: []*lanes.Span{{Thing: lanes.Node, Name: "vnode.1", Segments: segments(segment(1, 2, "Ready", ""))}}},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := lanes.NewBoard()
			for _, e := range tc.events {
				b.Observe(e)
			}
			b.End(at(end))
			if diff := cmp.Diff(tc.want, b.Lanes(), cmpopts.IgnoreUnexported(lanes.Lane{})); diff != "" {
				t.Errorf("lanes (-want +got):\n%s", diff)
			}
		})
	}
}

// A board that lives long forgets what nobody shows any more, and keeps what lasts.
func TestForget(t *testing.T) {
	b := lanes.NewBoard()
	for _, e := range []timeline.Event{
		base(0, "connected"), module(1, "1", "ACTIVATED"), module(20, "1", ""), module(21, "2", "ACTIVATED"),
		{Kind: timeline.Command, Time: at(20), Base: "base-1", Name: "uninstallBiz"},
		{Kind: timeline.Base, Time: at(2), Base: "base-2", State: "up"},
		{Kind: timeline.Base, Time: at(3), Base: "base-2", State: "down"},
	} {
		b.Observe(e)
	}
	b.Forget(at(50))
	want := []*lanes.Lane{{Kind: lanes.Base, Name: "base-1", Spans: []*lanes.Span{
		{Thing: lanes.Life, Name: "base-1", Segments: []lanes.Segment{{From: at(0), State: lanes.Connected}}},
		{Thing: lanes.Module, Name: "stock:2", Module: "stock", Version: "2", Segments: []lanes.Segment{{From: at(21), State: "ACTIVATED"}}},
	}, Marks: []lanes.Mark{}}}
	if diff := cmp.Diff(want, b.Lanes(), cmpopts.IgnoreUnexported(lanes.Lane{})); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	b.Observe(module(60, "3", "ACTIVATED"))
	if got := b.Lanes()[0].Spans[2].Track; got != 1 {
		t.Errorf("the new span is in track %d, want 1", got)
	}
}

func TestAt(t *testing.T) {
	s := &lanes.Span{Segments: []lanes.Segment{segment(10, 20, "a", ""), {From: at(20), State: "b"}}}
	got := map[int]string{}
	for _, ms := range []int{5, 10, 19, 20, 99} {
		if g := s.At(at(ms)); g != nil {
			got[ms] = g.State
		}
	}
	if diff := cmp.Diff(map[int]string{10: "a", 19: "a", 20: "b", 99: "b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCompareNames(t *testing.T) {
	want := []string{"", "base-1", "base-2", "base-10", "base-10a", "web-1"}
	got := []string{"web-1", "base-10", "base-10a", "base-2", "", "base-1"}
	slices.SortFunc(got, lanes.CompareNames)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
