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

// ErrStarted is what Start answers when the base has been started before.
var ErrStarted = errors.New("base has been started already")

// ErrNotRunning is what Restart answers before Start and after it has returned.
var ErrNotRunning = errors.New("base is not running")

// Base is one simulated base. Its methods may be called concurrently, before,
// during and after Start.
type Base struct {
	opts   Options
	log    *slog.Logger
	faults faultSet

	mu       sync.Mutex
	started  bool
	running  bool   // Start has not returned
	identity string // of the running process, or the last or next one
	life     *life  // nil while no process runs
	watchers observers.List[Event]
	tracers  observers.List[Trace]
	seq      uint64
	rnd      *rand.Rand
	revive   chan string    // identities of processes to start
	comeback *fault.Restart // how the process that crashes now comes back; nil = not
	web      webPort
	httpAddr string        // of the arklet HTTP server, to be kept by the next process
	requests atomic.Uint64 // module requests served
}

// New checks the options and returns a base that does nothing until Start.
// The error names every option that is wrong.
func New(opts Options) (*Base, error) {
	opts, err := opts.normalise()
	if err != nil {
		return nil, fmt.Errorf("options of base %q: %w", opts.Identity, err)
	}
	b := &Base{opts: opts, revive: make(chan string, 1)}
	seed := opts.Seed
	if seed == 0 {
		seed = rand.Uint64()
		if opts.Identity != "" {
			h := fnv.New64a()
			_, _ = h.Write([]byte(opts.Identity))
			seed = h.Sum64()
		}
	}
	b.rnd = rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // any number will do
	b.faults.Mutex, b.faults.Seed, b.faults.speed = &b.faults.mu, seed, opts.Speed
	b.faults.OnTriggered = func(a *fault.Active[fault.Fault]) { b.traceFault(&a.Fault, FaultFired) }
	b.faults.OnEnded = func(a *fault.Active[fault.Fault]) { b.traceFault(&a.Fault, FaultCleared) }
	b.faults.OnExpired = func(a *fault.Active[fault.Fault]) { b.faultEnded(a.Fault.Kind) }
	b.identity = opts.Identity
	if b.identity == "" {
		b.identity = opts.IP
		if opts.Generation != GenerationC {
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

// Start runs the base until ctx ends, and then returns nil; crashes and
// restarts in between do not end it. An error means that a tunnel could not
// be opened (HTTP port taken; broker unreachable at the start of a faithful
// base). Everything that Start opened is closed when it returns. At most one
// Start per Base.
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
		l := b.begin(ctx)
		err := l.run()
		l.end()
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

// shortestRestart is the minimum time between two processes of a base. No JVM is faster. If a client id returns before
// the broker has removed the old connection, mochi removes the subscriptions of both.
const shortestRestart = 500 * time.Millisecond

// awaitRestart blocks until the next process is to start. It returns false if ctx ends before.
func (b *Base) awaitRestart(ctx context.Context) bool {
	ended := time.Now()
	b.mu.Lock()
	plan := b.comeback
	b.comeback = nil
	b.mu.Unlock()
	var due <-chan time.Time
	if plan != nil {
		t := time.NewTimer(b.opts.of(time.Duration(plan.After)))
		defer t.Stop()
		due = t.C
	}
	identity := ""
	select {
	case <-ctx.Done():
		return false
	case identity = <-b.revive:
	case <-due:
		select {
		case identity = <-b.revive: // both at the same time: one restart
		default:
		}
	}
	if rest := shortestRestart - time.Since(ended); rest > 0 {
		t := time.NewTimer(rest)
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
	case plan != nil && plan.NewIdentity, b.opts.Identity == "" && b.opts.Generation != GenerationC:
		b.identity = uuid.NewString()
	}
	return true
}

// Crash ends the base's process as kill -9 does: connections break without a message, and modules are lost. The base
// stays down until Restart. Crash has no effect while no process runs.
func (b *Base) Crash() {
	b.mu.Lock()
	l := b.life
	b.mu.Unlock()
	if l != nil {
		l.cancel(errCrashed)
	}
}

// Restart starts the base's process again after a crash; a running process
// crashes first. identity is the new one; empty = as before. It does not wait
// for the new process, which starts half a second after the end of the old one
// at the earliest.
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
	case b.revive <- identity:
	default: // a restart is under way already
	}
	return nil
}

// Inject adds a fault, whose effect begins at once, and returns its id.
func (b *Base) Inject(f fault.Fault) (string, error) {
	f, err := b.faults.add(f, b.opts.of(time.Duration(f.For)))
	if err != nil {
		return "", err
	}
	b.traceFault(&f, FaultIsSet)
	b.faultsChanged(f.Kind)
	return f.ID, nil
}

// Clear removes faults by id, all faults without an id, and returns their number. A command that is delayed by latency
// starts now. Other effects remain: a crashed process stays down, a hanging command hangs.
func (b *Base) Clear(ids ...string) int {
	gone := b.faults.remove(ids...)
	for _, a := range gone {
		b.faultEnded(a.Fault.Kind)
	}
	return len(gone)
}

// Faults lists the faults that were set and not cleared, in order of injection.
func (b *Base) Faults() []fault.Status { return b.faults.status() }

// faultEnded ends the effect of faults that commands do not check.
func (b *Base) faultEnded(kind fault.Kind) {
	if kind != fault.KindCrash && kind != fault.KindUninstalled {
		b.faultsChanged(kind)
	}
}

func (b *Base) faultsChanged(kind fault.Kind) {
	b.mu.Lock()
	l := b.life
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
		l.armCrash()
	case fault.KindUninstalled:
		l.uninstallUntold()
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

// share draws a number in [0, 1).
func (b *Base) share() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rnd.Float64()
}
