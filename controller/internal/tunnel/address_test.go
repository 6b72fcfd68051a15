package tunnel

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct{ networks, named, peer, want string }{
		{"", "10.1.2.3", "10.1.2.3", "10.1.2.3"},
		{"", "::ffff:10.1.2.3", "10.1.2.3", "10.1.2.3"},
		{"", "2001:DB8::1", "2001:db8::1", "2001:db8::1"},
		{"", "10.1.2.3", "", "10.1.2.3"},
		{"", "10.1.2.3", "10.1.2.4", ""},
		{"10.1.0.0/16", "10.1.2.3", "10.9.9.9", "10.1.2.3"},
		{"192.168.0.0/16, 10.1.0.0/16", "10.1.2.3", "10.9.9.9", "10.1.2.3"},
		{"10.1.0.0/16", "10.2.2.3", "10.9.9.9", ""},
		{"10.1.0.0/16", "10.2.2.3", "10.2.2.3", "10.2.2.3"},
		{"10.1.0.0/16", "10.2.2.3", "", "10.2.2.3"},
		{"10.1.0.0/16", "10.1.2.3", "", "10.1.2.3"},
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
		{"", "0.1.2.3", "", ""},
		{"", "ff02::1", "", ""},
		{"", "100.100.100.200", "", ""},
		{"", "100.100.100.200", "100.100.100.200", ""},
		{"100.64.0.0/10", "100.100.100.200", "", ""},
		{"100.64.0.0/10", "100.100.100.201", "", "100.100.100.201"},
		{"", "100.100.100.201", "", "100.100.100.201"},
		{"0.0.0.0/0", "169.254.169.254", "", ""},
		{"0.0.0.0/0", "::ffff:169.254.169.254", "", ""},
		{"0.0.0.0/0", "169.254.170.2", "", ""},
		{"0.0.0.0/0", "169.254.1.1", "", "169.254.1.1"},
		{"", "168.63.129.16", "", ""},
		{"", "192.0.0.192", "", ""},
		{"::/0", "fd00:ec2::254", "", ""},
		{"", "fd00:ec2::254", "", ""},
		{"", "fd00:ec2::23", "", ""},
		{"", "fd20:ce::254", "", ""},
		{"", "fd00:c1::a9fe:a9fe", "", ""},
		{"", "fd00:42::42", "", ""},
		{"", "fd12:3456::1", "", "fd12:3456::1"},
		{"", "64:ff9b::a9fe:a9fe", "", ""},
		{"::/0", "64:ff9b::a9fe:a9fe", "", ""},
		{"", "64:ff9b::6464:64c8", "", ""},
		{"", "64:ff9b::7f00:1", "", ""},
		{"", "64:ff9b::", "", ""},
		{"", "64:ff9b::e000:1", "", ""},
		{"", "64:ff9b::a01:203", "", "64:ff9b::a01:203"},
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
			t.Errorf("%q was parsed as %v", text, n)
		}
	}
	if n, err := ParseNetworks(" , "); err != nil || len(n) != 0 {
		t.Errorf("an empty text was parsed as %v, %v", n, err)
	}
}

// TestCheckUnproven checks that over MQTT, the address of a base is compared only with the networks.
func TestCheckUnproven(t *testing.T) {
	for _, c := range []struct{ networks, named, want string }{
		{"", "10.1.2.3", "10.1.2.3"},
		{"10.1.0.0/16", "10.1.2.3", "10.1.2.3"},
		{"10.1.0.0/16", "::ffff:10.1.2.3", "10.1.2.3"},
		{"10.1.0.0/16", "10.96.0.1", ""},
		{"10.1.0.0/16", "2001:db8::1", ""},
		{"127.0.0.0/8", "127.0.0.1", "127.0.0.1"},
		{"", "127.0.0.1", ""},
		{"0.0.0.0/0", "100.100.100.200", ""},
		{"10.1.0.0/16", "", ""},
	} {
		n, err := ParseNetworks(c.networks)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := n.CheckUnproven(c.named); got != c.want || (err == nil) != (c.want != "") ||
			err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("networks %q, %q: %q, error %v; want %q", c.networks, c.named, got, err, c.want)
		}
	}
}

func TestReasonOf(t *testing.T) {
	for want, err := range map[Rejection]error{Oversized: arklet.ErrTooLarge, BeyondLimits: arklet.ErrLimit,
		WrongAddress: ErrAddress, Malformed: errors.New("x")} {
		if got := ReasonOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
