package tunnel

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Networks are those in which bases may name any address. Commands go to the address that a base
// names, and Pods show it, so it has to be the base's own.
type Networks []netip.Prefix

// ErrAddress says that a base cannot have the address that it names.
var ErrAddress = errors.New("address not allowed")

// ParseNetworks reads CIDRs that are separated by commas; an empty text is none.
func ParseNetworks(text string) (Networks, error) {
	var n Networks
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("%q is no CIDR, such as 10.0.0.0/8", part)
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

// Check returns the address that a base names as Kubernetes writes it, or ErrAddress. peer is where
// the message came from: the base's address is that, or lies in the networks. An invalid peer, as
// over MQTT, says nothing. Addresses that only this machine or this link has are those of the
// networks alone.
func (n Networks) Check(named string, peer netip.Addr) (string, error) {
	a, err := netip.ParseAddr(named)
	if err != nil || a.Zone() != "" {
		return "", fmt.Errorf("%w: localIP %.80q is no IP address", ErrAddress, named)
	}
	a = a.Unmap()
	switch {
	case n.contain(a):
	case a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || !a.IsGlobalUnicast():
		return "", fmt.Errorf("%w: localIP %s is no address of a base in a network; BASE_NETWORKS can allow it", ErrAddress, a)
	case peer.IsValid() && a != peer:
		return "", fmt.Errorf("%w: localIP %s is not the address %s that the message came from; BASE_NETWORKS can allow it", ErrAddress, a, peer)
	}
	return a.String(), nil
}

// ReasonOf is the reason to reject a message that has not been understood.
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
