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
	// retryPause is between two attempts to reach a Pod.
	retryPause = 500 * time.Millisecond
	// dialTime bounds an attempt.
	dialTime = 15 * time.Second
	// pingPause is between two questions whether a Pod is there, and pingTime bounds the answer: a
	// node that is gone closes no connection.
	pingPause, pingTime = 3 * time.Second, 10 * time.Second
)

var errConnecting = errors.New("it has not been reached yet")

// pod is one Pod of the StatefulSet.
type pod struct {
	pods *Pods
	name string
	used int // places; Pods.mu guards it

	mu     sync.Mutex    // guards what follows
	conn   connection    // nil while it is away
	ip     string        // of the Pod; empty = not known
	ahead  time.Duration // of its clock
	why    error         // why it is away
	since  time.Time     // it is as it is
	change chan struct{}
}

func newPod(p *Pods, ordinal int) *pod {
	return &pod{pods: p, name: Name + "-" + strconv.Itoa(ordinal), why: errConnecting, since: time.Now(),
		change: make(chan struct{})}
}

// run keeps a connection until ctx ends.
func (x *pod) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := x.connect(ctx)
		if err == nil {
			x.note(conn, nil)
			err = hold(ctx, conn)
			_ = conn.Close() // why it has ended is known
		}
		x.note(nil, err)
		x.note(nil, x.pods.explained(ctx, x.name, err))
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
}

// connect opens a connection, and asks what the Pod knows of itself.
func (x *pod) connect(ctx context.Context) (connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTime, fmt.Errorf("not within %s", dialTime))
	defer cancel()
	conn, err := x.pods.o.dial(ctx, x.name)
	if err != nil {
		return nil, err
	}
	about, err := remote.Ask(ctx, conn)
	if err == nil {
		err = version.CheckCompatible("fakebase in the image "+x.pods.o.Image, about.Version, x.pods.o.version)
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

// hold blocks until a connection ends, or ctx, and says why.
func hold(ctx context.Context, conn connection) error {
	tick := time.NewTicker(pingPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-conn.Done():
			return conn.Err()
		case <-tick.C:
		}
		limit, cancel := context.WithTimeout(ctx, pingTime)
		err := conn.Ping(limit)
		cancel()
		select {
		case <-conn.Done():
			return conn.Err() // which says more
		default:
		}
		if err != nil {
			return fmt.Errorf("it did not answer within %s", pingTime)
		}
	}
}

// note takes down how it is, and tells it if that is new.
func (x *pod) note(conn connection, why error) {
	x.mu.Lock()
	news := (conn == nil) != (x.conn == nil)
	x.conn, x.why = conn, why
	if news {
		x.since = time.Now()
	}
	close(x.change)
	x.change = make(chan struct{})
	x.mu.Unlock()
	switch {
	case !news:
	case conn != nil:
		x.pods.o.Changed(x.name, supervise.Running, "its bases can run")
	default:
		x.pods.o.Changed(x.name, supervise.Exited, "its bases are down: "+why.Error())
	}
}

// await blocks until it answers. When ctx ends before, the error says why it does not.
func (x *pod) await(ctx context.Context) (connection, error) {
	for {
		x.mu.Lock()
		conn, why, change := x.conn, x.why, x.change
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
