package fakebase

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

var (
	errCrashed = errors.New("process crashed")
	errEnded   = errors.New("process ended")
)

// incarnation is one simulated process of a base, from its start to its end. The mutex of the base guards its state.
type incarnation struct {
	b        *Base
	log      *slog.Logger
	identity string
	started  time.Time

	// ctx is cancelled when the process ends. It is a field because commands, timers and requests of the process need
	// it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	timers    map[*pendingTimer]struct{}
	ended     bool // the process has ended: no goroutine may be started
	booted    bool // the application has started
	container *ark.Container
	// staticsPending reports whether static modules are still starting.
	staticsPending   bool
	metaspaceUse     metaspace
	chargedMetaspace map[string]int64       // metaspace in bytes by biz identity
	stopTimes        map[string]Delay       // how long stopping a biz takes, by biz identity
	modelVersions    map[string]string      // bizModelVersion of the install by biz identity (generation D)
	refusesTraffic   bool                   // the readiness is REFUSING_TRAFFIC because of a module (protocol 8)
	failures         map[string]failedStart // modules that failed to start; included in the health of the base
	orphaned         bool                   // see healthInput.orphaned
	locks            map[string]string      // running commands by biz identity
	ops              map[string]*processRecord

	async pool
	mqtt  *mqttTunnel
	http  *httpTunnel
}

type failedStart struct {
	name   string
	origin ark.Origin
}

// startIncarnation creates a new process of the base.
func (b *Base) startIncarnation(ctx context.Context) *incarnation {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &incarnation{
		b: b, identity: b.identity, started: time.Now(),
		log:          b.log.With("base", b.identity),
		metaspaceUse: newMetaspace(b.opts.Metaspace),
		timers:       map[*pendingTimer]struct{}{}, chargedMetaspace: map[string]int64{}, stopTimes: map[string]Delay{},
		modelVersions: map[string]string{},
		failures:      map[string]failedStart{}, locks: map[string]string{}, ops: map[string]*processRecord{},
	}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.container = ark.NewContainer(ark.Options{
		Activation:      b.opts.Activation,
		KeepFailed:      !isTrue(b.opts.AutoUninstallWhenFailed),
		KeepUnstoppable: !isTrue(b.opts.RemoveWhenStopFailed),
		Observe:         l.observe,
	})
	l.async = pool{core: 20, limit: 50, queued: 100, spawn: l.spawn}
	b.current = l
	b.emitLocked(Event{Kind: EventUp, Time: l.started, Identity: l.identity})
	return l
}

// run runs the process. It returns nil when the process has ended, or an error if the process cannot be started.
func (l *incarnation) run() error {
	l.scheduleCrash()
	l.b.reopenWeb(l)
	if d := l.b.opts.scaled(l.b.opts.StartupTime); d > 0 {
		l.runAfter(d, l.boot)
	} else {
		l.boot()
	}
	if o := l.b.opts.HTTP; o != nil {
		if err := l.openHTTP(o); err != nil {
			return err
		}
	}
	if o := l.b.opts.MQTT; o != nil {
		t, err := l.openMQTT(o)
		if err != nil {
			return err
		}
		return t.client.Run(l.ctx) // only for a faithful base, a failed first connection is an error
	}
	<-l.ctx.Done()
	return nil
}

func (l *incarnation) stop() {
	l.cancel(errEnded)
	l.b.mu.Lock()
	l.ended = true
	l.b.current = nil
	for p := range l.timers {
		p.timer.Stop()
	}
	l.b.emitLocked(Event{Kind: EventDown, Time: time.Now(), Identity: l.identity})
	l.b.mu.Unlock()
	l.b.closeWeb()
	l.closeHTTP()
	l.wg.Wait()
	l.log.Info("base process ended", "reason", context.Cause(l.ctx))
}

// boot marks the application as started, and starts the static modules in the background.
func (l *incarnation) boot() {
	l.b.mu.Lock()
	l.booted, l.staticsPending = true, len(l.b.opts.StaticBiz) > 0
	l.b.mu.Unlock()
	if len(l.b.opts.StaticBiz) == 0 {
		l.emitReady()
		return
	}
	l.spawn(l.startStatics)
}

func (l *incarnation) startStatics() {
	batch := batchRequest{}
	for _, u := range l.b.opts.StaticBiz {
		batch.BizList = append(batch.BizList, bizRequest{BizURL: jsonString{u, true}})
	}
	out := l.installBatch(&batch, ark.Static)
	if out.noAnswer {
		return
	}
	succeeded := !out.failed && out.exception == nil
	resp, _ := out.data.(batchResponse)
	var failures []string
	for i := range batch.BizList {
		item := &batch.BizList[i]
		if r, done := resp.byURL[item.BizURL.value]; done && r.code == codeSuccess {
			continue
		}
		id := item.BizURL.value
		if f, ex := l.resolve(item); ex == nil {
			id = f.ID()
		}
		failures = append(failures, id)
	}
	l.b.mu.Lock()
	l.staticsPending = false
	for _, id := range failures {
		name, _, _ := strings.Cut(id, ":")
		l.failures[id] = failedStart{name: name, origin: ark.Static}
	}
	l.b.mu.Unlock()
	if !succeeded {
		l.log.Warn("some static modules failed to start", "failed", failures)
		return
	}
	l.emitReady()
}

// emitReady emits EventReady, unless a fault makes the start of the base fail.
func (l *incarnation) emitReady() {
	if _, failed := l.b.faults.inEffectFor(fault.KindStartFailed, subject{}); !failed {
		l.emit(EventReady)
	}
}

// spawn runs fn on a goroutine. The process ends only after fn has returned. If the process has already ended, spawn
// does not run fn, and returns false.
func (l *incarnation) spawn(fn func()) bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.ended {
		return false
	}
	l.wg.Go(fn)
	return true
}

type pendingTimer struct{ timer *time.Timer }

// runAfter runs fn in a timer goroutine after d, unless the process has ended by then.
func (l *incarnation) runAfter(d time.Duration, fn func()) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.ended {
		return
	}
	p := &pendingTimer{}
	l.timers[p] = struct{}{}
	p.timer = time.AfterFunc(d, func() {
		l.b.mu.Lock()
		delete(l.timers, p)
		if l.ended {
			l.b.mu.Unlock()
			return
		}
		l.wg.Add(1)
		l.b.mu.Unlock()
		defer l.wg.Done()
		fn()
	})
}

// sleep blocks for d. It returns false if the process has ended.
func (l *incarnation) sleep(d time.Duration) bool { return l.sleepOr(d, nil) }

// sleepOr blocks for d or until stop is closed. It returns false if the process has ended.
func (l *incarnation) sleepOr(d time.Duration, stop <-chan struct{}) bool {
	if d <= 0 {
		return l.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-stop:
	case <-t.C:
	}
	return true
}

// now returns the time of the clock of the base, including the offset of a clockSkew fault.
func (l *incarnation) now() time.Time {
	t := time.Now()
	if f, ok := l.b.faults.inEffectFor(fault.KindClockSkew, subject{}); ok {
		return t.Add(time.Duration(f.Skew))
	}
	return t
}

func (l *incarnation) emit(kind EventKind) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if !l.ended {
		l.b.emitLocked(Event{Kind: kind, Time: time.Now(), Identity: l.identity})
	}
}

// observe emits the event for a state change in the container. The caller holds b.mu.
func (l *incarnation) observe(c ark.StateChange) {
	if l.ended {
		return // a command was still running when the process ended
	}
	l.b.emitLocked(Event{
		Kind: EventBiz, Time: c.Time, Identity: l.identity,
		Biz: c.Name, Version: c.Version, From: c.From, To: c.To,
		Reason: c.Reason, Message: c.Message,
	})
}

// scheduleCrash triggers a crash fault whose Match selects no commands or modules. The process crashes after the
// delay of the fault.
func (l *incarnation) scheduleCrash() {
	f, ok := l.b.faults.triggerIf(subject{},
		func(f *fault.Fault) bool { return f.Kind == fault.KindCrash && !isSelective(f.Match) })
	switch {
	case !ok:
	case f.wait > 0:
		l.runAfter(f.wait, func() { l.crash(f.Fault) })
	default:
		l.crash(f.Fault)
	}
}

// crashDuring crashes the process if a crash fault matches the command, and reports whether it did.
func (l *incarnation) crashDuring(sub subject) bool {
	f, ok := l.b.faults.triggerIf(sub,
		func(f *fault.Fault) bool { return f.Kind == fault.KindCrash && isSelective(f.Match) })
	if ok {
		l.crash(f.Fault)
	}
	return ok
}

func (l *incarnation) crash(f fault.Fault) {
	l.b.mu.Lock()
	l.b.restartPlan = f.Restart
	l.b.mu.Unlock()
	l.cancel(errCrashed)
}
