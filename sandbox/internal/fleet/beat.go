package fleet

import (
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
)

// heartbeatTimeout is how long a real base waits for the answer to a heartbeat,
// connecting included.
const heartbeatTimeout = 40 * time.Second

// heartbeatURL is where bases send heartbeats; Options.Beat knows where that is.
const heartbeatURL = "http://module-controller"

// heartbeatTransport carries the heartbeats of one base, and notes whether they are answered:
// over HTTP that is what being connected means.
type heartbeatTransport struct {
	f *Fleet
	m *Member
}

// HeartbeatTransport takes heartbeats of the base with a host name that come from outside of
// this process, as from a Pod.
func (f *Fleet) HeartbeatTransport(hostName string) (http.RoundTripper, error) {
	m, err := f.Find(hostName)
	if err != nil {
		return nil, err
	}
	return &heartbeatTransport{f, m}, nil
}

// RoundTrip sends a heartbeat.
func (b *heartbeatTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	// A heartbeat may overtake the news that the base's process has started.
	if err := b.m.slot.Sync(r.Context()); err != nil {
		return nil, err
	}
	b.f.mu.Lock()
	epoch := b.m.epoch
	b.f.mu.Unlock()
	response, err := b.f.o.Heartbeats.RoundTrip(r)
	answered := err == nil && response.StatusCode == http.StatusOK
	b.f.mu.Lock()
	news := b.m.epoch == epoch && b.f.setOnline(b.m, answered)
	b.f.mu.Unlock()
	if news {
		kind := fakebase.EventDisconnected
		if answered {
			kind = fakebase.EventConnected
		}
		b.f.notify(b.m, kind)
	}
	return response, err
}
