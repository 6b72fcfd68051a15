package fuzz

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// What comes after what counts, for each base and Pod, and neither their names nor how often.
func TestOfTimeline(t *testing.T) {
	pod := func(uid, phase string, ready bool) timeline.Event {
		return timeline.Event{Kind: timeline.Pod, Pod: &timeline.PodState{UID: uid, Phase: phase, Ready: ready}}
	}
	got := ofTimeline(&scenario.Report{Runs: []*scenario.Run{{Timeline: []timeline.Event{
		{Kind: timeline.Base, Base: "b-1", State: "up"},
		{Kind: timeline.Fault, Base: "b-1", State: "set"},
		pod("u1", "Pending", false),
		{Kind: timeline.Command, Base: "b-1", Name: "installBiz", Code: "Failed"},
		pod("u1", "Running", true), pod("u1", "Running", true),
		{Kind: timeline.Step, State: "began"},
		{Kind: timeline.Component, Name: "broker", State: "exited"},
	}}}})
	want := []string{
		" > base up ",
		" > pod Pending  ready=false deleting=false gone=false",
		"base up  > command  Failed installBiz",
		"pod Pending  ready=false deleting=false gone=false > pod Running  ready=true deleting=false gone=false",
		" > component exited  broker",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
}

// Each line is told once, when it is complete, and only those of controllers.
func TestLogs(t *testing.T) {
	folder := t.TempDir()
	log := filepath.Join(folder, "controller.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(folder, "broker.log")
	if err := os.WriteFile(other, []byte("a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := &sandbox.Status{Components: []sandbox.Component{
		{Name: controller, Log: log}, {Name: "broker", Log: other}, {Name: controller + "-2", Log: filepath.Join(folder, "none")},
	}}
	l := logs{}
	var got [][]string
	for _, text := range []string{
		"time=2026-01-02T03:04:05.006Z level=WARN msg=\"a worker failed\" base=2ed81e34-c50f biz=biz1 in=50ms err=\"x on base \\\"fuzz-9-http-1\\\"\"\nhalf a ",
		"line\n", "",
	} {
		write(text)
		got = append(got, l.next(status))
	}
	want := [][]string{{`log time=# level=WARN msg="a worker failed" base=# biz=# in=# err="x on base \"#\""`}, {"log half a line"}, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
	if got, want := lastOf(status), "module-controller: half a line\n"; !strings.HasSuffix(got, want) || strings.Count(got, "module-controller: ") != 2 {
		t.Errorf("of a failure is kept:\n%s", got)
	}
}
