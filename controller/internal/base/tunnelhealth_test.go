package base

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// newFixtureWithTunnel returns a world with the given bases, which are connected over MQTT and served by the
// controller. The test sets down to disconnect tunnels.
func newFixtureWithTunnel(bases ...string) (w *fixture, down map[tunnel.Key]bool) {
	down = map[tunnel.Key]bool{}
	w = newFixture()
	w.opts.Connected = func(key tunnel.Key) bool { return !down[key] }
	w.Sweep()
	for _, id := range bases {
		_, _ = w.HandleHeartbeat(overMQTT(id), beat("1.0.0"))
		w.SetOwned(id, true)
	}
	w.take()
	return w, down
}

// kinds returns the changes since the previous call, formatted as "identity kind".
func (w *fixture) kinds() (list []string) {
	for _, c := range w.take() {
		switch c.Kind {
		case LivenessChanged:
			list = append(list, c.Identity+" "+c.Liveness.String())
		case Disappeared:
			list = append(list, c.Identity+" removed")
		case ObservedChanged:
			s, _ := w.Get(c.Identity)
			list = append(list, fmt.Sprintf("%s unobservable %q", c.Identity, s.Observed.Reason))
		}
	}
	return list
}

func (w *fixture) wantKinds(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.kinds()); diff != "" {
		t.Errorf("changes %s (-want +got):\n%s", when, diff)
	}
}

func TestMissedHeartbeatsAreIgnoredWhileTunnelIsDown(t *testing.T) {
	w, down := newFixtureWithTunnel("a")
	down[tunnel.MQTT] = true
	w.advance(3 * time.Second)
	w.wantKinds(t, "when the tunnel is down for a moment")
	w.advance(10 * time.Minute)
	w.wantKinds(t, "after ten minutes without the tunnel", `a unobservable "TunnelDown"`)
	down[tunnel.MQTT] = false
	w.Reconnected(tunnel.MQTT)
	if got := w.Sweep().Queries; len(got) != 2 {
		t.Errorf("%d queries are due when the tunnel has reconnected, want 2", len(got))
	}
	w.advance(api.ReconnectGrace + api.UnreachableAfter - 2*time.Second)
	w.wantKinds(t, "while it may take to connect again")
	w.advance(3 * time.Second)
	w.wantKinds(t, "after the grace period", "a unreachable", `a unobservable ""`)
	w.advance(api.DeadAfter - api.UnreachableAfter)
	w.wantKinds(t, "after DeadAfter", "a removed")
}

func TestSuspendedProcess(t *testing.T) {
	w, _ := newFixtureWithTunnel("a", "b")
	w.clock.Step(5 * time.Minute)
	found := w.Sweep()
	if diff := cmp.Diff([]ConnectivityEvent{{Reason: ControllerSuspended, Duration: 5 * time.Minute}},
		found.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(found.Queries) != 4 {
		t.Errorf("%d queries are due, want 4 for both bases", len(found.Queries))
	}
	if got := w.Unobserved()[ControllerSuspended]; got != 2 {
		t.Errorf("%d bases are not observed, want 2", got)
	}
	w.kinds()
	w.Touch("a")
	w.wantKinds(t, "when a base sends a message", `a unobservable ""`)
	w.advance(time.Minute)
	if s, known := w.Get("b"); !known || s.Liveness != Reachable {
		t.Errorf("a minute later, the base without messages is known: %t, %s", known, s.Liveness)
	}
}

func TestNoGracePeriodOverHTTP(t *testing.T) {
	w, _ := newFixtureWithTunnel()
	_, _ = w.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "h"}, beat("1.0.0"))
	w.SetOwned("h", true)
	w.clock.Step(5 * time.Minute)
	w.Sweep()
	w.take()
	w.advance(api.UnreachableAfter - time.Second)
	w.wantKinds(t, "before its own missed")
	w.advance(time.Second)
	w.wantKinds(t, "after it", "h unreachable", `h unobservable ""`)
}

func TestSuspendDetectorUsesLongerGap(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		mono, wall, want time.Duration
	}{
		"in time":                     {time.Second, time.Second, 0},
		"a little late":               {5 * time.Second, 5 * time.Second, 0},
		"stopped":                     {time.Minute, time.Minute, time.Minute},
		"the machine slept":           {time.Second, time.Hour, time.Hour},
		"the wall clock was set back": {time.Second, -time.Hour, 0},
	} {
		a := suspendDetector{maxGap: 5 * time.Second}
		a.check(begin, begin)
		if got := a.check(begin.Add(c.mono), begin.Add(c.wall)); got != c.want {
			t.Errorf("%s: suspended for %s, want %s", name, got, c.want)
		}
	}
}

func TestAdoptedBasesHaveGracePeriod(t *testing.T) {
	w, _ := newFixtureWithTunnel()
	w.Adopt(Info{Identity: "a", Tunnel: tunnel.MQTT}, time.Time{})
	w.Adopt(Info{Identity: "h", Tunnel: tunnel.HTTP}, time.Time{})
	w.SetOwned("a", true)
	w.take()
	w.advance(api.UnreachableAfter)
	w.wantKinds(t, "after the time of a base over HTTP", "h unreachable")
	w.advance(api.ReconnectGrace)
	w.wantKinds(t, "after DeadAfter", "h removed", "a unreachable")
}

func TestBaseWithDeletedNodeNeedsHeartbeat(t *testing.T) {
	w, _ := newFixtureWithTunnel("a", "b", "c")
	w.RequireHeartbeat("a")
	w.Touch("a")
	w.wantKinds(t, "when the base sends a message", `a unobservable ""`)
	w.advance(10 * time.Second)
	w.RequireHeartbeat("a")
	w.RequireHeartbeat("b") // two of three, but this is not a mass outage
	w.keepReachable(api.UnreachableAfter/2, "c")
	w.wantKinds(t, "shortly before it is removed")
	w.keepReachable(time.Second, "c")
	if got := w.kinds(); len(got) != 2 {
		t.Errorf("changes %q, want both removed", got)
	}
}

// newDelayedFixture returns a world with the given bases, which are connected over MQTT and served by the controller.
// The test sets *behind to delay the MQTT messages.
func newDelayedFixture(bases ...string) (w *fixture, behind *bool) {
	w = newFixture()
	behind = new(bool)
	w.opts.Delayed = func(key tunnel.Key) bool { return *behind && key == tunnel.MQTT }
	w.Sweep()
	for _, id := range bases {
		_, _ = w.HandleHeartbeat(overMQTT(id), beat("1.0.0"))
		w.SetHealth(overMQTT(id), arklet.Health{})
		w.SetOwned(id, true)
	}
	w.take()
	return w, behind
}

func TestMissedHeartbeatsAreIgnoredWhileMessagesAreLate(t *testing.T) {
	w, behind := newDelayedFixture("a", "b", "c", "d", "e")
	w.advance(api.UnreachableAfter - time.Second)
	*behind = true
	news := w.Sweep().Events
	if diff := cmp.Diff([]ConnectivityEvent{{Tunnel: string(tunnel.MQTT), Reason: ControllerBehind}},
		news); diff != "" {
		t.Errorf("events when messages arrive late (-want +got):\n%s", diff)
	}
	sent := map[arklet.Command]int{}
	for range 10 * 60 {
		w.clock.Step(time.Second)
		for _, p := range w.Sweep().Queries {
			sent[p.Command]++
		}
		w.Touch("b")
		w.Touch("c")
		w.Touch("d") // so that there is no mass outage
	}
	w.wantKinds(t, "while the controller is behind")
	if sent[arklet.CommandHealth] > 0 || sent[arklet.CommandQueryAllBiz] < 100 {
		t.Errorf("queries in ten minutes: %v, want no health checks and about 190 module list queries", sent)
	}
	*behind = false
	news = w.Sweep().Events
	if len(news) != 1 || !news[0].Ended || news[0].Duration < 10*time.Minute {
		t.Errorf("events when messages arrive in time again: %+v", news)
	}
	alone := func(d time.Duration) {
		for range d / time.Second {
			w.advance(time.Second)
			for _, id := range []string{"b", "c", "d", "e"} {
				w.Touch(id)
			}
		}
	}
	alone(api.UnreachableAfter + time.Second)
	w.wantKinds(t, "when only one base has missed heartbeats since", "a unreachable")
	alone(api.DeadAfter - api.UnreachableAfter)
	w.wantKinds(t, "after DeadAfter", "a removed")
}

func TestLateMessagesAreTreatedAsMissedAfterMaxDuration(t *testing.T) {
	w, behind := newDelayedFixture("a")
	*behind = true
	w.advance(api.MassAtMost - time.Second)
	w.wantKinds(t, "for half an hour")
	w.advance(api.UnreachableAfter + time.Second)
	w.wantKinds(t, "after it", "a unreachable")
}

func TestBaseWithDeletedNodeIsKeptWhileMessagesAreLate(t *testing.T) {
	w, behind := newDelayedFixture("a")
	*behind = true
	w.Sweep()
	w.RequireHeartbeat("a")
	if probes := w.Sweep().Queries; len(probes) != 2 {
		t.Errorf("a base with a deleted Node gets %d queries, want 2", len(probes))
	}
	w.advance(10 * time.Minute)
	w.wantKinds(t, "while its answer may come late")
	*behind = false
	w.advance(api.UnreachableAfter/2 - time.Second)
	w.wantKinds(t, "before it had time to answer")
	w.advance(2 * time.Second)
	w.wantKinds(t, "when it had", "a removed")
}
