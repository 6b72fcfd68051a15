package tunnel

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

func TestAddressesOfBases(t *testing.T) {
	for _, c := range []struct{ networks, named, peer, want string }{
		{"", "10.1.2.3", "10.1.2.3", "10.1.2.3"},
		{"", "::ffff:10.1.2.3", "10.1.2.3", "10.1.2.3"},
		{"", "2001:DB8::1", "2001:db8::1", "2001:db8::1"},
		{"", "10.1.2.3", "", "10.1.2.3"}, // over MQTT
		{"", "10.1.2.3", "10.1.2.4", ""},
		{"10.1.0.0/16", "10.1.2.3", "10.9.9.9", "10.1.2.3"},
		{"192.168.0.0/16, 10.1.0.0/16", "10.1.2.3", "10.9.9.9", "10.1.2.3"},
		{"10.1.0.0/16", "10.2.2.3", "10.9.9.9", ""},
		{"10.1.0.0/16", "10.2.2.3", "10.2.2.3", "10.2.2.3"},
		{"10.1.0.0/16", "10.2.2.3", "", "10.2.2.3"},
		{"", "127.0.0.1", "127.0.0.1", ""},
		{"", "127.0.0.1", "", ""},
		{"", "::1", "::1", ""},
		{"", "::ffff:127.0.0.1", "", ""},
		{"", "0.0.0.0", "", ""},
		{"", "::", "", ""},
		{"", "169.254.169.254", "169.254.169.254", ""},
		{"", "fe80::1", "", ""},
		{"", "224.0.0.1", "", ""},
		{"", "255.255.255.255", "", ""},
		{"127.0.0.0/8", "127.0.0.1", "10.1.2.3", "127.0.0.1"},
		{"0.0.0.0/0", "::ffff:127.0.0.1", "", "127.0.0.1"},
		{"::/0", "fe80::1%eth0", "", ""},
		{"", "2001:db8::1%eth0", "", ""},
		{"", "unknown", "10.1.2.3", ""},
		{"", "", "", ""},
	} {
		n, err := ParseNetworks(c.networks)
		if err != nil {
			t.Fatal(err)
		}
		var peer netip.Addr
		if c.peer != "" {
			peer = netip.MustParseAddr(c.peer)
		}
		got, err := n.Check(c.named, peer)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("networks %q, %q from %q: %q, error %v; want %q", c.networks, c.named, c.peer, got, err, c.want)
		}
	}
	for _, text := range []string{"10.0.0.0", "10.0.0.0/33", "all", "10.0.0.0/8;10.1.0.0/16"} {
		if n, err := ParseNetworks(text); err == nil {
			t.Errorf("%q was read as %v", text, n)
		}
	}
	if n, err := ParseNetworks(" , "); err != nil || len(n) != 0 {
		t.Errorf("nothing was read as %v, %v", n, err)
	}
}

func TestReasonOf(t *testing.T) {
	for want, err := range map[Rejection]error{Oversized: arklet.ErrTooLarge, BeyondLimits: arklet.ErrLimit, WrongAddress: ErrAddress, Malformed: errors.New("x")} {
		if got := ReasonOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
