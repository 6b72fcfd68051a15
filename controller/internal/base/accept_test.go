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

// wantHeartbeat sends a heartbeat. It checks that the heartbeat is accepted, or rejected for the expected reason.
func (w *fixture) wantHeartbeat(t *testing.T, from tunnel.Origin, active bool, want tunnel.Rejection) {
	t.Helper()
	reason, err := w.HandleHeartbeat(from, arklet.Heartbeat{Name: "base", Version: "1", IP: from.IP, Active: active})
	if reason != want || (err != nil) != (want != "") {
		t.Errorf("a heartbeat from %+v: rejected as %q (%v), want %q", from, reason, err, want)
	}
}

func TestMessagesFromOtherTunnelOrAddressAreRejected(t *testing.T) {
	w := newFixture()
	w.wantHeartbeat(t, overMQTT("m"), true, "")
	w.wantHeartbeat(t, overHTTP("h", "10.0.0.1"), true, "")
	w.take()
	// A client that can connect to the port cannot end or replace a base, or send other messages for it.
	for _, active := range []bool{true, false} {
		w.wantHeartbeat(t, overHTTP("m", "10.0.0.9"), active, tunnel.OtherTunnel)
		w.wantHeartbeat(t, overMQTT("h"), active, tunnel.OtherTunnel)
		w.wantHeartbeat(t, overHTTP("h", "10.0.0.9"), active, tunnel.WrongAddress)
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
		t.Errorf("the base has the address %s and the tunnel %s", s.IP, s.Tunnel)
	}
	// Rejected heartbeats do not keep the base registered.
	w.advance(24 * time.Second)
	w.wantHeartbeat(t, overHTTP("m", "10.0.0.9"), true, tunnel.OtherTunnel)
	w.advance(40 * time.Second)
	if _, known := w.Get("m"); known {
		t.Error("a base stays registered because of heartbeats over another tunnel")
	}
	w.wantHeartbeat(t, overHTTP("m", "10.0.0.2"), true, "") // after its removal, it can use any tunnel
}

func TestBaseChangesItsAddress(t *testing.T) {
	w := newFixture()
	w.wantHeartbeat(t, overHTTP("h", "10.0.0.1"), true, "")
	w.advance(24 * time.Second)
	w.wantHeartbeat(t, overHTTP("h", "10.0.0.2"), true, tunnel.WrongAddress)
	w.advance(time.Second) // rejected heartbeats do not count
	w.wantHeartbeat(t, overHTTP("h", "10.0.0.2"), true, "")
	if s, _ := w.Get("h"); s.IP != "10.0.0.2" || s.Liveness != Reachable {
		t.Errorf("the base has the address %s and is %s", s.IP, s.Liveness)
	}
	proven := overHTTP("h", "10.0.0.3")
	proven.Certified = true
	w.wantHeartbeat(t, proven, true, "")
	if s, _ := w.Get("h"); s.IP != "10.0.0.3" {
		t.Errorf("with a certificate, the base has the address %s", s.IP)
	}
}

func TestMaxBases(t *testing.T) {
	w := newFixture()
	w.opts.MaxBases = 3
	for i := range 3 {
		w.wantHeartbeat(t, overMQTT(fmt.Sprint(i)), true, "")
	}
	w.wantHeartbeat(t, overMQTT("3"), true, tunnel.TooMany)
	w.wantHeartbeat(t, overMQTT("3"), false, "")
	w.wantHeartbeat(t, overMQTT("2"), true, "") // already registered
	if _, err := w.HandleHeartbeat(overMQTT("3"), beat("1")); err == nil ||
		!strings.Contains(err.Error(), "MAX_BASES") {
		t.Errorf("error %v, want an error with the setting", err)
	}
	w.wantHeartbeat(t, overMQTT("2"), false, "")
	w.wantHeartbeat(t, overMQTT("3"), true, "")
	if n := w.Count()[Reachable]; n != 3 {
		t.Errorf("%d bases are registered, want 3", n)
	}
}
