package base

import (
	"fmt"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Accept returns why a message must be ignored, or the empty string. A base belongs to the first tunnel that it used,
// and over HTTP to the address that it reported, until it is removed. Otherwise, a client that knows the identity
// could end the base or redirect its commands. A base may change its address after it has missed heartbeats at the
// old one, or with a client certificate.
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
			fmt.Errorf("base %q came by %s: until it is gone, nothing else counts", from.Identity, b.info.Tunnel)
	case from.IP == "" || from.IP == b.info.IP || from.Certified:
		return "", nil
	case b.silence(r.opts.Clock.Now()) >= r.opts.UnreachableAfter:
		return "", nil
	}
	return tunnel.WrongAddress,
		fmt.Errorf("base %q speaks from %s, but is at %s: it may move when it has been silent there for %s",
			from.Identity, from.IP, b.info.IP, r.opts.UnreachableAfter)
}

// Recognizes reports whether a message is from the base: its peer address is that of the last heartbeat or the
// address of the base, or it has a certificate. An address in the message is no proof, because BASE_NETWORKS allows
// any. Without an address to compare, as over MQTT, it returns true.
func (r *Registry) Recognizes(from tunnel.Origin) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[from.Identity]
	return !known || r.recognizes(b, from)
}

func (r *Registry) recognizes(b *record, from tunnel.Origin) bool {
	return from.Peer == "" || b.peer == "" || from.Peer == b.peer || from.Peer == b.info.IP || from.Certified
}
