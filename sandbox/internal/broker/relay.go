package broker

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// dialTimeout is the timeout for connecting to the external broker.
const dialTimeout = 30 * time.Second

// Relay forwards connections to an external broker. It is used instead of the embedded broker if the sandbox has an
// external broker. Closing or pausing the relay looks to controllers and bases like a broker failure, but does not
// affect other clients of the external broker. All methods may be called concurrently.
type Relay struct {
	*listener
	to *External

	mu      sync.Mutex
	dialErr error // error of the last connection attempt
}

// NewRelay creates a relay and opens its port. The relay accepts connections after Start.
func NewRelay(to *External, o ListenOptions) (*Relay, error) {
	l, err := listen(o)
	if err != nil {
		return nil, fmt.Errorf("opening the port of the relay to the broker: %w", err)
	}
	r := &Relay{listener: l, to: to}
	l.serve = r.forward
	return r, nil
}

// Start runs the relay and blocks until ctx ends. Then it closes all connections and returns nil. Start can be called
// only once.
func (r *Relay) Start(ctx context.Context) error {
	r.run(ctx)
	return nil
}

// forward copies data between a client and the external broker until either of them closes its connection.
func (r *Relay) forward(ctx context.Context, near net.Conn, _ bool) {
	dialling, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	far, err := r.to.Dial(dialling)
	if ctx.Err() == nil {
		r.recordDial(err)
	}
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, near)
	_ = far.Close()
	back.Wait()
}

// recordDial records the result of an attempt to connect to the external broker. It logs each change between
// reachable and unreachable.
func (r *Relay) recordDial(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil && r.dialErr == nil:
		r.log.Warn("the broker is unreachable", "broker", r.to.URL, "err", err)
	case err == nil && r.dialErr != nil:
		r.log.Info("the broker is reachable again", "broker", r.to.URL)
	}
	r.dialErr = err
}

// Stats returns nil, because the counters of the external broker are not available.
func (r *Relay) Stats() *Stats { return nil }

// Err returns the error of the most recent attempt to connect to the external broker, or nil if that attempt
// succeeded or there was none.
func (r *Relay) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dialErr
}
