package fleet

import (
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
)

// heartbeatTimeout is how long a real base waits for the response to a heartbeat, including the connection setup.
const heartbeatTimeout = 40 * time.Second

// heartbeatURL is the URL to which bases send heartbeats. Its host is a placeholder: Options.Heartbeats selects the
// controllers.
const heartbeatURL = "http://module-controller"

// heartbeatTransport sends the heartbeats of one base and records whether they succeed. A base with the HTTP tunnel
// is connected if its last heartbeat succeeded.
type heartbeatTransport struct {
	f *Fleet
	m *Member
}

// HeartbeatTransport returns a transport for the heartbeats of the base with the given host name. Use it for a base
// that runs in another process, for example in a Pod.
func (f *Fleet) HeartbeatTransport(hostName string) (http.RoundTripper, error) {
	m, err := f.Find(hostName)
	if err != nil {
		return nil, err
	}
	return &heartbeatTransport{f, m}, nil
}

// RoundTrip sends a heartbeat of the base to the controllers and records whether it succeeded.
func (b *heartbeatTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	// A heartbeat may arrive before the event that the base process has started.
	if err := b.m.slot.Sync(r.Context()); err != nil {
		return nil, err
	}
	b.f.mu.Lock()
	epoch := b.m.epoch
	b.f.mu.Unlock()
	response, err := b.f.o.Heartbeats.RoundTrip(r)
	answered := err == nil && response.StatusCode == http.StatusOK
	b.f.mu.Lock()
	changed := b.m.epoch == epoch && b.f.setOnline(b.m, answered)
	b.f.mu.Unlock()
	if changed {
		kind := fakebase.EventDisconnected
		if answered {
			kind = fakebase.EventConnected
		}
		b.f.notify(b.m, kind)
	}
	return response, err
}
