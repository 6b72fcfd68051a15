package fleet

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Network is the address range of bases that have no routed address. The range is reserved for benchmarks and is not
// routed on the Internet [RFC 2544, appendix C.2.2]. Kubernetes accepts its addresses in EndpointSlices, and no real
// host uses them.
var Network = netip.MustParsePrefix("198.18.0.0/15")

// maxNumber is the highest address number. The next address is the broadcast address of Network.
const maxNumber = 1<<17 - 2

func address(number int) netip.Addr {
	first := Network.Addr().As4()
	var a [4]byte
	binary.BigEndian.PutUint32(a[:],
		binary.BigEndian.Uint32(first[:])+
			uint32(number)) //nolint:gosec // at most maxNumber
	return netip.AddrFrom4(a)
}

// takeAddress returns the next unused address. It reuses the address of a removed base as late as possible, so that
// records about the removed base are not attributed to a new base. The caller holds f.mu.
func (f *Fleet) takeAddress() (string, error) {
	for range maxNumber {
		f.lastAddress = f.lastAddress%maxNumber + 1
		if ip := address(f.lastAddress).String(); f.byIP[ip] == nil {
			return ip, nil
		}
	}
	return "", fmt.Errorf("all %d addresses of %s are in use", maxNumber, Network)
}
