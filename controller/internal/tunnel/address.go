package tunnel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Networks are the networks in which bases may report any address. Outside of them, the reported address must belong to
// the base, because commands are sent to it.
type Networks []netip.Prefix

// ErrAddress reports an address that a base must not report.
var ErrAddress = errors.New("address not allowed")

// ParseNetworks parses comma-separated CIDRs.
func ParseNetworks(text string) (Networks, error) {
	var n Networks
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR; use, for example, 10.0.0.0/8", part)
		}
		n = append(n, prefix.Masked())
	}
	return n, nil
}

func (n Networks) contain(a netip.Addr) bool {
	for _, prefix := range n {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// forbidden contains the addresses that are always rejected. Most belong to metadata services of cloud providers, which
// give credentials to machines.
var forbidden = Networks{
	netip.MustParsePrefix("0.0.0.0/8"),              // not valid as a destination [RFC 1122, 3.2.1.3]
	netip.MustParsePrefix("169.254.169.254/32"),     // most providers
	netip.MustParsePrefix("169.254.170.0/24"),       // AWS, for containers
	netip.MustParsePrefix("fd00:ec2::/32"),          // AWS
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
}

var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// translated returns the IPv4 address to which NAT64 translates an address [RFC 6052, 2.1], or the address itself.
func translated(a netip.Addr) netip.Addr {
	if !nat64.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Check returns a reported address in the canonical form of Kubernetes, or ErrAddress. The address must be in the
// networks or equal to the peer address; an invalid peer address is ignored. Loopback and link-local addresses must be
// in the networks. Forbidden addresses are rejected.
func (n Networks) Check(named string, peer netip.Addr) (string, error) {
	a, err := netip.ParseAddr(named)
	if err != nil || a.Zone() != "" {
		return "", fmt.Errorf("%w: localIP %.80q is not an IP address", ErrAddress, named)
	}
	a = a.Unmap()
	target := translated(a)
	switch {
	case forbidden.contain(target):
		return "", fmt.Errorf(
			"%w: localIP %s is reserved, or is an address of the metadata service of a cloud provider", ErrAddress, a)
	case n.contain(a):
	case target.IsLoopback() || !target.IsGlobalUnicast():
		return "", fmt.Errorf(
			"%w: localIP %s is a loopback, link-local, multicast, broadcast or unspecified address; set "+
				"BASE_NETWORKS to allow it",
			ErrAddress, a)
	case peer.IsValid() && a != peer:
		return "", fmt.Errorf(
			"%w: localIP %s is not the address %s that the message came from; BASE_NETWORKS can allow it", ErrAddress,
			a, peer)
	}
	return a.String(), nil
}

// CheckUnproven is Check for a message without a peer address. If there are networks, the address must be in them.
func (n Networks) CheckUnproven(named string) (string, error) {
	ip, err := n.Check(named, netip.Addr{})
	if err == nil && len(n) > 0 && !n.contain(netip.MustParseAddr(ip)) {
		return "", fmt.Errorf("%w: localIP %s is not in BASE_NETWORKS; add the network of the base", ErrAddress, ip)
	}
	return ip, err
}

// ReasonOf returns the reason to reject a message that could not be decoded.
func ReasonOf(err error) Rejection {
	switch {
	case errors.Is(err, arklet.ErrTooLarge):
		return Oversized
	case errors.Is(err, arklet.ErrLimit):
		return BeyondLimits
	case errors.Is(err, ErrAddress):
		return WrongAddress
	}
	return Malformed
}
