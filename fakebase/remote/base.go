package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

const (
	// callTime is how long the process of a base may take to answer: one that is paused
	// never does.
	callTime = 5 * time.Second
	// origin begins the URLs of requests, whose host says nothing.
	origin = "http://base"
)

// Base is a base in another process. It has the methods of a fakebase.Base, with
// the same promises, and errors where that process does not answer. They may be called concurrently.
type Base struct {
	*mirror
	transport http.RoundTripper
	http      bool // it has the HTTP tunnel

	stopFollowing context.CancelFunc
	followed      chan struct{} // closed when nothing is read any more

	state   sync.Mutex // guards what follows
	started bool
	running bool // Start has not returned
}

// Address asks a process that calls Serve for the address at which others reach it.
func Address(ctx context.Context, transport http.RoundTripper) (string, error) {
	var a addressBody
	if _, err := roundTrip(ctx, transport, http.MethodGet, "/address", http.NoBody, &a); err != nil {
		return "", fmt.Errorf("asking for the address of a base: %w", err)
	}
	return a.IP, nil
}

// New tells the process behind transport, such as a stdio.Process, which base to
// be. It does nothing until Start. The error names every option that is wrong. When the
// base is no longer needed, or not at all, the process must be ended.
func New(ctx context.Context, transport http.RoundTripper, o Options) (*Base, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("describing base %q: %w", o.Identity, err)
	}
	var now madeBody
	if _, err := roundTrip(ctx, transport, http.MethodPost, "/base", bytes.NewReader(text), &now); err != nil {
		return nil, fmt.Errorf("making base %q: %w", o.Identity, err)
	}
	b := &Base{mirror: newMirror(now.Status.IP, now), transport: transport, http: o.HTTP != nil, followed: make(chan struct{})}
	// The stream goes on as long as the base, which the caller's context does not bound.
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stopFollowing = stop
	r, err := http.NewRequestWithContext(follow, http.MethodGet, origin+"/follow", http.NoBody)
	if err != nil {
		stop()
		return nil, fmt.Errorf("following base %q: %w", o.Identity, err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		stop()
		return nil, fmt.Errorf("following base %q: %w", o.Identity, err)
	}
	go func() {
		defer close(b.followed)
		b.follow(answer.Body)
	}()
	return b, nil
}

// follow reads what the base tells, to its end.
func (b *Base) follow(stream io.ReadCloser) {
	defer b.stopFollowing()
	defer func() { _ = stream.Close() }() // it has ended
	for decoder := json.NewDecoder(stream); ; {
		var m message
		if err := decoder.Decode(&m); err != nil {
			b.end("its process has ended")
			return
		}
		b.apply(m)
	}
}

// Start runs the base until ctx ends, and then returns nil. An error means that
// it could not run, as that of fakebase.Base, or that its process has ended; then it cannot be had back. At
// most one Start per Base.
func (b *Base) Start(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.over()
	life, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	leash, hold := io.Pipe()
	defer context.AfterFunc(ctx, func() {
		_ = hold.Close() // a pipe's end has no error
		patience := time.NewTimer(callTime)
		defer patience.Stop()
		select {
		case <-patience.C:
			b.stopFollowing()
			cut()
		case <-life.Done():
		}
	})()
	_, err := roundTrip(life, b.transport, http.MethodPost, "/run", leash, nil)
	_ = hold.Close() // as above
	var refused refusedError
	if err != nil && !errors.As(err, &refused) {
		b.stopFollowing()
	}
	<-b.followed
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("running base %q: %w", b.Identity(), err)
	}
	return nil
}

func (b *Base) begin() error {
	b.state.Lock()
	defer b.state.Unlock()
	if b.started {
		return fmt.Errorf("starting base %q: %w", b.Identity(), fakebase.ErrStarted)
	}
	b.started, b.running = true, true
	return nil
}

func (b *Base) over() {
	b.state.Lock()
	defer b.state.Unlock()
	b.running = false
}

// Inject adds a fault, whose effect begins at once, and returns its id.
func (b *Base) Inject(f fault.Fault) (string, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("injecting fault %q: %w", f.ID, err)
	}
	var made injectedBody
	err = b.call(context.Background(), http.MethodPost, "/faults", bytes.NewReader(text), &made)
	return made.ID, err
}

// Clear takes faults away by id, all of them if none is given, and tells how
// many there were; none when the process does not answer.
func (b *Base) Clear(ids ...string) int {
	paths := make([]string, 0, len(ids)+1)
	for _, id := range ids {
		paths = append(paths, "/faults/"+url.PathEscape(id))
	}
	if len(ids) == 0 {
		paths = append(paths, "/faults")
	}
	sum := 0
	for _, path := range paths {
		var c clearedBody
		if err := b.call(context.Background(), http.MethodDelete, path, http.NoBody, &c); err == nil {
			sum += c.Cleared
		}
	}
	return sum
}

// Restart starts the base's process again, as that of fakebase.Base.
func (b *Base) Restart(identity string) error {
	b.state.Lock()
	running := b.running
	b.state.Unlock()
	if !running {
		return fmt.Errorf("restarting base as %q: %w", identity, fakebase.ErrNotRunning)
	}
	return b.call(context.Background(), http.MethodPost, "/restart?identity="+url.QueryEscape(identity), http.NoBody, nil)
}

// WebAddr returns host:port of the listener for module traffic.
func (b *Base) WebAddr(ctx context.Context) (string, error) {
	if addr := b.Status().WebAddr; addr != "" {
		return addr, nil
	}
	var web webBody
	if err := b.call(ctx, http.MethodPost, "/web", http.NoBody, &web); err != nil {
		return "", err
	}
	return b.reachable(web.Addr), nil
}

// HTTPAddr is host:port of the arklet HTTP server, or of the last one; empty =
// there has been none.
func (b *Base) HTTPAddr() string {
	b.mu.Lock()
	addr := b.httpAddr
	b.mu.Unlock()
	if addr != "" || !b.http {
		return addr
	}
	// It is opened without an event.
	var now fakebase.Status
	if err := b.call(context.Background(), http.MethodGet, "/", http.NoBody, &now); err != nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.httpAddr = b.reachable(now.HTTPAddr)
	return b.httpAddr
}

// Sync blocks until everything that has happened so far has been told. It is for
// whoever hears from the base in another way.
func (b *Base) Sync(ctx context.Context) error {
	return b.call(ctx, http.MethodGet, "/", http.NoBody, nil)
}

// call asks the base for something, and returns when all that happened before the
// answer has been told.
func (b *Base) call(ctx context.Context, method, path string, body io.Reader, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, fmt.Errorf("the process of base %q did not answer within %s", b.Identity(), callTime))
	defer cancel()
	seq, err := roundTrip(ctx, b.transport, method, "/base"+path, body, into)
	if waitErr := b.await(ctx, seq); err == nil {
		err = waitErr
	}
	return err
}

// refusedError says what the other side does not want to do.
type refusedError string

func (e refusedError) Error() string { return string(e) }

// roundTrip sends a request and reads the answer into a value, if one is given.
func roundTrip(ctx context.Context, transport http.RoundTripper, method, path string, body io.Reader, into any) (seq uint64, err error) {
	r, err := http.NewRequestWithContext(ctx, method, origin+path, body)
	if err != nil {
		return 0, err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }() // what counts is read
	seq, _ = strconv.ParseUint(answer.Header.Get(seqHeader), 10, 64)
	decoder := json.NewDecoder(answer.Body)
	if answer.StatusCode != http.StatusOK {
		var e errorBody
		if err := decoder.Decode(&e); err != nil {
			e.Error = answer.Status
		}
		return seq, refusedError(e.Error)
	}
	if into != nil {
		err = decoder.Decode(into)
	}
	return seq, err
}
