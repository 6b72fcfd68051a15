package base

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

func TestMassFailure(t *testing.T) {
	at := func(seconds ...int) (list []missingBase) {
		for i, s := range seconds {
			list = append(list,
				missingBase{identity: string(rune('a' + i)), missedSince: time.Unix(int64(s), 0),
					lastMessageAt: time.Unix(int64(s), 0)})
		}
		return list
	}
	from := func(list []missingBase, second int) []missingBase {
		for i := range list {
			list[i].appearedAt = time.Unix(int64(second), 0)
		}
		return list
	}
	for name, c := range map[string]struct {
		list     []missingBase
		all      int
		want     map[string]bool
		appeared []missingBase
	}{
		"none":                  {at(), 10, nil, nil},
		"one of two":            {at(0), 2, nil, nil},
		"both of two":           {at(0, 0), 2, nil, nil},
		"one of three":          {at(0), 3, nil, nil},
		"two of three":          {at(0, 1), 3, map[string]bool{"a": true, "b": true}, nil},
		"half":                  {at(0, 1), 4, nil, nil},
		"more than half":        {at(0, 30, 60), 5, map[string]bool{"a": true, "b": true, "c": true}, nil},
		"outside of one window": {at(0, 30, 61), 5, nil, nil},
		"one long before the others": {at(0, 100, 110, 120), 5,
			map[string]bool{"b": true, "c": true, "d": true}, nil},
		"windows that follow each other": {at(0, 30, 60, 90, 120), 5,
			map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true}, nil},
		"a rollout of all bases": {at(110, 120, 130), 6, nil, at(105, 110, 125)},
		"other bases appeared long before": {at(110, 120, 130), 5,
			map[string]bool{"a": true, "b": true, "c": true}, at(7, 8)},
		"fewer bases appear than become unreachable": {at(110, 120, 130, 140), 6,
			map[string]bool{"a": true, "b": true, "c": true, "d": true}, at(125)},
		"all bases appeared at the same time": {from(at(110, 120, 130), 100), 5,
			map[string]bool{"a": true, "b": true, "c": true}, at(100, 105)},
		"unreachable bases appeared much earlier": {from(at(110, 120, 130), 90), 6, nil, at(101, 105, 109)},
		"one base appeared shortly before": {append(from(at(110, 120, 130), 90), from(at(130), 108)...), 8, nil,
			at(105, 106, 107, 109)},
	} {
		var o MassOptions
		o.complete()
		var appeared []time.Time
		for _, b := range c.appeared {
			appeared = append(appeared, b.missedSince)
		}
		if diff := cmp.Diff(c.want, o.massFailure(c.list, appeared, c.all, 10*time.Second),
			cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	off := MassOptions{Percent: -1}
	off.complete()
	if got := off.massFailure(at(0, 0, 0), nil, 3, 0); len(got) > 0 {
		t.Errorf("disabled detection returns %v", got)
	}
}

// TestMassFailureMatchesDefinition checks that massFailure returns a missing base if and only if some time window
// that contains the base has enough missing bases.
func TestMassFailureMatchesDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := MassOptions{Percent: rapid.IntRange(1, 100).Draw(t, "percent")}
		o.complete()
		seconds := rapid.SliceOfN(rapid.IntRange(0, 300), 0, 12).Draw(t, "missing since")
		all := len(seconds) + rapid.IntRange(0, 12).Draw(t, "reachable")
		var list []missingBase
		for i, s := range seconds {
			list = append(list, missingBase{identity: fmt.Sprint(i), missedSince: time.Unix(int64(s), 0)})
		}
		want := map[string]bool{}
		for _, b := range list {
			for _, start := range list {
				within := func(s missingBase) bool {
					return !s.missedSince.Before(start.missedSince) && s.missedSince.Sub(start.missedSince) <= o.Window
				}
				n := 0
				for _, s := range list {
					if within(s) {
						n++
					}
				}
				if all >= o.MinBases && within(b) && n*100 > o.Percent*all {
					want[b.identity] = true
				}
			}
		}
		if diff := cmp.Diff(want, o.massFailure(slices.Clone(list), nil, all, 0), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("bases in a mass outage (-want +got):\n%s", diff)
		}
	})
}

func TestBudgetPerMinute(t *testing.T) {
	for _, c := range []struct{ percent, all, want int }{{10, 1, 1}, {10, 19, 1}, {10, 20, 2}, {10, 1000, 100},
		{99, 100, 99}} {
		var b budget
		now := time.Unix(0, 0)
		took := func() (n int) {
			for b.tryRemove(c.percent, c.all, now, 1) {
				n++
			}
			return n
		}
		if got := took(); got != c.want {
			t.Errorf("%d%% of %d: %d immediately, want %d", c.percent, c.all, got, c.want)
		}
		total := 0
		for range 600 {
			now = now.Add(time.Second)
			total += took()
		}
		if total != 10*c.want {
			t.Errorf("%d%% of %d: %d in ten minutes, want %d", c.percent, c.all, total, 10*c.want)
		}
	}
}

// TestBudgetOf100Percent checks that a limit of 100 percent does not limit the number of removals.
func TestBudgetOf100Percent(t *testing.T) {
	var b budget
	for range 50 {
		if !b.tryRemove(100, 5, time.Unix(0, 0), 1) {
			t.Fatal("a removal is delayed")
		}
	}
}

func (w *fixture) touchAll(ids ...string) {
	for _, id := range ids {
		w.Touch(id)
	}
}

// keepReachable advances the clock while the given bases keep sending messages.
func (w *fixture) keepReachable(d time.Duration, ids ...string) {
	for range d / time.Second {
		w.touchAll(ids...)
		w.advance(time.Second)
	}
}

func TestMassOutageOfMostBases(t *testing.T) {
	w, _ := newFixtureWithTunnel("a", "c", "d")
	w.keepReachable(20*time.Minute, "a")
	if got := w.kinds(); len(got) != 2 {
		t.Errorf("changes in 20 min: %q, want two bases to become unobserved", got)
	}
	for _, id := range []string{"c", "d"} {
		if s, known := w.Get(id); !known || s.Liveness != Reachable || s.Observed.Reason != MassOutage {
			t.Errorf("base %s: known %t, %s, %q", id, known, s.Liveness, s.Observed.Reason)
		}
	}
	w.Touch("c")
	w.wantKinds(t, "after one base recovered", `c unobservable ""`)
	w.keepReachable(api.UnreachableAfter-time.Second, "a", "c")
	w.wantKinds(t, "before the other is unreachable")
	w.keepReachable(time.Second, "a", "c")
	w.wantKinds(t, "after the other alone missed heartbeats", "d unreachable", `d unobservable ""`)
	w.keepReachable(api.DeadAfter-api.UnreachableAfter, "a", "c")
	w.wantKinds(t, "after DeadAfter", "d removed")
}

// TestBasesAreReplacedWhileControllerIsStopped replaces all bases while the controller is stopped. After the restart,
// the controller must determine from the creation times of the Nodes which bases replaced the others.
func TestBasesAreReplacedWhileControllerIsStopped(t *testing.T) {
	w, _ := newFixtureWithTunnel()
	now := w.clock.Now()
	for id, ago := range map[string]time.Duration{"a": time.Hour, "b": time.Hour, "c": 10 * time.Second,
		"d": 5 * time.Second} {
		w.Adopt(Info{Identity: id, Tunnel: tunnel.MQTT}, now.Add(-ago))
	}
	w.take()
	w.keepReachable(api.ReconnectGrace+api.UnreachableAfter, "c", "d")
	got := w.kinds()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a unreachable", "b unreachable"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestMassOutageEndsAfterMaxDuration(t *testing.T) {
	w, _ := newFixtureWithTunnel("a", "b", "c")
	w.keepReachable(30*time.Minute, "a")
	w.kinds()
	w.keepReachable(2*time.Minute, "a")
	got := w.kinds()
	slices.Sort(got)
	gone := slices.IndexFunc(got, func(s string) bool { return s == "b removed" || s == "c removed" })
	if gone < 0 {
		t.Fatalf("changes %q: no base was removed", got)
	}
	want := []string{`b unobservable ""`, "b unreachable", `c unobservable ""`, "c unreachable"}
	if diff := cmp.Diff(want, slices.Delete(got, gone, gone+1)); diff != "" {
		t.Errorf("changes of the other bases (-want +got):\n%s", diff)
	}
}

// TestNoBaseIsRemovedWhileUnobserved runs random schedules. No base may become unreachable or be removed during a
// mass outage, or if the controller could not have received its messages for long enough. A base that is the only one
// to miss heartbeats must be removed.
func TestNoBaseIsRemovedWhileUnobserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "bases")]
		w, down := newFixtureWithTunnel(ids...)
		missedFor := map[string]time.Duration{} // time without a message although observed, minus the grace period
		stopped := map[string]bool{}
		for range rapid.IntRange(1, 15).Draw(t, "episodes") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				down[tunnel.MQTT] = !down[tunnel.MQTT]
			case 1:
				w.clock.Step(time.Duration(rapid.IntRange(6, 400).Draw(t, "suspended for")) * time.Second)
				for _, id := range ids {
					missedFor[id] = -api.ReconnectGrace
				}
			default:
				id := rapid.SampledFrom(ids).Draw(t, "base")
				stopped[id] = !stopped[id]
			}
			for range rapid.IntRange(1, 100).Draw(t, "seconds") {
				for _, id := range ids {
					missedFor[id] += time.Second
					if down[tunnel.MQTT] {
						missedFor[id] = -api.ReconnectGrace
					} else if !stopped[id] {
						w.Touch(id)
						missedFor[id] = 0
					}
				}
				all := w.Count()[Reachable] + w.Count()[Unreachable]
				w.clock.Step(time.Second)
				w.Sweep()
				missing := 0
				for _, id := range ids {
					if _, known := w.Get(id); known && missedFor[id] >= api.UnreachableAfter {
						missing++
					}
				}
				for _, c := range w.take() {
					gone, turned := c.Kind == Disappeared, c.Kind == LivenessChanged && c.Liveness == Unreachable
					if gone || turned {
						if missedFor[c.Identity] < api.UnreachableAfter-time.Second {
							t.Fatalf("base %s (%v) after %s of missed that could be heard", c.Identity, c,
								missedFor[c.Identity])
						}
						if turned && all >= 3 && missing*2 > all && within(missedFor, ids, c.Identity) {
							t.Fatalf("base %s (%v), one of %d of %d bases that miss heartbeats", c.Identity, c, missing,
								all)
						}
					}
				}
			}
		}
	})
}

// within reports whether all missing bases began to miss heartbeats within one window, and did so recently enough for
// a mass outage.
func within(missedFor map[string]time.Duration, ids []string, of string) bool {
	for _, id := range ids {
		if d := missedFor[id]; d > 0 && (d > 25*time.Minute || (d-missedFor[of]).Abs() > 50*time.Second) {
			return false
		}
	}
	return true
}

func TestEventsOfMassOutage(t *testing.T) {
	w, _ := newFixtureWithTunnel("a", "b", "c")
	var news []ConnectivityEvent
	for range 60 {
		w.Touch("a")
		w.clock.Step(time.Second)
		news = append(news, w.Sweep().Events...)
	}
	w.touchAll("b", "c")
	news = append(news, w.Sweep().Events...)
	want := []ConnectivityEvent{
		{Tunnel: string(tunnel.MQTT), Reason: MassOutage, Missing: 2, Bases: 3},
		{Tunnel: string(tunnel.MQTT), Reason: MassOutage, Ended: true, Duration: 35 * time.Second},
	}
	if diff := cmp.Diff(want, news); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestNoBaseIsRemovedWhileNotActing checks that the controller removes no base while it may not act. When it may act
// again, the deletion limit applies, and bases are removed only after the controller has read which controller serves
// them.
func TestNoBaseIsRemovedWhileNotActing(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	w, _ := newFixtureWithTunnel(ids...)
	acting := false
	w.opts.MayAct = func() bool { return acting }
	for _, id := range ids {
		w.SetOwned(id, false)
	}
	w.keepReachable(5*time.Minute, ids[2:]...)
	// at one moment
	if got := slices.Sorted(slices.Values(w.kinds())); !slices.Equal(got, []string{"a unreachable", "b unreachable"}) {
		t.Errorf("while it may not act %q, want two unreachable", got)
	}
	acting = true
	w.keepReachable(10*time.Second, ids[2:]...)
	w.wantKinds(t, "when it may, and has not looked")
	for _, id := range ids {
		w.SetOwned(id, true)
	}
	w.keepReachable(time.Second, ids[2:]...)
	if got := w.kinds(); len(got) != 1 {
		t.Errorf("when it serves them again %q, want one of them removed", got)
	}
}
