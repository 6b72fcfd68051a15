package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

var start = time.Date(2026, 3, 4, 9, 30, 0, 0, time.UTC)

func after(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func pod(ms int, base, version, phase, reason string) events.Event {
	return events.Event{Time: after(ms),
		Pod: &events.PodEvent{Base: base,
			PodState: events.PodState{Name: "stock-" + base + "-" + version, UID: base + version,
				Node: base, Phase: phase, Ready: reason == "", Reason: reason,
				Modules: []events.ModuleRef{{Name: "stock", Version: version}}}}}
}

// failedRollout returns the events of a rollout that fails on base-2 and base-10.
func failedRollout() []events.Event {
	var all []events.Event
	for _, name := range []string{"broker", "kube-apiserver", "module-controller"} {
		all = append(all, events.Event{Time: after(0), Component: &events.ComponentEvent{Name: name, State: "running"}})
	}
	for _, base := range []string{"base-1", "base-2", "base-10"} {
		all = append(all,
			events.Event{Time: after(10), Base: &events.BaseEvent{Base: base, Identity: base, Change: "ready"}},
			events.Event{Time: after(10), Base: &events.BaseEvent{Base: base, Identity: base, Change: "connected"}},
			events.Event{Time: after(20),
				Module: &events.ModuleEvent{Base: base, ModuleRef: events.ModuleRef{Name: "stock", Version: "1"},
					State: "ACTIVATED"}},
			pod(30, base, "1", "Running", ""))
	}
	return append(all,
		events.Event{Time: after(10), Health: &events.HealthEvent{Base: "base-2", Health: "DOWN"}},
		events.Event{Time: after(40), Base: &events.BaseEvent{Base: "base-3", Identity: "base-3", Change: "up"}},
		events.Event{Time: after(40), Base: &events.BaseEvent{Base: "base-4", Identity: "base-4", Change: "removed"}},
		events.Event{Time: after(700), Synced: true},
		events.Event{Time: after(2000),
			Fault: &events.FaultEvent{Base: "base-10", ID: "fault-1", Change: "set", Message: "hang"}},
		events.Event{Time: after(2500),
			Pod: &events.PodEvent{PodState: events.PodState{Name: "stock-c", UID: "c", Phase: "Pending"}}},
		pod(3000, "base-2", "2", "Pending", "DiskFull"),
		pod(4000, "base-10", "2", "Pending", "ContainerCreating"),
		events.Event{Time: after(4000),
			Module: &events.ModuleEvent{Base: "base-10", ModuleRef: events.ModuleRef{Name: "stock", Version: "2"},
				State: "RESOLVED"}},
		events.Event{Time: after(5000),
			Request: &events.RequestEvent{Stream: "traffic", Base: "base-1", Result: "notFound"}},
		events.Event{Time: after(6000),
			Base: &events.BaseEvent{Base: "base-1", Identity: "base-1", Change: "disconnected"}},
		events.Event{Time: after(6000),
			Node: &events.NodeEvent{Name: "vnode.base-1", Base: "base-1", State: "NotReady"}},
		events.Event{Time: after(20000),
			Command: &events.CommandEvent{Base: "base-2", Name: "installBiz",
				Module: events.ModuleRef{Name: "stock", Version: "2"}, Code: "User.DiskFull",
				Message: "java.io.IOException\x1b[2J"}},
		events.Event{Time: after(20001), Command: &events.CommandEvent{Base: "base-2", Name: "health"}},
		events.Event{Time: after(21000),
			Component: &events.ComponentEvent{Name: "module-controller", State: "exited", Message: "signal: killed"}},
		events.Event{Time: after(22000), Base: &events.BaseEvent{Base: "base-3", Identity: "base-3", Change: "down"}})
}

func press(m *model, keys ...string) {
	for _, k := range keys {
		code := map[string]rune{"down": tea.KeyDown, "up": tea.KeyUp, "space": tea.KeySpace, "?": '?'}[k]
		m.Update(tea.KeyPressMsg{Code: code})
	}
}

// observed returns a screen that has observed the given events, and the clock of the screen.
func observed(t *testing.T, width, height int, all ...events.Event) (*model, *clocktesting.FakePassiveClock) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(after(25000))
	m := &model{screen: NewScreen(ScreenOptions{Title: "sandbox koup", Clock: clock})}
	for _, e := range all {
		if err := m.screen.Observe(e); err != nil {
			t.Fatal(err)
		}
	}
	m.Init()
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return m, clock
}

func TestScreen(t *testing.T) {
	for _, tc := range []struct {
		name          string
		width, height int
		keys          []string
		want          string
	}{
		{"wide", 130, 11, nil, `
sandbox koup   09:30:25   4 bases
2 components running, module-controller exited: signal: killed
1 Pod without a base

BASE     STATE                       MODULES                     PODS                    LOST  LAST EVENT
base-1   disconnected, Node NotRea…  stock:1                     1/1                     1     09:30:06 Node NotReady
base-2   ready DOWN                  stock:1                     1/2, DiskFull                 09:30:20 installBiz stock:2 User.D…
base-3   down                                                                                  09:30:22 down
base-10  ready, fault hang           stock:2 installing, stock…  1/2, ContainerCreating        09:30:04 stock:2 RESOLVED

q quit   space pause   ↑ ↓ scroll   ? help`},
		{"narrow and scrolled", 80, 8, []string{"down", "down", "down", "down", "up"}, `
sandbox koup   09:30:25   4 bases
2 components running, module-controller exited: signal: killed
1 Pod without a base

BASE     STATE             MODULES           PODS              LOST  LAST EVENT
base-3   down                                                        09:30:22 d…
base-10  ready, fault ha…  stock:2 install…  1/2, ContainerC…        09:30:04 s…
q quit   space pause   ↑ ↓ scroll   ? help`},
		{"too small", 30, 5, nil, "the terminal is too small"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, _ := observed(t, tc.width, tc.height, failedRollout()...)
			press(m, tc.keys...)
			got := m.draw()
			for line := range strings.Lines(got) {
				if w := ansi.StringWidth(strings.TrimSuffix(line, "\n")); w > tc.width {
					t.Errorf("line of %d columns on a screen of %d: %q", w, tc.width, line)
				}
			}
			if n := strings.Count(got, "\n") + 1; n > tc.height {
				t.Errorf("%d lines on a screen of %d", n, tc.height)
			}
			var lines []string
			for line := range strings.Lines(ansi.Strip(got)) {
				lines = append(lines, strings.TrimRight(line, " \n"))
			}
			if diff := cmp.Diff(strings.TrimPrefix(tc.want, "\n"), strings.Join(lines, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPausedScreenDoesNotChange checks that a paused screen keeps its content when new events arrive.
func TestPausedScreenDoesNotChange(t *testing.T) {
	m, clock := observed(t, 100, 20, failedRollout()...)
	press(m, "space")
	before := m.draw()
	clock.SetTime(after(29000))
	down := events.Event{Time: after(26000),
		Base: &events.BaseEvent{Base: "base-2", Identity: "base-2", Change: "down"}}
	if err := m.screen.Observe(down); err != nil {
		t.Fatal(err)
	}
	m.Update(tick{})
	if diff := cmp.Diff(before, m.draw()); diff != "" {
		t.Errorf("paused (-before +after):\n%s", diff)
	}
	press(m, "space")
	m.Update(tick{})
	if got := m.draw(); !strings.Contains(got, "09:30:29") || !strings.Contains(got, "09:30:26 down") {
		t.Errorf("screen after the pause:\n%s", got)
	}
}

func TestRates(t *testing.T) {
	m, clock := observed(t, 100, 20)
	m.screen.updateRates([]traffic.Summary{{Name: "a", Sent: 100, Lost: 1}, {Name: "ended", Ended: start}})
	clock.SetTime(after(27000))
	m.screen.updateRates([]traffic.Summary{{Name: "a", Sent: 200, Open: 2, Lost: 5}})
	m.Update(tick{})
	if got, want := ansi.Strip(m.draw()), "\nstream a: 47 ok/s, 2 lost/s, 200 sent, 5 lost\n"; !strings.Contains(got,
		want) {
		t.Errorf("the screen does not contain %q:\n%s", want, got)
	}
}

// TestRunReturns checks that Run returns when the user presses q, when the sandbox stops, and when its context ends.
func TestRunReturns(t *testing.T) {
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
	t.Run("sandbox stopped", func(t *testing.T) {
		in, _ := io.Pipe()
		s := NewScreen(ScreenOptions{})
		err := s.Run(t.Context(), in, &bytes.Buffer{},
			func(context.Context) error { return fmt.Errorf("watching: %w", ErrEnded) })
		if !errors.Is(err, ErrEnded) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Run("context cancelled", func(t *testing.T) {
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
