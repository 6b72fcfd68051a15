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

// address is the number-th address of the network.
func address(number int) netip.Addr {
	first := Network.Addr().As4()
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(first[:])+uint32(number)) //nolint:gosec // at most as many bases as the network has addresses
	return netip.AddrFrom4(a)
}

// numbers hands out the numbers of bases from 1 on. A number comes back as late
// as possible: what is known of a removed base must not be taken for the new one.
type numbers struct {
	last int
	used map[int]bool
}

func (n *numbers) take() (int, error) {
	if n.used == nil {
		n.used = map[int]bool{}
	}
	for range maxNumber {
		n.last = n.last%maxNumber + 1
		if !n.used[n.last] {
			n.used[n.last] = true
			return n.last, nil
		}
	}
	return 0, fmt.Errorf("all %d addresses of %s are in use", maxNumber, Network)
}

func (n *numbers) release(number int) { delete(n.used, number) }
