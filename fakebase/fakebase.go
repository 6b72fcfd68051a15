package fakebase

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/observers"
)

// ErrStarted is wrapped by the error that Start returns if the base has already been started.
var ErrStarted = errors.New("base has already been started")

// ErrNotRunning is wrapped by the error that Restart returns before Start is called and after Start has returned.
var ErrNotRunning = errors.New("base is not running")

// Base is a simulated base. Its methods may be called concurrently, before, during and after Start.
type Base struct {
	opts   Options
	log    *slog.Logger
	faults faultSet

	mu              sync.Mutex
	started         bool
	running         bool         // Start was called and has not returned
	identity        string       // identity of the running process; otherwise of the last or next process
	current         *incarnation // the running process; nil if no process runs
	watchers        observers.List[Event]
	tracers         observers.List[Trace]
	seq             uint64
	rnd             *rand.Rand
	restartRequests chan string    // identities for the next processes; empty = the identity does not change
	restartPlan     *fault.Restart // when and how to restart after the current crash; nil = no restart
	web             webPort
	httpAddr        string        // address of the arklet HTTP server; the next process uses it again
	requests        atomic.Uint64 // number of served module requests
}

// New returns a base that is idle until Start is called. The error contains all invalid options.
func New(opts Options) (*Base, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("options of base %q: %w", opts.Identity, err)
	}
	b := &Base{opts: opts, restartRequests: make(chan string, 1)}
	seed := opts.Seed
	if seed == 0 {
		seed = rand.Uint64()
		if opts.Identity != "" {
			h := fnv.New64a()
			_, _ = h.Write([]byte(opts.Identity))
			seed = h.Sum64()
		}
	}
	b.rnd = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not used for security
	b.faults.Mutex, b.faults.Seed, b.faults.speed = &b.faults.mu, seed, opts.Speed
	b.faults.OnTriggered = func(a *fault.Active[fault.Fault]) { b.traceFault(&a.Fault, FaultTriggered) }
	b.faults.OnEnded = func(a *fault.Active[fault.Fault]) { b.traceFault(&a.Fault, FaultCleared) }
	b.faults.OnExpired = func(a *fault.Active[fault.Fault]) { b.onFaultEnded(a.Fault.Kind) }
	b.identity = opts.Identity
	if b.identity == "" {
		b.identity = opts.IP
		if opts.Generation.isOld() {
			b.identity = uuid.NewString()
		}
	}
	b.log = opts.Logger
	b.web.init(b)
	for _, f := range opts.Faults {
		if _, err := b.Inject(f); err != nil {
			return nil, fmt.Errorf("options of base %q: %w", b.identity, err)
		}
	}
	return b, nil
}

// Start runs the base until ctx ends, and then returns nil. Start continues to run during crashes and restarts of the
// base. It returns an error if a tunnel cannot be opened: the HTTP port is in use, or the broker is unreachable when
// a faithful base starts. When Start returns, all connections and listeners are closed. Start must be called at most
// once.
func (b *Base) Start(ctx context.Context) error {
	b.mu.Lock()
	if b.started {
		b.mu.Unlock()
		return fmt.Errorf("starting base %q: %w", b.identity, ErrStarted)
	}
	b.started, b.running = true, true
	b.mu.Unlock()
	defer b.stop()
	for {
		l := b.startIncarnation(ctx)
		err := l.run()
		l.stop()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("running base %q: %w", l.identity, err)
		}
		if !b.awaitRestart(ctx) {
			return nil
		}
	}
}

// minRestart is the minimum time between two processes of a base. A JVM does not restart faster. This time also
// protects the broker connection: if a client ID reconnects before the broker has removed the old connection,
// mochi-mqtt removes the subscriptions of both connections.
const minRestart = 500 * time.Millisecond

// awaitRestart blocks until the next process must start. It returns false if ctx is done first.
func (b *Base) awaitRestart(ctx context.Context) bool {
	ended := time.Now()
	b.mu.Lock()
	plan := b.restartPlan
	b.restartPlan = nil
	b.mu.Unlock()
	var due <-chan time.Time
	if plan != nil {
		t := time.NewTimer(b.opts.scaled(time.Duration(plan.After)))
		defer t.Stop()
		due = t.C
	}
	identity := ""
	select {
	case <-ctx.Done():
		return false
	case identity = <-b.restartRequests:
	case <-due:
		select {
		case identity = <-b.restartRequests: // both requested a restart: restart once
		default:
		}
	}
	if remaining := minRestart - time.Since(ended); remaining > 0 {
		t := time.NewTimer(remaining)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case identity != "":
		b.identity = identity
	case plan != nil && plan.NewIdentity, b.opts.Identity == "" && b.opts.Generation.isOld():
		b.identity = uuid.NewString()
	}
	return true
}

// Crash ends the process of the base like kill -9: connections are closed without a message, and modules are lost. The
// base stays down until Restart is called. Crash has no effect if no process runs.
func (b *Base) Crash() {
	b.mu.Lock()
	l := b.current
	b.mu.Unlock()
	if l != nil {
		l.cancel(errCrashed)
	}
}

// Restart starts a new process after a crash. If a process is running, Restart crashes it first. identity is the new
// identity of the base; empty = no change. Restart does not wait for the new process, which starts at least 500 ms
// after the end of the old one.
func (b *Base) Restart(identity string) error {
	if err := validTopicLevel(identity); err != nil {
		return fmt.Errorf("restarting base as %q: %w", identity, err)
	}
	b.mu.Lock()
	running := b.running
	b.mu.Unlock()
	if !running {
		return fmt.Errorf("restarting base as %q: %w", identity, ErrNotRunning)
	}
	b.Crash()
	select {
	case b.restartRequests <- identity:
	default: // a restart is pending already
	}
	return nil
}

// Inject adds a fault, which takes effect immediately, and returns the ID of the fault.
func (b *Base) Inject(f fault.Fault) (string, error) {
	f, err := b.faults.add(f, b.opts.scaled(time.Duration(f.For)))
	if err != nil {
		return "", err
	}
	b.traceFault(&f, FaultIsSet)
	b.applyFault(f.Kind)
	return f.ID, nil
}

// Clear clears the faults with these IDs, or all faults if there are no IDs, and returns the number of cleared
// faults. A command that a cleared latency fault delays starts immediately. Other effects remain: a crashed process
// stays down, and a hanging command continues to hang.
func (b *Base) Clear(ids ...string) int {
	cleared := b.faults.remove(ids...)
	for _, a := range cleared {
		b.onFaultEnded(a.Fault.Kind)
	}
	return len(cleared)
}

// Faults returns the faults that have not been cleared, in the order of injection.
func (b *Base) Faults() []fault.Status { return b.faults.status() }

// onFaultEnded reverts the effect of a fault that has ended, for fault kinds that commands do not check.
func (b *Base) onFaultEnded(kind fault.Kind) {
	if kind != fault.KindCrash && kind != fault.KindUninstalled {
		b.applyFault(kind)
	}
}

func (b *Base) applyFault(kind fault.Kind) {
	b.mu.Lock()
	l := b.current
	b.mu.Unlock()
	if l == nil {
		return
	}
	switch kind {
	case fault.KindDisconnect:
		l.applyDisconnect()
	case fault.KindWebRefuse:
		b.applyWebRefuse(l)
	case fault.KindCrash:
		l.scheduleCrash()
	case fault.KindUninstalled:
		l.applyUninstalled()
	}
}

func (b *Base) stop() {
	b.mu.Lock()
	b.running = false
	b.mu.Unlock()
	b.faults.mu.Lock()
	defer b.faults.mu.Unlock()
	b.faults.StopTimers()
}

// randomFloat returns a random number in [0, 1).
func (b *Base) randomFloat() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rnd.Float64()
}
