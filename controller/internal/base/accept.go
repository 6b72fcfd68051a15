package base

import (
	"fmt"

	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Accept says why a message is not to be acted on; the reason is empty if it is. A base belongs to the
// tunnel that brought it first, until it is gone, and over HTTP to the address that it named: anybody
// else who knows its identity could end it otherwise, have commands sent elsewhere, or keep it alive
// when it is dead. A base may have another address once it has been silent at the one before, or with
// a certificate that proves who it is. Of a base that is not known every message is accepted.
func (r *Registry) Accept(from tunnel.Origin) (tunnel.Rejection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.accept(from)
}

// accept is called with the lock held.
func (r *Registry) accept(from tunnel.Origin) (tunnel.Rejection, error) {
	b, known := r.bases[from.Identity]
	switch {
	case !known:
		return "", nil
	case b.info.Tunnel != from.Tunnel:
		return tunnel.OtherTunnel, fmt.Errorf("base %q came by %s: until it is gone, nothing else counts", from.Identity, b.info.Tunnel)
	case from.IP == "" || from.IP == b.info.IP || from.Certified:
		return "", nil
	case b.silence(r.opts.Clock.Now()) >= r.opts.UnreachableAfter:
		return "", nil
	}
	return tunnel.WrongAddress, fmt.Errorf("base %q speaks from %s, but is at %s: it may move when it has been silent there for %s", from.Identity, from.IP, b.info.IP, r.opts.UnreachableAfter)
}

// Recognizes reports whether a message is from the base. Its peer address must be that of the last heartbeat,
// or the address of the base, or it must have a certificate of the base. The address in the message is not
// enough, because with BASE_NETWORKS a message can name the address of another base. Recognizes also returns
// true if there is no address to compare: over MQTT, and before the first heartbeat.
func (r *Registry) Recognizes(from tunnel.Origin) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[from.Identity]
	return !known || r.recognizes(b, from)
}

// recognizes is called with the lock held.
func (r *Registry) recognizes(b *record, from tunnel.Origin) bool {
	return from.Peer == "" || b.peer == "" || from.Peer == b.peer || from.Peer == b.info.IP || from.Certified
}
