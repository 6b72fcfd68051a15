package watch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

func after(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// rollout is a rolling update of one base, beside one that goes down.
var rollout = []timeline.Event{
	{Kind: timeline.Component, Time: after(0), Name: "broker", State: "running"},
	{Kind: timeline.Component, Time: after(0), Name: "module-controller", State: "running"},
	{Kind: timeline.Base, Time: after(10), Base: "base-1", Identity: "id-1", State: "up"},
	{Kind: timeline.Base, Time: after(10), Base: "base-1", Identity: "id-1", State: "ready"},
	{Kind: timeline.Base, Time: after(10), Base: "base-1", Identity: "id-1", State: "connected"},
	{Kind: timeline.Base, Time: after(10), Base: "base-2", Identity: "id-2", State: "connected"},
	{Kind: timeline.Module, Time: after(500), Base: "base-1", Module: "stock", Version: "1", State: "ACTIVATED"},
	{Kind: timeline.Pod, Time: after(600), Base: "base-1", Pod: &timeline.PodState{Name: "stock-a", UID: "a", Node: "vnode.id-1", Phase: "Running", Ready: true, Modules: []timeline.ModuleRef{{Name: "stock", Version: "1"}}}},
	{Kind: timeline.Synced, Time: after(700)},
	{Kind: timeline.Fault, Time: after(3000), Base: "base-2", Name: "fault-1", State: "set", Message: "silent"},
	{Kind: timeline.Pod, Time: after(4900), Pod: &timeline.PodState{Name: "stock-b", UID: "b", Phase: "Pending", Modules: []timeline.ModuleRef{{Name: "stock", Version: "2"}}}},
	{Kind: timeline.Pod, Time: after(5000), Base: "base-1", Pod: &timeline.PodState{Name: "stock-b", UID: "b", Node: "vnode.id-1", Phase: "Running", Modules: []timeline.ModuleRef{{Name: "stock", Version: "2"}}}},
	{Kind: timeline.Module, Time: after(5000), Base: "base-1", Module: "stock", Version: "2", State: "RESOLVED"},
	{Kind: timeline.Command, Time: after(9000), Base: "base-1", Name: "installBiz", Module: "stock", Version: "2", Elapsed: 4 * time.Second},
	{Kind: timeline.Module, Time: after(9000), Base: "base-1", Module: "stock", Version: "2", State: "ACTIVATED", From: "RESOLVED"},
	{Kind: timeline.Module, Time: after(9000), Base: "base-1", Module: "stock", Version: "1", State: "DEACTIVATED", From: "ACTIVATED"},
	{Kind: timeline.Request, Time: after(12000), Base: "base-1", Name: "traffic", State: "notFound"},
	{Kind: timeline.Component, Time: after(15000), Name: "module-controller", State: "exited", Message: "signal: killed\x1b[2J"},
	{Kind: timeline.Command, Time: after(18000), Base: "base-1", Name: "uninstallBiz", Module: "stock", Version: "1", Code: "User.Hang"},
	{Kind: timeline.Base, Time: after(20000), Base: "base-2", Identity: "id-2", State: "down"},
}

func screenAt(t *testing.T, ms int, events ...timeline.Event) *model {
	t.Helper()
	s := NewScreen(ScreenOptions{Title: "sandbox koup", Clock: clocktesting.NewFakePassiveClock(after(ms))})
	for _, e := range events {
		if err := s.Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	return &model{screen: s, span: 2}
}

func press(m *model, keys ...tea.KeyPressMsg) {
	for _, k := range keys {
		m.Update(k)
	}
}

func TestScreen(t *testing.T) {
	for _, tc := range []struct {
		name          string
		width, height int
		change        func(*model)
	}{
		{"wide", 150, 22, func(*model) {}},
		{"narrow", 80, 20, func(*model) {}},
		{"ten seconds without Pods", 80, 18, func(m *model) { press(m, tea.KeyPressMsg{Code: '+', Text: "+"}, tea.KeyPressMsg{Code: 'p', Text: "p"}) }},
		{"low and scrolled", 80, 8, func(m *model) { press(m, tea.KeyPressMsg{Code: tea.KeyDown}, tea.KeyPressMsg{Code: tea.KeyDown}) }},
		{"too small", 30, 5, func(*model) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := screenAt(t, 25000, rollout...)
			m.Update(tea.WindowSizeMsg{Width: tc.width, Height: tc.height})
			tc.change(m)
			got := m.View().Content
			for _, line := range strings.Split(got, "\n") {
				if w := ansi.StringWidth(line); w > tc.width {
					t.Errorf("a line is %d wide: %q", w, line)
				}
			}
			if n := strings.Count(got, "\n") + 1; n > tc.height {
				t.Errorf("%d lines on a screen of %d", n, tc.height)
			}
			golden(t, strings.ReplaceAll(tc.name, " ", "-"), ansi.Strip(got))
			golden(t, strings.ReplaceAll(tc.name, " ", "-")+"-color", got)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name + ".txt"
	got += "\n"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s; write it anew with -update (-want +got):\n%s", file, diff)
	}
}

// stuck is a release that goes wrong in three ways, on a terminal with the usual components.
func stuck() []timeline.Event {
	var events []timeline.Event
	for _, name := range []string{"broker", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "module-controller"} {
		events = append(events, timeline.Event{Kind: timeline.Component, Time: after(0), Name: name, State: "running"})
	}
	const before, release = "0.0.1-SNAPSHOT", "0.0.2-SNAPSHOT"
	pod := func(ms int, base, version, phase, reason string) timeline.Event {
		return timeline.Event{Kind: timeline.Pod, Time: after(ms), Base: base, Pod: &timeline.PodState{Name: "test-module-deployment-8489b9899b-" + base, UID: base + version,
			Node: "vnode." + base, Phase: phase, Ready: reason == "", Reason: reason, Modules: []timeline.ModuleRef{{Name: "biz1", Version: version}}}}
	}
	for _, base := range []string{"base-1", "base-2", "base-3"} {
		events = append(events,
			timeline.Event{Kind: timeline.Base, Time: after(10), Base: base, Identity: base, State: "ready"},
			timeline.Event{Kind: timeline.Base, Time: after(10), Base: base, Identity: base, State: "connected"},
			timeline.Event{Kind: timeline.Module, Time: after(20), Base: base, Module: "biz1", Version: before, State: "ACTIVATED"},
			pod(30, base, before, "Running", ""))
	}
	return append(events,
		timeline.Event{Kind: timeline.Synced, Time: after(700)},
		timeline.Event{Kind: timeline.Fault, Time: after(2000), Base: "base-3", Name: "fault-1", State: "set", Message: "hang"},
		pod(3000, "base-2", release, "Pending", "DiskFull"),
		pod(4000, "base-3", release, "Pending", "ContainerCreating"),
		timeline.Event{Kind: timeline.Module, Time: after(4000), Base: "base-3", Module: "biz1", Version: release, State: "RESOLVED"},
		timeline.Event{Kind: timeline.Fault, Time: after(4000), Base: "base-3", Name: "fault-1", State: "fired", Message: "hang"},
		timeline.Event{Kind: timeline.Command, Time: after(20000), Base: "base-2", Name: "installBiz", Module: "biz1", Version: release, Code: "User.DiskFull", Message: "java.io.IOException: No space left on device"},
		timeline.Event{Kind: timeline.Component, Time: after(21000), Name: "module-controller", State: "exited", Message: "signal: killed"})
}

// On a terminal of the usual size the lanes say which versions there are and why a base is stuck;
// healthy components take one line, and each sign and each colour is explained.
func TestUsualSize(t *testing.T) {
	m := screenAt(t, 25000, stuck()...)
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	got := m.View().Content
	golden(t, "usual-size", ansi.Strip(got))
	golden(t, "usual-size-color", got)
	lines := strings.Split(ansi.Strip(got), "\n")
	lane := func(name string) string { // with the line beneath it
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+" ") })
		if i < 0 {
			return ""
		}
		return strings.Join(lines[i:i+2], "\n")
	}
	for _, tc := range []struct{ lane, want string }{
		{"components", "5 running"},
		{"module-controller", "exited: signal: killed"},
		{"base-1", "biz1 █0.0.1-SNAPSHOT"},
		{"base-2", "1/2 Ready, DiskFull"},
		{"base-3", "biz1 █0.0.1-SNAPSHOT ▒0.0.2-SNAPSHOT 21s"},
		{"base-3", "1/2 Ready, fault hang, ContainerCreating"},
	} {
		if got := lane(tc.lane); !strings.Contains(got, tc.want) {
			t.Errorf("the lane %s lacks %q:\n%s", tc.lane, tc.want, got)
		}
	}
	for _, name := range []string{"broker", "etcd", "kube-scheduler"} {
		if got := lane(name); got != "" {
			t.Errorf("%s is healthy and has a lane of its own: %s", name, got)
		}
	}
	foot := strings.Join(lines[len(lines)-10:], "\n")
	for _, want := range []string{"■ 0.0.1-SNAPSHOT", "■ 0.0.2-SNAPSHOT", "█ serves", "▓ and installs", "▒ installs", "░ deactivated", "━ Pod Ready", "╌ not Ready",
		"! lost", "× failed", "x down", "~ disconnected", "─ running", "= paused", "▒ fault", "* struck", "○ no base", "User.DiskFull"} {
		if !strings.Contains(foot, want) {
			t.Errorf("the foot lacks %q:\n%s", want, foot)
		}
	}
}

// A base that is stuck says why also where the rows of Pods are hidden, or it has none.
func TestReasonsWithoutPods(t *testing.T) {
	m := screenAt(t, 25000, stuck()...)
	m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	press(m, tea.KeyPressMsg{Code: 'p', Text: "p"})
	got := ansi.Strip(m.View().Content)
	for _, want := range []string{"  DiskFull, User.DiskFull: installBiz", "  fault hang, ContainerCreating"} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "  Pods  ") {
		t.Errorf("Pods are not hidden:\n%s", got)
	}
}

// A component that was away has a lane of its own until that is out of sight.
func TestComponentsFoldAgain(t *testing.T) {
	events := append(stuck(), timeline.Event{Kind: timeline.Component, Time: after(22000), Name: "module-controller", State: "running"})
	for ms, want := range map[int]string{25000: "5 running", 51999: "5 running", 53000: "6 running"} {
		m := screenAt(t, ms, events...)
		m.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
		got := ansi.Strip(m.View().Content)
		if folded := strings.Contains(got, "\nmodule-controller "); !strings.Contains(got, want) || folded != (want == "5 running") {
			t.Errorf("after %d ms, want %s:\n%s", ms, want, got)
		}
	}
}

// A paused screen stands still while events go on.
func TestPause(t *testing.T) {
	m := screenAt(t, 25000, rollout...)
	clock := clocktesting.NewFakePassiveClock(after(25000))
	m.screen.o.Clock = clock
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 20})
	press(m, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	lanes := func() string {
		all := strings.Split(m.draw(), "\n")
		return strings.Join(all[1:9], "\n")
	}
	before := lanes()
	clock.SetTime(after(29000))
	if diff := cmp.Diff(before, lanes()); diff != "" {
		t.Errorf("while paused (-before +after):\n%s", diff)
	}
	press(m, tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	if before == lanes() {
		t.Error("it stands still when it goes on again")
	}
}

// The screen ends with the user's key, and with what it follows.
func TestRunEnds(t *testing.T) {
	t.Run("q", func(t *testing.T) {
		in, keys := io.Pipe()
		s := NewScreen(ScreenOptions{})
		following := make(chan struct{})
		go func() {
			<-following
			_, _ = io.WriteString(keys, "q")
		}()
		err := s.Run(t.Context(), in, &bytes.Buffer{}, func(ctx context.Context) error {
			close(following)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Run("the sandbox", func(t *testing.T) {
		in, _ := io.Pipe()
		s := NewScreen(ScreenOptions{})
		err := s.Run(t.Context(), in, &bytes.Buffer{}, func(context.Context) error { return fmt.Errorf("watching: %w", ErrEnded) })
		if !errors.Is(err, ErrEnded) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Run("Ctrl-C from outside", func(t *testing.T) {
		in, _ := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		s := NewScreen(ScreenOptions{})
		err := s.Run(ctx, in, &bytes.Buffer{}, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// BenchmarkDraw draws the lanes of a thousand bases.
func BenchmarkDraw(b *testing.B) {
	s := NewScreen(ScreenOptions{Title: "sandbox koup", Clock: clocktesting.NewFakePassiveClock(after(25000))})
	for n := range 1000 {
		for _, e := range rollout {
			if e.Base != "" {
				e.Base = fmt.Sprintf("base-%d", n+1)
			}
			if e.Pod != nil {
				p := *e.Pod
				p.UID += e.Base
				e.Pod = &p
			}
			_ = s.Observe(e) // it never fails
		}
	}
	m := &model{screen: s, span: 2, width: 150, height: 50}
	for b.Loop() {
		m.draw()
	}
}

// A base that was removed does not count, although its removal is told after its end.
func TestHeadCountsRunningBases(t *testing.T) {
	m := screenAt(t, 25000, append(slices.Clone(rollout), timeline.Event{Kind: timeline.Base, Time: after(21000), Base: "base-2", State: "removed"})...)
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 20})
	if head, _, _ := strings.Cut(ansi.Strip(m.View().Content), "\n"); !strings.Contains(head, "bases 1 ") {
		t.Errorf("want one base in %q", head)
	}
}
