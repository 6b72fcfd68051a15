package base

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Defaults of Options.
const (
	DefaultMaxBases      = 20_000
	DefaultMaxPerAddress = 1000
)

// crowd is the maximum number of bases expected on one machine. Missed heartbeats of bases of an address with more
// bases, such as a proxy or a client that invents bases, are evaluated separately; see group.
const crowd = 50

// newBasesIn is the time in which MaxBases/2 new bases are accepted over MQTT after the initial burst. Over MQTT
// there is no address for a limit per client.
const newBasesIn = 10 * time.Minute

// source returns the key of an address in Registry.sources; zero if the address is invalid.
func source(address string) netip.Prefix {
	ip, _ := netip.ParseAddr(address) // an invalid address gives the zero Addr
	return connlimit.HostPrefix(ip)
}

// room returns the reason to refuse a new base, or the empty string. The caller holds the lock.
func (r *Registry) room(from tunnel.Origin) (tunnel.Rejection, error) {
	if len(r.bases) >= r.opts.MaxBases {
		return tunnel.TooMany, fmt.Errorf("%d bases are already known, the maximum that MAX_BASES allows", len(r.bases))
	}
	if n := r.sources[source(from.Peer)]; n >= r.opts.MaxPerAddress && !from.Certified {
		return tunnel.TooManyOfAddress,
			fmt.Errorf("%d bases with the address %s are already known; if this is the address of a proxy or a NAT, "+
				"raise MAX_BASES_PER_ADDRESS", n, from.Peer)
	}
	if from.Tunnel == tunnel.MQTT && !r.newBases.AllowN(r.opts.Clock.Now(), 1) {
		return tunnel.TooMany,
			fmt.Errorf("more than %d new bases appeared over MQTT in a short time; if your fleet is that large, "+
				"raise MAX_BASES", r.newBases.Burst())
	}
	return "", nil
}

// heardFrom records the peer address of a heartbeat. Another address replaces it only after UnreachableAfter without
// a heartbeat from it, so that a client that uses the identity of a base cannot replace it. The caller holds the
// lock.
func (r *Registry) heardFrom(b *record, peer string) {
	now := r.opts.Clock.Now()
	if peer != b.peer && now.Sub(b.peerAt) < r.opts.UnreachableAfter {
		return
	}
	b.peer, b.peerAt = peer, now
	r.setSource(b, peer)
}

func (r *Registry) setSource(b *record, address string) {
	key := source(address)
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

// group returns the group in which missed heartbeats of a base are evaluated: its source if that has more than crowd
// bases, else the zero Prefix. The caller holds the lock.
func (r *Registry) group(b *record) netip.Prefix {
	if r.sources[b.source] > crowd {
		return b.source
	}
	return netip.Prefix{}
}
