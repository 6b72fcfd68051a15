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
