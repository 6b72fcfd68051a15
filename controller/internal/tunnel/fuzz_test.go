package tunnel

import (
	"errors"
	"net/netip"
	"testing"
)

// FuzzAddress: an address that is taken is the base's own or one of the networks, and written as it is
// read.
func FuzzAddress(f *testing.F) {
	f.Fuzz(func(t *testing.T, networks, named, from string) {
		n, err := ParseNetworks(networks)
		if err != nil {
			return
		}
		peer, _ := netip.ParseAddr(from) // one that is none is that of MQTT
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
			t.Fatalf("%q was taken as %q: %v", named, got, err)
		}
		allowed := false
		for _, prefix := range n {
			allowed = allowed || prefix.Contains(a)
		}
		if !allowed && (a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() ||
			peer.IsValid() && a != peer) {
			t.Errorf("%q was taken from %q with the networks %q", named, from, networks)
		}
		if again, err := n.Check(got, peer); again != got || err != nil {
			t.Errorf("%q was taken as %q, and that as %q: %v", named, got, again, err)
		}
	})
}
