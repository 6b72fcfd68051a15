package tunnel

import (
	"errors"
	"net/netip"
	"testing"
)

// FuzzAddress checks that an accepted address is the peer address or in one of the networks. It also checks that the
// text of the address is canonical.
func FuzzAddress(f *testing.F) {
	f.Fuzz(func(t *testing.T, networks, named, from string) {
		n, err := ParseNetworks(networks)
		if err != nil {
			return
		}
		peer, _ := netip.ParseAddr(from) // an invalid address means MQTT
		peer = peer.Unmap().WithZone("")
		got, err := n.Check(named, peer)
		if err != nil {
			if !errors.Is(err, ErrAddress) || got != "" || len(err.Error()) > 500 {
				t.Errorf("%q: %q, %v", named, got, err)
			}
			return
		}
		a, err := netip.ParseAddr(got)
		if err != nil || a.String() != got || a.Zone() != "" || a.Is4In6() {
			t.Fatalf("%q was accepted as %q: %v", named, got, err)
		}
		allowed := false
		for _, prefix := range n {
			allowed = allowed || prefix.Contains(a)
		}
		if !allowed && (a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() ||
			peer.IsValid() && a != peer) {
			t.Errorf("%q was accepted from %q with the networks %q", named, from, networks)
		}
		if again, err := n.Check(got, peer); again != got || err != nil {
			t.Errorf("%q was accepted as %q, and that as %q: %v", named, got, again, err)
		}
	})
}
