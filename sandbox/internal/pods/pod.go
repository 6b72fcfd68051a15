package pods

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

const (
	// retryInterval is the interval between attempts to connect to a Pod.
	retryInterval = 500 * time.Millisecond
	// dialTimeout is the timeout for connecting to a Pod.
	dialTimeout = 15 * time.Second
	// pingInterval is the interval between pings. pingTimeout is the timeout of one ping. Pings are needed to detect
	// a failed node, which does not close its connections.
	pingInterval, pingTimeout = 3 * time.Second, 10 * time.Second
)

var errConnecting = errors.New("not connected yet")

// pod is a Pod of the StatefulSet that runs bases.
type pod struct {
	pods      *Pods
	name      string
	usedSlots int // guarded by Pods.mu

	mu         sync.Mutex    // guards the following fields
	conn       connection    // nil while the Pod is unavailable
	ip         string        // address of the Pod; empty if unknown
	ahead      time.Duration // how far the Pod's clock is ahead of the clock of this machine
	downReason error         // reason why conn is nil
	since      time.Time     // when the Pod last became available or unavailable
	change     chan struct{} // closed and replaced when the connection changes
}

func newPod(p *Pods, ordinal int) *pod {
	return &pod{pods: p, name: Name + "-" + strconv.Itoa(ordinal), downReason: errConnecting, since: time.Now(),
		change: make(chan struct{})}
}

// run connects to the Pod, and reconnects after failures, until ctx ends.
func (x *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := x.connect(ctx)
		if err == nil {
			x.setConn(conn, nil)
			err = monitor(ctx, conn)
			_ = conn.Close() // err already has the reason
		}
		x.setConn(nil, err)
		x.setConn(nil, x.pods.withPodReason(ctx, x.name, err))
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
		}
	}
}

// connect opens a connection to the Pod and reads the version of its binary, its address and its clock.
func (x *pod) connect(ctx context.Context) (connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("timed out after %s", dialTimeout))
	defer cancel()
	conn, err := x.pods.o.dial(ctx, x.name)
	if err != nil {
		return nil, err
	}
	about, err := remote.FetchProcessInfo(ctx, conn)
	if err == nil {
		err = version.CheckCompatible("fakebase in the image "+x.pods.o.Image, about.Version, x.pods.o.version)
	}
	if err != nil {
		_ = conn.Close() // it may have ended
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ip, x.ahead = about.Address, about.ClockOffset
	return conn, nil
}

// address returns the address of the Pod, or an empty string if the Pod is unavailable or the address is unknown.
func (x *pod) address() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return ""
	}
	return x.ip
}

// clockAhead returns how far the clock of the Pod is ahead of the clock of this machine.
func (x *pod) clockAhead() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ahead
}

// monitor pings the connection. It blocks until the connection fails or ctx ends, and returns the reason.
func monitor(ctx context.Context, conn connection) error {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-conn.Done():
			return conn.Err()
		case <-tick.C:
		}
		limit, cancel := context.WithTimeout(ctx, pingTimeout)
		err := conn.Ping(limit)
		cancel()
		select {
		case <-conn.Done():
			return conn.Err() // more specific
		default:
		}
		if err != nil {
			return fmt.Errorf("no response within %s", pingTimeout)
		}
	}
}

// setConn records the connection to the Pod, or the reason why there is no connection. It calls Options.OnChange if
// the Pod became available or unavailable.
func (x *pod) setConn(conn connection, downReason error) {
	x.mu.Lock()
	changed := (conn == nil) != (x.conn == nil)
	x.conn, x.downReason = conn, downReason
	if changed {
		x.since = time.Now()
	}
	close(x.change)
	x.change = make(chan struct{})
	x.mu.Unlock()
	switch {
	case !changed:
	case conn != nil:
		x.pods.o.OnChange(x.name, supervise.Running, "its bases can run")
	default:
		x.pods.o.OnChange(x.name, supervise.Exited, "its bases are down: "+downReason.Error())
	}
}

// waitConnected blocks until the Pod is connected. If ctx ends first, the error contains the reason why the Pod is
// not connected.
func (x *pod) waitConnected(ctx context.Context) (connection, error) {
	for {
		x.mu.Lock()
		conn, why, change := x.conn, x.downReason, x.change
		x.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s is unavailable (%w): %w", x.name, why, context.Cause(ctx))
		}
	}
}
