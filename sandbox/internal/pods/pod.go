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
	// retryInterval is between two attempts to reach a Pod.
	retryInterval = 500 * time.Millisecond
	// dialTimeout bounds an attempt.
	dialTimeout = 15 * time.Second
	// pingInterval is between two questions whether a Pod is there, and pingTime bounds the answer: a
	// node that is gone closes no connection.
	pingInterval, pingTimeout = 3 * time.Second, 10 * time.Second
)

var errConnecting = errors.New("it has not been reached yet")

// pod is one Pod of the StatefulSet.
type pod struct {
	pods      *Pods
	name      string
	usedSlots int // places; Pods.mu guards it

	mu         sync.Mutex    // guards what follows
	conn       connection    // nil while it is away
	ip         string        // of the Pod; empty = not known
	ahead      time.Duration // of its clock
	downReason error         // downReason it is away
	since      time.Time     // it is as it is
	change     chan struct{}
}

func newPod(p *Pods, ordinal int) *pod {
	return &pod{pods: p, name: Name + "-" + strconv.Itoa(ordinal), downReason: errConnecting, since: time.Now(),
		change: make(chan struct{})}
}

// run keeps a connection until ctx ends.
func (x *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := x.connect(ctx)
		if err == nil {
			x.setConn(conn, nil)
			err = monitor(ctx, conn)
			_ = conn.Close() // why it has ended is known
		}
		x.setConn(nil, err)
		x.setConn(nil, x.pods.withPodReason(ctx, x.name, err))
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
		}
	}
}

// connect opens a connection, and asks what the Pod knows of itself.
func (x *pod) connect(ctx context.Context) (connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("not within %s", dialTimeout))
	defer cancel()
	conn, err := x.pods.o.dial(ctx, x.name)
	if err != nil {
		return nil, err
	}
	about, err := remote.Ask(ctx, conn)
	if err == nil {
		err = version.Agree("fakebase in the image "+x.pods.o.Image, about.Version, x.pods.o.version)
	}
	if err != nil {
		_ = conn.Close() // it may have ended
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ip, x.ahead = about.Address, about.Ahead
	return conn, nil
}

// address is that of the Pod; empty = it is away, or not known.
func (x *pod) address() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return ""
	}
	return x.ip
}

// clockAhead is how far the Pod's clock is ahead of this machine's.
func (x *pod) clockAhead() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ahead
}

// monitor blocks until a connection ends, or ctx, and says why.
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
			return conn.Err() // which says more
		default:
		}
		if err != nil {
			return fmt.Errorf("it did not answer within %s", pingTimeout)
		}
	}
}

// setConn takes down how it is, and tells it if that is new.
func (x *pod) setConn(conn connection, why error) {
	x.mu.Lock()
	news := (conn == nil) != (x.conn == nil)
	x.conn, x.downReason = conn, why
	if news {
		x.since = time.Now()
	}
	close(x.change)
	x.change = make(chan struct{})
	x.mu.Unlock()
	switch {
	case !news:
	case conn != nil:
		x.pods.o.OnChange(x.name, supervise.Running, "its bases can run")
	default:
		x.pods.o.OnChange(x.name, supervise.Exited, "its bases are down: "+why.Error())
	}
}

// waitConnected blocks until it answers. When ctx ends before, the error says why it does not.
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
			return nil, fmt.Errorf("the Pod %s is away (%w): %w", x.name, why, context.Cause(ctx))
		}
	}
}
