package access

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// attemptBurst is the maximum number of login attempts in a burst from one address. attemptsPerSecond is the
	// maximum sustained rate of login attempts.
	attemptBurst      = 10
	attemptsPerSecond = 1
	// maxAddresses is the number of stored addresses above which allow removes those without recent login attempts.
	maxAddresses = 1000
)

// attempts limits the rate of login attempts from each address, because each attempt can cause requests to the
// Kubernetes API.
type attempts struct {
	mu        sync.Mutex
	addresses map[netip.Prefix]*rate.Limiter
}

func (a *attempts) allow(r *http.Request, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.addresses) > maxAddresses {
		for address, limiter := range a.addresses {
			if limiter.TokensAt(now) >= attemptBurst {
				delete(a.addresses, address)
			}
		}
	}
	from := network(r.RemoteAddr)
	limiter := a.addresses[from]
	if limiter == nil {
		limiter = rate.NewLimiter(attemptsPerSecond, attemptBurst)
		a.addresses[from] = limiter
	}
	return limiter.AllowN(now, 1)
}

// network returns the key by which login attempts are counted: a client's IPv4 address, or the /64 prefix of its IPv6
// address.
func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap()
	bits := 64
	if address.Is4() {
		bits = 32
	}
	prefix, _ := address.WithZone("").Prefix(bits) // no error: the number of bits is valid
	return prefix
}
