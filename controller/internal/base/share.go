package base

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Default values of Options.
const (
	DefaultMaxBases      = 20_000
	DefaultMaxPerAddress = 1000
)

// maxBasesOfMachine is the maximum number of bases expected on one machine. An address with more bases may be the
// address of a proxy, or of a client that invents bases. The Registry evaluates the missed heartbeats of bases from
// such an address separately; see group.
const maxBasesOfMachine = 50

// newBasesPeriod is the time in which MaxBases/2 new bases are accepted over MQTT after the initial burst. All
// clients share this limit, because MQTT messages contain no client address.
const newBasesPeriod = 10 * time.Minute

// sourceKey returns the key of an address in Registry.sources. For an invalid address, it returns the zero Prefix.
func sourceKey(address string) netip.Prefix {
	ip, _ := netip.ParseAddr(address) // an invalid address gives the zero Addr
	return connlimit.HostPrefix(ip)
}

// checkCapacity returns the reason to reject a new base, or the empty string if there is capacity. The caller holds
// the lock.
func (r *Registry) checkCapacity(from tunnel.Origin) (tunnel.Rejection, error) {
	if len(r.bases) >= r.opts.MaxBases {
		return tunnel.TooMany, fmt.Errorf(
			"%d bases are registered, which is the maximum; increase MAX_BASES to register more", len(r.bases))
	}
	if n := r.sources[sourceKey(from.Peer)]; n >= r.opts.MaxPerAddress && !from.Certified {
		return tunnel.TooManyOfAddress,
			fmt.Errorf("%d bases with the address %s are registered; if it is the address of a proxy or "+
				"a NAT gateway, "+
				"increase MAX_BASES_PER_ADDRESS", n, from.Peer)
	}
	if from.Tunnel == tunnel.MQTT && !r.newBases.AllowN(r.opts.Clock.Now(), 1) {
		return tunnel.TooMany,
			fmt.Errorf("more than %d new bases appeared over MQTT in a short time; if your fleet is that large, "+
				"increase MAX_BASES", r.newBases.Burst())
	}
	return "", nil
}

// recordPeer records the peer address of a heartbeat. It replaces a different recorded address only if no heartbeat
// has come from the recorded address for UnreachableAfter. This prevents a client that uses the identity of the base
// from replacing the address. The caller holds the lock.
func (r *Registry) recordPeer(b *record, peer string) {
	now := r.opts.Clock.Now()
	if peer != b.peer && now.Sub(b.peerAt) < r.opts.UnreachableAfter {
		return
	}
	b.peer, b.peerAt = peer, now
	r.setSource(b, peer)
}

func (r *Registry) setSource(b *record, address string) {
	key := sourceKey(address)
	if key == b.source {
		return
	}
	r.sources[b.source]--
	if r.sources[b.source] <= 0 {
		delete(r.sources, b.source)
	}
	b.source = key
	if key.IsValid() {
		r.sources[key]++
	}
}

// group returns the group in which the missed heartbeats of a base are evaluated. The group is the source of the base
// if the source has more than maxBasesOfMachine bases. Otherwise, it is the zero Prefix. The caller holds the lock.
func (r *Registry) group(b *record) netip.Prefix {
	if r.sources[b.source] > maxBasesOfMachine {
		return b.source
	}
	return netip.Prefix{}
}
