package fleet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Network is the address range of bases. It is reserved for benchmarks and never routed [RFC 2544, appendix C.2.2]:
// EndpointSlices accept its addresses, and no other host answers there by accident.
var Network = netip.MustParsePrefix("198.18.0.0/15")

// maxNumber is the last number with an address of its own, short of the
// network's broadcast address.
const maxNumber = 1<<17 - 2

func address(number int) netip.Addr {
	first := Network.Addr().As4()
	var a [4]byte
	binary.BigEndian.PutUint32(a[:],
		binary.BigEndian.Uint32(first[:])+
			uint32(number)) //nolint:gosec // at most as many bases as the network has addresses
	return netip.AddrFrom4(a)
}

// takeAddress returns the next address that no base has. An address is used again as late as possible, so that facts
// about a removed base are not attributed to a new one. f.mu is held.
func (f *Fleet) takeAddress() (string, error) {
	for range maxNumber {
		f.lastAddress = f.lastAddress%maxNumber + 1
		if ip := address(f.lastAddress).String(); f.byIP[ip] == nil {
			return ip, nil
		}
	}
	return "", fmt.Errorf("all %d addresses of %s are in use", maxNumber, Network)
}
