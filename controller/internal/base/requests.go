package base

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

var (
	// ErrUnknownBase means that the base is not in the Registry.
	ErrUnknownBase = errors.New("unknown base")
	// ErrNoAnswer means that the base did not answer in time. The state of the module is unknown until the next
	// module list arrives.
	ErrNoAnswer = errors.New("base did not answer in time")
	// ErrResendDeclined means that a request was lost and that the callback of Do declined to resend it.
	ErrResendDeclined = errors.New("the request was lost and is no longer needed")
)

// Tunnel sends requests to bases over one protocol.
type Tunnel interface {
	Key() tunnel.Key
	Send(ctx context.Context, to tunnel.Address, r arklet.Request) error
}

// RequestTracker sends requests to bases and waits for their answers. The protocol has no correlation ID. An answer
// is assigned to the request with the same command and module. The methods are safe for concurrent use.
type RequestTracker struct {
	registry *Registry
	tunnels  map[tunnel.Key]Tunnel

	mu        sync.Mutex
	waiting   map[string]map[commandKey]*pending // pending requests by base
	listening map[queryKey]map[chan reply]struct{}
}

// reply is an answer or a health document, or the error that explains why no reply will arrive.
type reply struct {
	answer arklet.Answer
	health arklet.Health
	err    error
}

// commandKey identifies an install, uninstall or switch command on one base.
type commandKey struct {
	command arklet.Command
	module  arklet.Module // module name and version, without the jar URL
}

func newCommandKey(c arklet.Command, m arklet.Module) commandKey {
	return commandKey{c, arklet.Module{Name: m.Name, Version: m.Version}}
}

// queryKey identifies a query without a module: health or queryAllBiz. Several callers can wait for the same answer.
type queryKey struct {
	base    string
	command arklet.Command
}

// NewRequestTracker returns a RequestTracker without tunnels. Add them with AddTunnel.
func NewRequestTracker(registry *Registry) *RequestTracker {
	return &RequestTracker{
		registry: registry, tunnels: map[tunnel.Key]Tunnel{},
		waiting: map[string]map[commandKey]*pending{}, listening: map[queryKey]map[chan reply]struct{}{},
	}
}

// AddTunnel adds a tunnel. Call it before sending the first request.
func (d *RequestTracker) AddTunnel(t Tunnel) { d.tunnels[t.Key()] = t }

// Send sends a request to a base. It does not wait for the answer.
func (d *RequestTracker) Send(ctx context.Context, key tunnel.Key, to tunnel.Address, r arklet.Request) error {
	t, ok := d.tunnels[key]
	if !ok {
		return fmt.Errorf("sending to base %q: tunnel %q is not enabled", d.registry.DisplayName(to.Identity), key)
	}
	if err := t.Send(ctx, to, r); err != nil {
		return fmt.Errorf("sending %s to base %q: %w", r.Command, d.registry.DisplayName(to.Identity), err)
	}
	return nil
}

// DisplayName returns the name of a base for use in messages; see Registry.DisplayName.
func (d *RequestTracker) DisplayName(identity string) string { return d.registry.DisplayName(identity) }

// Info returns the data that a base reports about itself. It is zero if the base is unknown.
func (d *RequestTracker) Info(identity string) Info {
	s, _ := d.registry.Get(identity)
	return s.Info
}

// Query sends a query to a base. It does not wait for the answer.
func (d *RequestTracker) Query(ctx context.Context, identity string, command arklet.Command) error {
	return d.send(ctx, identity, arklet.Request{Command: command})
}

func (d *RequestTracker) send(ctx context.Context, identity string, r arklet.Request) error {
	s, known := d.registry.Get(identity)
	if !known {
		return fmt.Errorf("sending to base %q: %w", identity, ErrUnknownBase)
	}
	return d.Send(ctx, s.Tunnel, tunnel.Address{Identity: identity, IP: s.IP, Port: s.Port}, r)
}

// Do sends an install, uninstall or switch command and waits for the answer. If ctx is done or FailPending is called
// before the answer arrives, the error is ErrNoAnswer. If no answer arrives and the module lists show the result, Do
// returns a success. If they show that the request was lost, Do sends it again; see HandleList. If the tunnel knows
// that there will be no answer, Do returns its error immediately, such as tunnel.ErrRefused. Only one Do at a time is
// allowed for a command, base and module.
//
// The argument mayResend is a callback that Do calls before it resends a request. If the callback returns false, Do
// does not resend the request and returns ErrResendDeclined. If the callback is nil, Do may always resend.
func (d *RequestTracker) Do(ctx context.Context, identity string, r arklet.Request,
	mayResend func() bool) (arklet.Answer, error) {
	q := newCommandKey(r.Command, r.Module)
	fail := func(err error) (arklet.Answer, error) {
		return arklet.Answer{},
			fmt.Errorf("%s of %s on base %q: %w", r.Command, q.module.Identity(), d.registry.DisplayName(identity), err)
	}
	p, forget, err := d.expect(identity, q)
	if err != nil {
		return arklet.Answer{}, err
	}
	defer forget()
	if err := d.send(ctx, identity, r); err != nil {
		return arklet.Answer{}, err
	}
	pause := d.registry.opts.TimeScale.Of(resendDelay)
	late := d.registry.opts.Clock.NewTimer(pause)
	defer late.Stop()
	for {
		select {
		case got := <-p.answer:
			switch {
			case errors.Is(got.err, tunnel.ErrTimedOut):
				return fail(fmt.Errorf("%w (%w)", ErrNoAnswer, got.err))
			case got.err != nil:
				return fail(got.err)
			}
			return got.answer, nil
		case <-late.C():
			if d.requestListCheck(identity, p) { // a lost query is repeated after the next delay
				_ = d.Query(ctx, identity, arklet.CommandQueryAllBiz)
			}
			late.Reset(pause)
		case wait := <-p.relist:
			late.Reset(wait)
		case <-p.resend:
			if mayResend != nil && !mayResend() {
				return fail(ErrResendDeclined)
			}
			_ = d.send(ctx, identity, r)
			pause *= 2
			late.Reset(pause)
		case <-ctx.Done():
			return fail(fmt.Errorf("%w (%w)", ErrNoAnswer, context.Cause(ctx)))
		}
	}
}

// HandleAnswer passes an answer to the matching request, and reports whether such a request exists. After an
// exception, bases of generations A and B omit the module. Such an answer matches a request only if no other request
// with the same command is pending.
func (d *RequestTracker) HandleAnswer(identity string, a arklet.Answer) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := newCommandKey(a.Command, a.Module)
	if a.Module.Name == "" {
		candidates := 0
		for w := range d.waiting[identity] {
			if w.command == a.Command {
				q = w
				candidates++
			}
		}
		if candidates != 1 {
			return false
		}
	}
	p, waiting := d.waiting[identity][q]
	if waiting && p.resent && a.InProgress() { // the base is executing the first request
		return true
	}
	return waiting && offer(p.answer, reply{answer: a})
}

// offer sends a value to a channel unless the channel is full. It reports whether it sent the value.
func offer[T any](c chan T, v T) bool {
	select {
	case c <- v:
		return true
	default:
		return false
	}
}

// HandleNoAnswer passes an error of the tunnel to the callers that wait for the answer to a request. It reports
// whether any caller was waiting.
func (d *RequestTracker) HandleNoAnswer(identity string, r arklet.Request, err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p, waiting := d.waiting[identity][newCommandKey(r.Command, r.Module)]; waiting {
		return offer(p.answer, reply{err: err})
	}
	return d.notify(queryKey{identity, r.Command}, reply{err: err})
}

// FailPending makes all pending calls of Do for a base return ErrNoAnswer with a reason. Use it when answers from the
// base can no longer arrive.
func (d *RequestTracker) FailPending(identity, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.waiting[identity] {
		offer(p.answer, reply{err: fmt.Errorf("%w: %s", ErrNoAnswer, reason)})
	}
}

// FailTunnel calls FailPending for each base that is connected through a tunnel.
func (d *RequestTracker) FailTunnel(key tunnel.Key, reason string) {
	d.mu.Lock()
	identities := slices.Collect(maps.Keys(d.waiting))
	d.mu.Unlock()
	for _, identity := range identities {
		if s, known := d.registry.Get(identity); known && s.Tunnel == key {
			d.FailPending(identity, reason)
		}
	}
}

// HandleHealth passes a health document to the callers that wait for the health check.
func (d *RequestTracker) HandleHealth(identity string, h arklet.Health) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify(queryKey{identity, arklet.CommandHealth}, reply{health: h})
}

// notify passes a reply to the callers that wait for the answer to a query. It reports whether any caller was
// waiting. The caller of notify holds the lock.
func (d *RequestTracker) notify(q queryKey, r reply) bool {
	received := false
	for c := range d.listening[q] {
		received = offer(c, r) || received
	}
	return received
}

// listen returns a channel that receives one reply to a query. The caller must call stop when it no longer waits for
// the reply.
func (d *RequestTracker) listen(q queryKey) (next chan reply, stop func()) {
	next = make(chan reply, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listening[q] == nil {
		d.listening[q] = map[chan reply]struct{}{}
	}
	d.listening[q][next] = struct{}{}
	return next, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.listening[q], next)
		if len(d.listening[q]) == 0 {
			delete(d.listening, q)
		}
	}
}

// Health sends a health check and waits for the answer. The error is ErrNoAnswer if ctx is done before the answer
// arrives, or the error from the tunnel.
func (d *RequestTracker) Health(ctx context.Context, identity string) (arklet.Health, error) {
	next, stop := d.listen(queryKey{identity, arklet.CommandHealth})
	defer stop()
	if err := d.Query(ctx, identity, arklet.CommandHealth); err != nil {
		return arklet.Health{}, err
	}
	select {
	case got := <-next:
		if got.err != nil {
			return arklet.Health{},
				fmt.Errorf("checking the health of base %q: %w", d.registry.DisplayName(identity), got.err)
		}
		return got.health, nil
	case <-ctx.Done():
		return arklet.Health{},
			fmt.Errorf("checking the health of base %q: %w (%w)", d.registry.DisplayName(identity), ErrNoAnswer,
				context.Cause(ctx))
	}
}

// resendList is how long to wait for a module list before the query is sent again.
const resendList = 2 * time.Second

// Modules queries the modules of a base. It returns a snapshot whose module list is not older than notBefore, on the
// clock of Origin.At. It blocks until the list arrives, until ctx is done (the error is ErrNoAnswer), or until the
// tunnel returns tunnel.ErrRefused.
func (d *RequestTracker) Modules(ctx context.Context, identity string, notBefore time.Time) (Snapshot, error) {
	_, seen, next, err := d.registry.list(identity)
	if err != nil {
		return Snapshot{}, err
	}
	failed, stop := d.listen(queryKey{identity, arklet.CommandQueryAllBiz})
	defer stop()
	if err := d.Query(ctx, identity, arklet.CommandQueryAllBiz); err != nil {
		return Snapshot{}, err
	}
	resend := d.registry.opts.Clock.NewTimer(d.registry.opts.TimeScale.Of(resendList))
	defer resend.Stop()
	var last error // of the tunnel; another attempt may succeed
	for {
		select {
		case <-next:
			s, turn, later, err := d.registry.list(identity)
			if err != nil {
				return Snapshot{}, err
			}
			if turn > seen && !s.ListedAt.Before(notBefore) {
				return s, nil
			}
			next = later
		case <-resend.C():
			if err := d.Query(ctx, identity, arklet.CommandQueryAllBiz); err != nil {
				return Snapshot{}, err
			}
			resend.Reset(d.registry.opts.TimeScale.Of(resendList))
		case got := <-failed:
			last = got.err
			if errors.Is(last, tunnel.ErrRefused) {
				return Snapshot{}, fmt.Errorf("queryAllBiz on base %q: %w", d.registry.DisplayName(identity), last)
			}
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if last != nil {
				cause = fmt.Errorf("%w; previous error: %w", cause, last)
			}
			return Snapshot{},
				fmt.Errorf("queryAllBiz on base %q: %w (%w)", d.registry.DisplayName(identity), ErrNoAnswer, cause)
		}
	}
}

// list returns the snapshot of a base, the number of module lists accepted so far, and a channel that is closed when
// the next module list is accepted.
func (r *Registry) list(identity string) (Snapshot, uint64, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, known := r.bases[identity]
	if !known {
		return Snapshot{}, 0, nil, fmt.Errorf("queryAllBiz on base %q: %w", identity, ErrUnknownBase)
	}
	if b.nextListed == nil {
		b.nextListed = make(chan struct{})
	}
	return b.snapshot(), b.listCount, b.nextListed, nil
}
