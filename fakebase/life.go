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

// life is one process of a base, from its start to its crash or end. What it
// holds is gone with it. Its state is guarded by the base's mutex.
type life struct {
	b        *Base
	log      *slog.Logger
	identity string
	started  time.Time

	// ctx ends with the process. It is a field because commands, timers and
	// requests of the process have no other that would.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	timers    map[*pending]struct{}
	closed    bool // nothing may be spawned any more
	booted    bool // the application is ready
	container *ark.Container
	// staticsPending: the application is ready, its static modules are not.
	staticsPending bool
	meta           metaspace
	charged        map[string]int64       // metaspace by biz identity
	stopTimes      map[string]Delay       // uninstall times by biz identity
	failures       map[string]failedStart // starts that failed, for health
	orphaned       bool                   // a module's stop failed, and its part in the health has no module any more
	locks          map[string]string      // biz identity -> running command
	ops            map[string]*processRecord

	async pool
	mqtt  *mqttTunnel
	http  *httpTunnel
}

type failedStart struct {
	name   string
	origin ark.Origin
}

// begin makes a new process the running one.
func (b *Base) begin(ctx context.Context) *life {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &life{
		b: b, identity: b.identity, started: time.Now(),
		log:    b.log.With("base", b.identity),
		meta:   newMetaspace(b.opts.Metaspace),
		timers: map[*pending]struct{}{}, charged: map[string]int64{}, stopTimes: map[string]Delay{},
		failures: map[string]failedStart{}, locks: map[string]string{}, ops: map[string]*processRecord{},
	}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.container = ark.NewContainer(ark.Options{
		Activation:      b.opts.Activation,
		KeepFailed:      !isTrue(b.opts.AutoUninstallWhenFailed),
		KeepUnstoppable: !isTrue(b.opts.RemoveWhenStopFailed),
		Observe:         l.observe,
	})
	l.async = pool{core: 20, limit: 50, queued: 100, spawn: l.spawn}
	b.life = l
	b.emitLocked(Event{Kind: EventUp, Time: l.started, Identity: l.identity})
	return l
}

// run lives the process's life: it returns nil when that ends, or the reason
// why it could not begin.
func (l *life) run() error {
	l.armCrash()
	l.b.reopenWeb(l)
	if d := l.b.opts.of(l.b.opts.StartupTime); d > 0 {
		l.after(d, l.boot)
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
		return t.client.Run(l.ctx) // a first connection that fails ends only a faithful base
	}
	<-l.ctx.Done()
	return nil
}

func (l *life) end() {
	l.cancel(errEnded)
	l.b.mu.Lock()
	l.closed = true
	l.b.life = nil
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

// boot is the moment when the application is ready: static modules start.
func (l *life) boot() {
	l.b.mu.Lock()
	l.booted, l.staticsPending = true, len(l.b.opts.StaticBiz) > 0
	l.b.mu.Unlock()
	if len(l.b.opts.StaticBiz) == 0 {
		l.ready()
		return
	}
	l.spawn(l.startStatics)
}

func (l *life) startStatics() {
	batch := batchRequest{}
	for _, u := range l.b.opts.StaticBiz {
		batch.BizList = append(batch.BizList, bizRequest{BizURL: text{u, true}})
	}
	out := l.installBatch(&batch, ark.Static)
	if out.gone {
		return
	}
	well := !out.failed && out.thrown == nil
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
	if !well {
		l.log.Warn("static modules did not all start", "failed", failures)
		return
	}
	l.ready()
}

// ready reports that base and static modules have started, unless the base
// is to fail.
func (l *life) ready() {
	if _, broken := l.b.faults.holds(fault.KindStartFailed, subject{}); !broken {
		l.emit(EventReady)
	}
}

// spawn runs fn on a goroutine that the end of the process waits for; false =
// the process has ended and fn does not run.
func (l *life) spawn(fn func()) bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.closed {
		return false
	}
	l.wg.Go(fn)
	return true
}

type pending struct{ timer *time.Timer }

// after runs fn after d, on the goroutine of the timer, unless the process has
// ended by then. No goroutine waits meanwhile.
func (l *life) after(d time.Duration, fn func()) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.closed {
		return
	}
	p := &pending{}
	l.timers[p] = struct{}{}
	p.timer = time.AfterFunc(d, func() {
		l.b.mu.Lock()
		delete(l.timers, p)
		if l.closed {
			l.b.mu.Unlock()
			return
		}
		l.wg.Add(1)
		l.b.mu.Unlock()
		defer l.wg.Done()
		fn()
	})
}

// sleep waits for d; false = the process has ended.
func (l *life) sleep(d time.Duration) bool { return l.sleepOr(d, nil) }

// sleepOr waits for d or until over is closed; false = the process has ended.
func (l *life) sleepOr(d time.Duration, over <-chan struct{}) bool {
	if d <= 0 {
		return l.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-over:
	case <-t.C:
	}
	return true
}

// now returns the time of the base's clock.
func (l *life) now() time.Time {
	t := time.Now()
	if f, ok := l.b.faults.holds(fault.KindClockSkew, subject{}); ok {
		return t.Add(time.Duration(f.Skew))
	}
	return t
}

func (l *life) emit(kind EventKind) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if !l.closed {
		l.b.emitLocked(Event{Kind: kind, Time: time.Now(), Identity: l.identity})
	}
}

// observe reports a change of the container; the base is locked.
func (l *life) observe(c ark.Change) {
	if l.closed {
		return // a command that had not noticed the end
	}
	l.b.emitLocked(Event{
		Kind: EventBiz, Time: c.Time, Identity: l.identity,
		Biz: c.Name, Version: c.Version, From: c.From, To: c.To,
		Reason: c.Reason, Message: c.Message,
	})
}

// armCrash starts the crash faults that match no command.
func (l *life) armCrash() {
	f, ok := l.b.faults.fireIf(subject{},
		func(f *fault.Fault) bool { return f.Kind == fault.KindCrash && !narrow(f.Match) })
	switch {
	case !ok:
	case f.wait > 0:
		l.after(f.wait, func() { l.crash(f.Fault) })
	default:
		l.crash(f.Fault)
	}
}

// crashes reports whether the process crashes in the middle of this command.
func (l *life) crashes(sub subject) bool {
	f, ok := l.b.faults.fireIf(sub, func(f *fault.Fault) bool { return f.Kind == fault.KindCrash && narrow(f.Match) })
	if ok {
		l.crash(f.Fault)
	}
	return ok
}

func (l *life) crash(f fault.Fault) {
	l.b.mu.Lock()
	l.b.comeback = f.Restart
	l.b.mu.Unlock()
	l.cancel(errCrashed)
}
