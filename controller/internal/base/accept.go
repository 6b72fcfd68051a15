package base

import (
	"fmt"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Accept returns why a message must be ignored, or the empty string. Until a base is removed, only messages over its
// first tunnel are accepted, and over HTTP only messages from its reported address. Otherwise, a client that knows the
// identity could report the end of the base or redirect its commands. A base can change its address with a client
// certificate, or after it has missed heartbeats at the old address.
func (r *Registry) Accept(from tunnel.Origin) (tunnel.Rejection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accept(from)
}

func (r *Registry) accept(from tunnel.Origin) (tunnel.Rejection, error) {
	b, known := r.bases[from.Identity]
	switch {
	case !known:
		return "", nil
	case b.info.Tunnel != from.Tunnel:
		return tunnel.OtherTunnel,
			fmt.Errorf("base %q is registered over %s; other tunnels are ignored until it is removed", from.Identity,
				b.info.Tunnel)
	case from.IP == "" || from.IP == b.info.IP || from.Certified:
		return "", nil
	case b.missedFor(r.opts.Clock.Now()) >= r.opts.UnreachableAfter:
		return "", nil
	}
	return tunnel.WrongAddress,
		fmt.Errorf("base %q sent a message from %s, but its address is %s; it can change its address after it has "+
			"missed heartbeats for %s", from.Identity, from.IP, b.info.IP, r.opts.UnreachableAfter)
}

// Recognizes reports whether a message is from the base: it comes from the address of the base or of the last
// heartbeat, or it has a client certificate. An address in the message proves nothing, because BASE_NETWORKS allows
// other addresses. Without an address to compare, as over MQTT, Recognizes returns true.
func (r *Registry) Recognizes(from tunnel.Origin) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[from.Identity]
	return !known || r.recognizes(b, from)
}

func (r *Registry) recognizes(b *record, from tunnel.Origin) bool {
	return from.Peer == "" || b.peer == "" || from.Peer == b.peer || from.Peer == b.info.IP || from.Certified
}
