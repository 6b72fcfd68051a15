package base

import (
	"fmt"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Accept returns the reason to ignore a message, or the empty string to accept it. Until a base is removed, its
// messages must arrive over the tunnel that the base used first. Over HTTP, its messages must also come from the
// address that the base reported. Otherwise, a client that knows the identity of the base could report that the base
// has stopped, or redirect its commands. A base can change its address with a client certificate, or after it has
// missed heartbeats at the old address.
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
			fmt.Errorf("base %q is registered over %s; other tunnels are ignored until the "+
				"base is removed", from.Identity,
				b.info.Tunnel)
	case from.IP == "" || from.IP == b.info.IP || from.Certified:
		return "", nil
	case b.missedFor(r.opts.Clock.Now()) >= r.opts.UnreachableAfter:
		return "", nil
	}
	return tunnel.WrongAddress,
		fmt.Errorf("base %q sent a message from %s, but its address is %s; a base can change its address after it has "+
			"missed heartbeats for %s", from.Identity, from.IP, b.info.IP, r.opts.UnreachableAfter)
}

// Recognizes reports whether a message is from the base. This is the case if it comes from the address of the base or
// of the last heartbeat, or if its client has a certificate. An address in the message proves nothing, because
// BASE_NETWORKS allows other addresses. Recognizes also returns true if the Registry does not contain the base, or if
// there is no source address to compare, as over MQTT.
func (r *Registry) Recognizes(from tunnel.Origin) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[from.Identity]
	return !known || r.recognizes(b, from)
}

func (r *Registry) recognizes(b *record, from tunnel.Origin) bool {
	return from.Peer == "" || b.peer == "" || from.Peer == b.peer || from.Peer == b.info.IP || from.Certified
}
