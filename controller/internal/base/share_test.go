package base

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// from returns the origin of messages from a base that sends heartbeats over HTTP through a proxy and reports its own
// address.
func from(identity, peer string) tunnel.Origin {
	return tunnel.Origin{Tunnel: tunnel.HTTP, Identity: identity, IP: "198.18.0.1", Peer: peer}
}

func TestMaxBasesPerAddress(t *testing.T) {
	w := newFixture()
	for i := range 20_000 {
		want := tunnel.Rejection("")
		if i >= DefaultMaxPerAddress {
			want = tunnel.TooManyOfAddress
		}
		if reason, err := w.HandleHeartbeat(from(fmt.Sprint("fake", i), "10.0.0.9"), beat("1")); reason != want {
			t.Fatalf("base %d of one address: rejected as %q (%v), want %q", i, reason, err, want)
		}
	}
	_, err := w.HandleHeartbeat(from("one more", "10.0.0.9"), beat("1"))
	if err == nil || !strings.Contains(err.Error(), "10.0.0.9") ||
		!strings.Contains(err.Error(), "MAX_BASES_PER_ADDRESS") {
		t.Errorf("error %v, want an error with the address and the setting", err)
	}
	certified := from("certified", "10.0.0.9")
	certified.Certified = true
	for _, o := range []tunnel.Origin{certified, from("honest", "10.0.0.1"), from("fake0", "10.0.0.9"), overMQTT("m")} {
		if reason, err := w.HandleHeartbeat(o, beat("1")); reason != "" {
			t.Errorf("base %q of %q: rejected as %q (%v)", o.Identity, o.Peer, reason, err)
		}
	}
	going := beat("1")
	going.Active = false
	for _, id := range []string{"fake0", "fake1", "certified"} {
		_, _ = w.HandleHeartbeat(from(id, "10.0.0.9"), going)
	}
	if reason, err := w.HandleHeartbeat(from("one more", "10.0.0.9"), beat("1")); reason != "" {
		t.Errorf("after some bases ended: rejected as %q (%v)", reason, err)
	}
}

// TestMaxBasesPerAddressAfterRestart checks that after a restart, the controller counts the bases of each address
// from the existing Nodes.
func TestMaxBasesPerAddressAfterRestart(t *testing.T) {
	w := newFixture()
	for i := range DefaultMaxPerAddress {
		w.Adopt(Info{Identity: fmt.Sprint("fake", i), Tunnel: tunnel.HTTP, IP: "10.0.0.9"}, time.Time{})
	}
	if reason, _ := w.HandleHeartbeat(from("one more", "10.0.0.9"), beat("1")); reason != tunnel.TooManyOfAddress {
		t.Errorf("one more: rejected as %q, want %q", reason, tunnel.TooManyOfAddress)
	}
}

func TestRateOfNewBasesOverMQTT(t *testing.T) {
	w := newFixture()
	accepted := func(prefix string) (n int) {
		for i := range DefaultMaxBases {
			id := fmt.Sprint(prefix, i)
			if reason, _ := w.HandleHeartbeat(overMQTT(id), beat("1")); reason != "" {
				return n
			}
			n++
			// the base ends, so that MAX_BASES is not reached
			_, _ = w.HandleHeartbeat(overMQTT(id), arklet.Heartbeat{})
		}
		return n
	}
	if n := accepted("a"); n != DefaultMaxBases/2 {
		t.Errorf("%d new bases in a burst, want %d", n, DefaultMaxBases/2)
	}
	w.clock.Step(newBasesPeriod / 2)
	if n := accepted("b"); n != DefaultMaxBases/4 {
		t.Errorf("%d new bases in 5 min, want %d", n, DefaultMaxBases/4)
	}
	if reason, _ := w.HandleHeartbeat(from("h", "10.0.0.1"), beat("1")); reason != "" {
		t.Errorf("a base over HTTP: rejected as %q", reason)
	}
}

// TestInventedBasesDoNotHideMassOutage simulates a client that invents bases. The invented bases keep sending
// heartbeats, or all stop at the same time. In both cases, the detection of mass outages among the other bases must
// not change.
func TestInventedBasesDoNotHideMassOutage(t *testing.T) {
	w := newFixture()
	w.Sweep()
	var honest, fake []string
	for i := range 10 {
		honest = append(honest, fmt.Sprint("honest", i))
		_, _ = w.HandleHeartbeat(from(honest[i], fmt.Sprint("10.0.1.", i)), beat("1"))
	}
	for i := range 500 {
		fake = append(fake, fmt.Sprint("fake", i))
		_, _ = w.HandleHeartbeat(from(fake[i], "10.0.0.9"), beat("1"))
	}
	for _, id := range append(honest, fake...) {
		w.SetOwned(id, true)
	}
	w.keepReachable(2*time.Minute, fake...)
	for _, id := range honest {
		if b, known := w.Get(id); !known || b.Liveness != Reachable || b.Observed.Reason != MassOutage {
			t.Errorf("base %s: known %t, %s, %q; want a mass outage, as for the other honest bases", id, known,
				b.Liveness, b.Observed.Reason)
		}
	}
	w.touchAll(honest...)
	w.kinds()
	w.keepReachable(api.UnreachableAfter, honest[1:]...) // all invented bases and one other base stop
	if b, _ := w.Get(honest[0]); b.Liveness != Unreachable {
		t.Errorf("a base that stops together with invented bases is %s, want %s", b.Liveness, Unreachable)
	}
}

// TestInventedBasesDoNotIncreaseDeletionBudget checks that bases that a client invents do not increase the number of
// other bases that can be removed per minute.
func TestInventedBasesDoNotIncreaseDeletionBudget(t *testing.T) {
	w := newFixture()
	w.opts.Mass.Percent = -1
	for i := range 10 {
		_, _ = w.HandleHeartbeat(from(fmt.Sprint("honest", i), fmt.Sprint("10.0.1.", i)), beat("1"))
		w.SetOwned(fmt.Sprint("honest", i), true)
	}
	var fake []string
	for i := range 500 {
		fake = append(fake, fmt.Sprint("fake", i))
		_, _ = w.HandleHeartbeat(from(fake[i], "10.0.0.9"), beat("1"))
		w.SetOwned(fake[i], true)
	}
	w.take()
	w.keepReachable(api.DeadAfter+10*time.Second, fake...)
	gone := 0
	for _, c := range w.take() {
		if c.Kind == Disappeared {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d bases are removed immediately, want 1", gone)
	}
}

func TestOtherClientCannotEndBase(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(from("a", "10.0.0.1"), beat("1"))
	going := beat("1")
	going.Active = false
	if reason, err := w.HandleHeartbeat(from("a", "10.0.0.9"), going); reason != tunnel.WrongAddress || err == nil {
		t.Errorf("deactivated from another address: rejected as %q (%v), want %q", reason, err, tunnel.WrongAddress)
	}
	// a proxy may have several addresses
	if reason, err := w.HandleHeartbeat(from("a", "10.0.0.9"), beat("1")); reason != "" {
		t.Errorf("a heartbeat from another address: rejected as %q (%v)", reason, err)
	}
	if reason, _ := w.HandleHeartbeat(from("a", "10.0.0.9"), going); reason != tunnel.WrongAddress {
		t.Errorf("deactivated after a heartbeat from that address: rejected as %q, want %q", reason,
			tunnel.WrongAddress)
	}
	if w.Recognizes(from("a", "10.0.0.9")) {
		t.Error("a baseline query from elsewhere counts as the base's")
	}
	for name, o := range map[string]tunnel.Origin{
		"its last address": from("a", "10.0.0.1"), "its own address": from("a", "198.18.0.1"),
		"not known yet": from("b", "10.0.0.9"),
	} {
		if !w.Recognizes(o) {
			t.Errorf("%s is not recognized", name)
		}
	}
	w.Adopt(Info{Identity: "adopted", Tunnel: tunnel.HTTP, IP: "198.18.0.1"}, time.Time{})
	_, _ = w.HandleHeartbeat(from("moved", "10.0.0.1"), beat("1"))
	for range api.UnreachableAfter / time.Second {
		w.clock.Step(time.Second)
		_, _ = w.HandleHeartbeat(from("a", "10.0.0.1"), beat("1"))
		_, _ = w.HandleHeartbeat(from("moved", "10.0.0.2"), beat("1")) // its proxy has another address
	}
	for _, o := range []tunnel.Origin{from("a", "10.0.0.1"), from("adopted", "10.0.0.2"), from("moved", "10.0.0.2")} {
		if reason, err := w.HandleHeartbeat(o, going); reason != "" {
			t.Errorf("base %q ends: rejected as %q (%v)", o.Identity, reason, err)
		}
	}
}

// TestBasesOfOtherControllerAreNotEvaluated runs two controllers that receive heartbeats over HTTP. Each heartbeat
// reaches only one of them. The bases that one controller serves must not become unreachable in the other controller.
func TestBasesOfOtherControllerAreNotEvaluated(t *testing.T) {
	for key, change := range map[tunnel.Key]func(id string) tunnel.Origin{
		tunnel.HTTP: func(id string) tunnel.Origin { return from(id, "10.0.0.1") },
		tunnel.MQTT: nil, // of another broker; no message arrives
	} {
		t.Run(string(key), func(t *testing.T) {
			w := newFixture()
			w.Sweep()
			var mine, theirs []string
			for i := range 4 {
				mine, theirs = append(mine, fmt.Sprint("mine", i)), append(theirs, fmt.Sprint("theirs", i))
				w.Adopt(Info{Identity: mine[i], Tunnel: key, IP: "198.18.0.1"}, w.clock.Now())
				w.Adopt(Info{Identity: theirs[i], Tunnel: key, IP: "198.18.0.1"}, w.clock.Now())
				w.SetOwned(mine[i], true)
				w.SetServedElsewhere(theirs[i], true)
				if change != nil { // the first heartbeat arrives here, and the others at the other replica
					_, _ = w.HandleHeartbeat(change(theirs[i]), beat("1"))
				}
			}
			w.take()
			for range 10 * 60 {
				w.touchAll(mine...)
				w.clock.Step(time.Second)
				found := w.Sweep()
				if len(found.Events) > 0 || found.Missed > 0 {
					t.Fatalf("events %+v, %d missed heartbeats", found.Events, found.Missed)
				}
				for _, p := range found.Queries {
					if strings.HasPrefix(p.To.Identity, "theirs") {
						t.Fatalf("base %s gets the query %s", p.To.Identity, p.Command)
					}
				}
			}
			if diff := cmp.Diff([]string(nil), w.kinds()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			// The other controller has ended. Its bases get a health check immediately, and the full grace
			// period.
			for _, id := range theirs {
				w.SetServedElsewhere(id, false)
				w.SetOwned(id, true)
			}
			asked := map[string]bool{}
			for _, p := range w.Sweep().Queries {
				if p.Command == arklet.CommandHealth {
					asked[p.To.Identity] = true
				}
			}
			for _, id := range theirs {
				if !asked[id] {
					t.Errorf("base %s gets no health check immediately", id)
				}
			}
			w.keepReachable(api.UnreachableAfter-time.Second, append(mine, theirs[:3]...)...)
			w.wantKinds(t, "before the missed of one counts")
			w.keepReachable(time.Second, append(mine, theirs[:3]...)...)
			w.wantKinds(t, "when it does", "theirs3 unreachable")
		})
	}
}

// TestGracePeriodContinuesAfterTakeover checks that the grace period of the bases continues while a restarted
// controller waits for the Lease of its killed predecessor to expire.
func TestGracePeriodContinuesAfterTakeover(t *testing.T) {
	w, _ := newFixtureWithTunnel()
	w.Adopt(Info{Identity: "a", Tunnel: tunnel.MQTT}, w.clock.Now())
	w.take()
	w.SetServedElsewhere("a", true)
	w.advance(15 * time.Second)
	w.SetServedElsewhere("a", false)
	w.SetOwned("a", true)
	w.advance(api.ReconnectGrace + api.UnreachableAfter - 16*time.Second)
	w.wantKinds(t, "within the grace period and the time that every base has")
	w.advance(time.Second)
	w.wantKinds(t, "after them", "a unreachable")
}

// TestBaseIsRemovedAfterNodeDeletion checks that a base is removed after its Node was deleted, even if another
// controller served the base.
func TestBaseIsRemovedAfterNodeDeletion(t *testing.T) {
	w := newFixture()
	_, _ = w.HandleHeartbeat(from("a", "10.0.0.1"), beat("1"))
	w.SetServedElsewhere("a", true)
	w.advance(10 * time.Minute)
	if _, known := w.Get("a"); !known {
		t.Fatal("it is forgotten while another controller serves it")
	}
	w.RequireHeartbeat("a")
	w.advance(time.Minute)
	if _, known := w.Get("a"); known {
		t.Error("it stays known")
	}
}
