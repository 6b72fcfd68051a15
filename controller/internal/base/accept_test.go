package base

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

func overHTTP(identity, ip string) tunnel.Origin {
	return tunnel.Origin{Tunnel: tunnel.HTTP, Identity: identity, IP: ip}
}

// heard has a heartbeat come, and fails unless it is taken, or rejected for that reason.
func (w *world) heard(t *testing.T, from tunnel.Origin, active bool, want tunnel.Rejection) {
	t.Helper()
	reason, err := w.HandleHeartbeat(from, arklet.Heartbeat{Name: "base", Version: "1", IP: from.IP, Active: active})
	if reason != want || (err != nil) != (want != "") {
		t.Errorf("a heartbeat from %+v: rejected as %q (%v), want %q", from, reason, err, want)
	}
}

func TestNobodyElseSpeaksForABase(t *testing.T) {
	w := newWorld()
	w.heard(t, overMQTT("m"), true, "")
	w.heard(t, overHTTP("h", "10.0.0.1"), true, "")
	w.take()
	// Whoever reaches the port cannot end a base, take its place, or say anything else in its name.
	for _, active := range []bool{true, false} {
		w.heard(t, overHTTP("m", "10.0.0.9"), active, tunnel.OtherTunnel)
		w.heard(t, overMQTT("h"), active, tunnel.OtherTunnel)
		w.heard(t, overHTTP("h", "10.0.0.9"), active, tunnel.WrongAddress)
	}
	w.want(t)
	for from, want := range map[tunnel.Origin]tunnel.Rejection{
		overMQTT("m"):             "",
		overMQTT("h"):             tunnel.OtherTunnel,
		overHTTP("m", "10.0.0.1"): tunnel.OtherTunnel,
		overHTTP("h", "10.0.0.1"): "",
		overHTTP("h", ""):         "", // through a proxy
		overHTTP("h", "10.0.0.9"): tunnel.WrongAddress,
		overHTTP("x", "10.0.0.9"): "",
	} {
		if reason, err := w.Accept(from); reason != want || (err != nil) != (want != "") {
			t.Errorf("a message from %+v: rejected as %q (%v), want %q", from, reason, err, want)
		}
	}
	if s, _ := w.Get("h"); s.IP != "10.0.0.1" || s.Tunnel != tunnel.HTTP {
		t.Errorf("the base is at %s, by %s", s.IP, s.Tunnel)
	}
	// What others say in its name keeps no dead base alive.
	w.pass(24 * time.Second)
	w.heard(t, overHTTP("m", "10.0.0.9"), true, tunnel.OtherTunnel)
	w.pass(40 * time.Second)
	if _, known := w.Get("m"); known {
		t.Error("a dead base is kept alive over another tunnel")
	}
	w.heard(t, overHTTP("m", "10.0.0.2"), true, "") // it is gone: it may come by whichever
}

func TestABaseThatMoves(t *testing.T) {
	w := newWorld()
	w.heard(t, overHTTP("h", "10.0.0.1"), true, "")
	w.pass(24 * time.Second)
	w.heard(t, overHTTP("h", "10.0.0.2"), true, tunnel.WrongAddress)
	w.pass(time.Second) // since it was heard at the one before; what was rejected does not count
	w.heard(t, overHTTP("h", "10.0.0.2"), true, "")
	if s, _ := w.Get("h"); s.IP != "10.0.0.2" || s.Liveness != Reachable {
		t.Errorf("it is at %s, %s", s.IP, s.Liveness)
	}
	proven := overHTTP("h", "10.0.0.3")
	proven.Certified = true
	w.heard(t, proven, true, "")
	if s, _ := w.Get("h"); s.IP != "10.0.0.3" {
		t.Errorf("with a certificate it is at %s", s.IP)
	}
}

func TestTheNumberOfBasesIsBounded(t *testing.T) {
	w := newWorld()
	w.opts.MaxBases = 3
	for i := range 3 {
		w.heard(t, overMQTT(fmt.Sprint(i)), true, "")
	}
	w.heard(t, overMQTT("3"), true, tunnel.TooMany)
	w.heard(t, overMQTT("3"), false, "")
	w.heard(t, overMQTT("2"), true, "") // one that is known
	if _, err := w.HandleHeartbeat(overMQTT("3"), beat("1")); err == nil || !strings.Contains(err.Error(), "MAX_BASES") {
		t.Errorf("error %v, want one that names the setting", err)
	}
	w.heard(t, overMQTT("2"), false, "")
	w.heard(t, overMQTT("3"), true, "")
	if n := w.Count()[Reachable]; n != 3 {
		t.Errorf("%d bases are known, want 3", n)
	}
}
