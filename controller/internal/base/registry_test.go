package base

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// fixture is a Registry with a fake clock. It records all changes of the Registry.
type fixture struct {
	*Registry
	clock   *clocktesting.FakeClock
	changes []Change
}

func newFixture() *fixture {
	w := &fixture{clock: clocktesting.NewFakeClock(time.Date(2024, 7, 18, 11, 24, 33, 0, time.UTC))}
	w.Registry = NewRegistry(Options{Clock: w.clock, Observer: func(c Change) { w.changes = append(w.changes, c) }})
	return w
}

// advance advances the clock and runs a sweep every second.
func (w *fixture) advance(d time.Duration) {
	for range d / time.Second {
		w.clock.Step(time.Second)
		w.Sweep()
	}
}

// take returns the changes that were recorded since the previous call.
func (w *fixture) take() []Change {
	c := w.changes
	w.changes = nil
	return c
}

func (w *fixture) want(t *testing.T, want ...Change) {
	t.Helper()
	if diff := cmp.Diff(want, w.take(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func overMQTT(identity string) tunnel.Origin {
	return tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity}
}

func beat(version string) arklet.Heartbeat {
	return arklet.Heartbeat{Name: "base", Version: version, IP: "198.18.0.1", HostName: "base-0", Active: true}
}

func TestHeartbeats(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	w.want(t, Change{Kind: Appeared, Identity: "a"})
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	w.want(t)
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("2.0.0"))
	w.want(t, Change{Kind: InfoChanged, Identity: "a"})

	overHTTP := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a"}
	_, _ = w.HandleHeartbeat(overHTTP, beat("2.0.0"))
	w.want(t)
	if s, _ := w.Get("a"); s.Tunnel != tunnel.MQTT {
		t.Errorf("the base belongs to the tunnel %s after a heartbeat over a second tunnel", s.Tunnel)
	}

	going := beat("2.0.0")
	going.Active = false
	_, _ = w.HandleHeartbeat(overMQTT("a"), going)
	w.want(t, Change{Kind: Disappeared, Identity: "a"})
	if _, known := w.Get("a"); known {
		t.Error("a base that said that it goes is still known")
	}
}

func TestMissedHeartbeats(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	w.SetOwned("a", true)
	w.take()

	pass := w.advance
	pass(24 * time.Second)
	w.want(t)
	pass(time.Second)
	w.want(t, Change{Kind: LivenessChanged, Identity: "a", Liveness: Unreachable})
	pass(30 * time.Second)
	w.want(t)

	w.Touch("a") // any message counts as a heartbeat
	w.want(t, Change{Kind: LivenessChanged, Identity: "a", Liveness: Reachable})
	pass(59 * time.Second)
	w.want(t, Change{Kind: LivenessChanged, Identity: "a", Liveness: Unreachable})
	pass(time.Second)
	w.want(t, Change{Kind: Disappeared, Identity: "a", TimedOut: true})
}

func TestEveryMessageCountsAsHeartbeat(t *testing.T) {
	for name, say := range map[string]func(*fixture){
		"heartbeat": func(w *fixture) { _, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0")) },
		"health":    func(w *fixture) { w.SetHealth(overMQTT("a"), arklet.Health{}) },
		"modules":   func(w *fixture) { w.SetModules(overMQTT("a"), nil) },
		"other":     func(w *fixture) { w.Touch("a") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture()
			_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
			w.clock.Step(40 * time.Second)
			w.Sweep()
			if s, _ := w.Get("a"); s.Liveness != Unreachable {
				t.Fatalf("after 40 s without a message, the base is %s", s.Liveness)
			}
			say(w)
			if s, _ := w.Get("a"); s.Liveness != Reachable {
				t.Errorf("after its message, the base is %s", s.Liveness)
			}
		})
	}
}

func TestSweepReturnsDueQueries(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	ask := func() (commands []arklet.Command) {
		for _, p := range w.Sweep().Queries {
			commands = append(commands, p.Command)
		}
		return commands
	}
	want := func(when string, commands ...arklet.Command) {
		t.Helper()
		if diff := cmp.Diff(commands, ask()); diff != "" {
			t.Errorf("queries %s (-want +got):\n%s", when, diff)
		}
	}
	want("for a base that no controller serves", arklet.CommandHealth)
	want("immediately after that")
	w.SetHealth(overMQTT("a"), arklet.Health{})
	w.advance(20 * time.Second)
	want("for a base that another controller serves")
	w.SetOwned("a", true)
	want("for a base that was taken over", arklet.CommandHealth, arklet.CommandQueryAllBiz)
	w.Touch("a")
	for range 10 {
		w.clock.Step(time.Second)
		want("before the health interval")
	}
	w.clock.Step(time.Second)
	want("after the health interval", arklet.CommandHealth)
	w.Reconnected(tunnel.HTTP)
	want("after another tunnel reconnected")
	w.Reconnected(tunnel.MQTT)
	want("after the MQTT tunnel reconnected", arklet.CommandHealth, arklet.CommandQueryAllBiz)
	w.clock.Step(time.Second)
	want("before the base has reconnected", arklet.CommandQueryAllBiz)
	w.clock.Step(time.Second)
	want("again", arklet.CommandQueryAllBiz)
	w.changes = nil
	w.Touch("a")
	w.Touch("a")
	if diff := cmp.Diff([]Change{{Kind: Returned, Identity: "a"}}, w.changes); diff != "" {
		t.Errorf("changes when the base has reconnected (-want +got):\n%s", diff)
	}
	want("when the base has reconnected", arklet.CommandHealth, arklet.CommandQueryAllBiz)
	w.clock.Step(time.Second)
	want("a second after that")
}

func TestMissedHeartbeatsAreCountedOnce(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	total := 0
	for range 20 {
		w.clock.Step(time.Second)
		total += w.Sweep().Missed
	}
	if total != 1 {
		t.Errorf("20 s without a message count as %d missed heartbeats, want 1", total)
	}
}

func biz(name, version string, state arklet.State) arklet.Biz {
	return arklet.Biz{Name: name, Version: version, State: state}
}

func TestModules(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	w.take()
	at := func(ms int64) tunnel.Origin {
		return tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.UnixMilli(ms)}
	}
	set := func(ms int64, want bool, list ...arklet.Biz) {
		t.Helper()
		if got := w.SetModules(at(ms), list); got != want {
			t.Errorf("the list of %d ms was accepted: %t, want %t", ms, got, want)
		}
	}
	set(10, true)
	w.want(t, Change{Kind: ModulesChanged, Identity: "a"})
	set(20, true, biz("biz1", "1", arklet.StateResolved), biz("biz2", "1", arklet.StateActivated))
	if c := w.take(); len(c) != 1 || len(c[0].Names) != 2 {
		t.Errorf("changes for two new modules: %v", c)
	}
	set(30, true, biz("biz1", "1", arklet.StateActivated), biz("biz2", "1", arklet.StateActivated))
	w.want(t, Change{Kind: ModulesChanged, Identity: "a", Names: []string{"biz1"}})
	set(40, true, biz("biz1", "1", arklet.StateActivated), biz("biz2", "1", arklet.StateActivated))
	w.want(t)

	// Outdated lists change nothing, unless several arrive in a row.
	set(15, false)
	set(16, false)
	w.want(t)
	if s, _ := w.Get("a"); len(s.Modules) != 2 {
		t.Errorf("an outdated list was accepted: %v", s.Modules)
	}
	w.clock.Step(api.ListInterval - time.Second)
	set(17, false) // more than one delayed message can arrive
	w.clock.Step(time.Second)
	set(18, true)
	if s, _ := w.Get("a"); len(s.Modules) != 0 {
		t.Errorf("the list of a base whose clock was set back is not accepted: %v", s.Modules)
	}
}

func TestListIsDiscardedWhenControllerStartsServing(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	at := func(ms int64) tunnel.Origin {
		return tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a", At: time.UnixMilli(ms)}
	}
	w.SetModules(at(20), []arklet.Biz{biz("biz1", "1", arklet.StateActivated)})
	w.SetOwned("a", true)
	if s, _ := w.Get("a"); s.Modules != nil {
		t.Errorf("an outdated list was accepted: %v", s.Modules)
	}
	if w.SetModules(at(10), nil) {
		t.Error("a list that is older still was taken")
	}
	w.take()
	w.SetModules(at(30), []arklet.Biz{biz("biz1", "1", arklet.StateActivated)})
	w.want(t, Change{Kind: ModulesChanged, Identity: "a", Names: []string{"biz1"}})
	w.SetOwned("a", true)
	if s, _ := w.Get("a"); len(s.Modules) != 1 {
		t.Errorf("the list of a base that was served already was discarded: %v", s.Modules)
	}
}

func TestDecreasedRunTimeMeansRestart(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(overMQTT("a"), beat("1.0.0"))
	w.SetHealth(overMQTT("a"), arklet.Health{RunTime: time.Minute, MetaspaceMax: 100})
	w.take()
	w.SetHealth(overMQTT("a"), arklet.Health{RunTime: 2 * time.Minute, MetaspaceMax: 100})
	w.want(t)
	w.SetHealth(overMQTT("a"), arklet.Health{RunTime: time.Second, MetaspaceMax: 100})
	w.want(t, Change{Kind: Restarted, Identity: "a"})
}

func TestAdopt(t *testing.T) {
	w := newFixture()
	w.Adopt(Info{Identity: "a", Name: "base", Tunnel: tunnel.MQTT}, time.Time{})
	w.want(t, Change{Kind: Appeared, Identity: "a"})
	w.Adopt(Info{Identity: "a", Name: "other", Tunnel: tunnel.HTTP}, time.Time{})
	w.want(t)
	if s, _ := w.Get("a"); s.Name != "base" {
		t.Errorf("adopting a known base changed it: %+v", s.Info)
	}
}

func TestDisplayName(t *testing.T) {
	r := NewRegistry(Options{})
	for identity, host := range map[string]string{
		"a": "base-1", "b": "laptop", "c": "laptop", "d": "",
	} {
		_, _ = r.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: identity},
			arklet.Heartbeat{Active: true, HostName: host})
	}
	called := map[string]string{}
	for _, identity := range []string{"a", "b", "c", "d", "unknown"} {
		called[identity] = r.DisplayName(identity)
	}
	want := map[string]string{
		"a": "base-1", "b": "laptop (b)", "c": "laptop (c)", "d": "d", "unknown": "unknown",
	}
	if diff := cmp.Diff(want, called); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	_, _ = r.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "c"},
		arklet.Heartbeat{Active: true, HostName: "other"})
	if got := r.DisplayName("b"); got != "laptop" {
		t.Errorf("name %q after the other base changed its host name", got)
	}
	_, _ = r.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "c"},
		arklet.Heartbeat{Active: true, HostName: "laptop"})
	_, _ = r.HandleHeartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "c"}, arklet.Heartbeat{HostName: "laptop"})
	if got := r.DisplayName("b"); got != "laptop" {
		t.Errorf("name %q after the other base ended", got)
	}
}
