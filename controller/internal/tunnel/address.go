package tunnel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Networks are the networks in which bases may report any address. An address outside of these networks must belong
// to the base that reports it, because commands are sent to this address.
type Networks []netip.Prefix

// ErrAddress means that a base reported an address that it must not report.
var ErrAddress = errors.New("address not allowed")

// ParseNetworks parses a comma-separated list of CIDRs.
func ParseNetworks(text string) (Networks, error) {
	var n Networks
	for _, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is not a valid CIDR; use a network such as 10.0.0.0/8", part)
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

// forbidden contains the addresses that are always rejected. Most of them belong to metadata services of cloud
// providers, which return credentials to the machines.
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

// translated returns the IPv4 address that an address stands for in NAT64 [RFC 6052, 2.1]. For any other address, it
// returns the address itself.
func translated(a netip.Addr) netip.Addr {
	if !nat64.Contains(a) {
		return a
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Check returns a reported address in the canonical form of Kubernetes, or ErrAddress. The address must be in the
// networks or equal to the peer address. An invalid peer address is ignored. Loopback and link-local addresses are
// accepted only if they are in the networks. Forbidden addresses are always rejected.
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
			"%w: localIP %s is reserved, or belongs to the metadata service of a cloud provider", ErrAddress, a)
	case n.contain(a):
	case target.IsLoopback() || !target.IsGlobalUnicast():
		return "", fmt.Errorf(
			"%w: localIP %s is a loopback, link-local, multicast, broadcast or unspecified address; set "+
				"BASE_NETWORKS to allow it",
			ErrAddress, a)
	case peer.IsValid() && a != peer:
		return "", fmt.Errorf(
			"%w: localIP %s is not the source address %s of the message; set BASE_NETWORKS to allow it", ErrAddress,
			a, peer)
	}
	return a.String(), nil
}

// CheckUnproven checks a reported address like Check, but for a message without a peer address. If networks are
// configured, the address must be in one of them.
func (n Networks) CheckUnproven(named string) (string, error) {
	ip, err := n.Check(named, netip.Addr{})
	if err == nil && len(n) > 0 && !n.contain(netip.MustParseAddr(ip)) {
		return "", fmt.Errorf("%w: localIP %s is not in BASE_NETWORKS; add the network of the base to BASE_NETWORKS",
			ErrAddress, ip)
	}
	return ip, err
}

// ReasonOf returns the rejection reason for a message that could not be decoded.
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
