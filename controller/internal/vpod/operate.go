package vpod

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Outcome is the result of a command.
type Outcome struct {
	Identity string
	Request  arklet.Request
	Answer   arklet.Answer // zero if Err is set
	Err      error
	Code     errcode.Code // empty after a success
	Took     time.Duration
}

const (
	// lateFor is how long after its timeout a base may still carry out an install that it has not answered.
	lateFor = 10 * time.Minute
	// listTimeout is how long a base may take to list its modules.
	listTimeout = 10 * time.Second
)

// install sends installBiz and requests the list of the base. It returns the newest snapshot, also with an error, which has
// an error code.
func (p *Provider) install(ctx context.Context, key workerKey, b base.Snapshot, m arklet.Module,
	again func() bool) (base.Snapshot, error) {
	before, asked := p.store.placing(key, m, time.Now().Add(p.opts.InstallTimeout+p.opts.Speed.Of(lateFor)))
	if !asked {
		return b, nil
	}
	p.keep(ctx, key.identity)
	answer, b, err := p.runAndList(ctx, b, arklet.Request{Command: arklet.CommandInstallBiz, Module: m}, again)
	if err != nil {
		return b, err
	}
	p.store.settled(key, m)
	if err := p.answerError(answer, b); err != nil {
		p.store.refused(key, m, before)
		return b, err
	}
	switch biz, _ := b.Module(m.Name, m.Version); biz.State {
	// another version is active, or the install continues
	case arklet.StateActivated, arklet.StateDeactivated, arklet.StateResolved:
		return b, nil
	default:
		return b, notActivated(m)
	}
}

// keepWithin is the maximum time that an install waits for the ledger. An unavailable API server does not delay it further.
const keepWithin = time.Second

// keep stores the ledger before an install is sent. Otherwise another controller could not know that the module was
// installed for a Pod, if this controller stops and the Pod is deleted.
func (p *Provider) keep(ctx context.Context, identity string) {
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	p.opts.Keep(ctx, identity)
}

// notActivated returns the error for a module that is not active after a successful command.
func notActivated(m arklet.Module) error {
	return errcode.New(errcode.ArkletInstallModuleFailed,
		"the base says that it installed %s and does not list it as activated", m.Identity())
}

// switchTo sends switchBiz and requests the list of the base.
func (p *Provider) switchTo(ctx context.Context, b base.Snapshot, m arklet.Module, again func() bool) (base.Snapshot,
	error) {
	_, b, err := p.runAndList(ctx, b, arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}, again)
	if err != nil {
		return b, err
	}
	if biz, there := b.Module(m.Name, m.Version); there && biz.State == arklet.StateActivated {
		return b, nil
	}
	return b, notActivated(m)
}

// uninstall sends uninstallBiz and requests the list of the base. A module may be uninstalled although the base reports a
// failure, for example of a stop handler (protocol 5.2): uninstall returns an error then, and the snapshot lacks the module.
func (p *Provider) uninstall(ctx context.Context, b base.Snapshot, m arklet.Module, again func() bool) (base.Snapshot,
	error) {
	m.URL = "" // the log shows the installed jar, not the requested one
	p.store.read(func() {
		if l := p.store.lane(workerKey{b.Identity, m.Name}); l != nil {
			m.URL = l.memory.Installed[m.Version].URL
		}
	})
	answer, b, err := p.runAndList(ctx, b, arklet.Request{Command: arklet.CommandUninstallBiz, Module: m}, again)
	if err == nil {
		err = p.answerError(answer, b)
	}
	if err != nil {
		return b, err
	}
	if _, there := b.Module(m.Name, m.Version); there {
		return b, errcode.New(errcode.ArkletUninstallBizFailed,
			"base %q says that it uninstalled %s and lists it still", p.registry.DisplayName(b.Identity), m.Identity())
	}
	p.opts.Logger.Debug("uninstalled a module", "base", b.Identity, "biz", m.Identity())
	return b, nil
}

// runAndList sends a command, waits for its answer, and requests the list of the base.
func (p *Provider) runAndList(ctx context.Context, b base.Snapshot, r arklet.Request, again func() bool) (arklet.Answer,
	base.Snapshot, error) {
	answer, err := p.runCommand(ctx, b.Identity, r, again)
	if err != nil {
		return answer, b, err
	}
	b, err = p.listModules(ctx, b, answer.PublishedAt)
	return answer, b, err
}

// runCommand sends a command and waits for its answer. An error has an error code, unless ctx is done or the command is not
// wanted any more.
func (p *Provider) runCommand(ctx context.Context, identity string, r arklet.Request, again func() bool) (arklet.Answer,
	error) {
	if ctx.Err() != nil { // another controller may serve the base now
		return arklet.Answer{}, ctx.Err()
	}
	timeout, late := p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut
	if r.Command == arklet.CommandUninstallBiz {
		timeout, late = p.opts.UninstallTimeout, errcode.ArkletUninstallBizTimedOut
	}
	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asking, giveUp := context.WithCancelCause(asking)
	defer giveUp(nil)
	if r.Command == arklet.CommandInstallBiz {
		key := workerKey{identity, r.Module.Name}
		note := func(i *installing) {
			p.store.change(func() {
				if l := p.store.lane(key); l != nil {
					l.installing = i
				}
			})
		}
		note(&installing{r.Module, giveUp})
		defer note(nil)
	}
	p.opts.Asked(identity, r)
	answer, err := p.requests.Do(asking, identity, r, again)
	o := Outcome{Identity: identity, Request: r, Answer: answer, Took: time.Since(began)}
	switch {
	case err == nil:
		if !answer.Done() {
			o.Code = answer.Classify("")
		}
		p.opts.Answered(o)
		return answer, nil
	case ctx.Err() != nil:
		return answer, err
	case errors.Is(err, errSuperseded), errors.Is(err, base.ErrResendDeclined):
		o.Err, o.Code = err, late
		p.opts.Answered(o)
		return answer, err
	case errors.Is(err, base.ErrNoAnswer):
		err = errcode.Wrap(late, err)
	default:
		err = errcode.Wrap(transportCode(err), err)
	}
	o.Err, o.Code = err, errcode.Of(err)
	p.opts.Answered(o)
	return answer, err
}

// errSuperseded is why an install is not waited for any more: Pods request another version.
var errSuperseded = errors.New("a Pod came for another version")

// showWithin is how long showInstall waits for the list.
const showWithin = time.Second

// showInstall requests a list that shows an install that is not waited for any more. Without the list, the same install
// would be sent again if another Pod requests that version, and the base would refuse it.
func (p *Provider) showInstall(ctx context.Context, b base.Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Speed.Of(showWithin))
	defer cancel()
	if _, err := p.listModules(ctx, b, time.Now()); err != nil {
		p.opts.Logger.Debug("the list does not show an install yet that no Pod requests any more", "base", b.Identity,
			"err", err)
	}
}

// installing is an install in progress.
type installing struct {
	module arklet.Module
	giveUp context.CancelCauseFunc
}

// supersede ends the waiting for an install that no Pod requests any more, if a Pod requests another version.
func (p *Provider) supersede(key workerKey) {
	p.store.read(func() {
		l := p.store.lane(key)
		if l == nil || l.installing == nil {
			return
		}
		others := false
		for _, v := range l.views(key.module) {
			if v.wants() {
				// or the base refuses the next one, another jar or not
				if v.module.Version == l.installing.module.Version {
					return
				}
				others = true
			}
		}
		if others {
			l.installing.giveUp(errSuperseded)
		}
	})
}

// listModules requests the list of the base. The list is not older than notBefore.
func (p *Provider) listModules(ctx context.Context, b base.Snapshot, notBefore time.Time) (base.Snapshot, error) {
	asking, cancel := context.WithTimeout(ctx, p.opts.Speed.Of(listTimeout))
	defer cancel()
	fresh, err := p.requests.Modules(asking, b.Identity, notBefore)
	if err != nil {
		return b, errcode.Wrap(transportCode(err), err)
	}
	return fresh, nil
}

// transportCode returns the code of an error of the connection to a base.
func transportCode(err error) errcode.Code {
	if errors.Is(err, tunnel.ErrRefused) {
		return errcode.ArkletArkletServiceNotFound
	}
	return errcode.ArkletNetworkError
}

// answerError returns the error for an answer; nil if it reports no failure. The error has a code of the controller and wraps
// one with a code of arklet.
func (p *Provider) answerError(a arklet.Answer, b base.Snapshot) error {
	biz, _ := b.Module(a.Module.Name, a.Module.Version)
	code := a.Classify(biz.State)
	if a.Done() || code == "" {
		return nil
	}
	as := errcode.ForInstall
	if a.Command == arklet.CommandUninstallBiz {
		as = errcode.ForUninstall
	}
	message := arklet.FirstLine(a.Message)
	if message == "" || a.DataCode != "" && a.DataCode != "FAILED" {
		message = arklet.FirstLine(a.DataMessage)
	}
	err := errcode.New(code, "%s of %s on base %q: %s", a.Command, a.Module.Identity(), p.registry.DisplayName(b.Identity),
		message)
	if as(code) == code { // DiskFull is a code of both
		return err
	}
	return errcode.Wrap(as(code), err)
}

// recordFailure records a failure and when to try again, and reports it if it is new. The number of attempts is not limited.
func (p *Provider) recordFailure(key workerKey, a plan.Attempt, b base.Snapshot, err error) {
	now := time.Now()
	var before, f plan.Failure
	p.store.change(func() {
		l := p.store.lane(key)
		if l != nil {
			before = l.memory.Failed[a]
		}
		f = before
		f.Err, f.At, f.FreeMetaspace = err, now, -1
		failures := 1
		if !errcode.IsTransient(errcode.Of(err)) {
			f.Attempts++
			failures = f.Attempts
		}
		f.Next = now.Add(backoff(p.opts.Speed, failures))
		if lacksMetaspace(err) {
			f.FreeMetaspace = freeMetaspace(b)
		}
		if l != nil {
			l.memory.Failed[a] = f
		}
	})
	if before.Err == nil || before.Err.Error() != err.Error() ||
		f.Attempts == p.opts.MaxAttempts && before.Attempts < f.Attempts {
		p.reportFailure(key, a, p.shownError(a, f))
	}
}

// retryAtMost is the longest delay between two attempts, as in a kubelet.
const retryAtMost = 5 * time.Minute

// backoff returns the delay after a number of failures in a row. It doubles with each failure.
func backoff(speed pace.Speed, failures int) time.Duration {
	d, atMost := speed.Of(firstPause), speed.Of(retryAtMost)
	for range failures - 1 {
		d *= 2
		if d >= atMost {
			return atMost
		}
	}
	return d
}

// shownError returns a failure as the status shows it: from MaxAttempts on with the time of the next attempt.
func (p *Provider) shownError(a plan.Attempt, f plan.Failure) error {
	if a.Command != arklet.CommandInstallBiz || f.Attempts < p.opts.MaxAttempts {
		return f.Err
	}
	return errcode.New(errcode.ModuleControllerRetryTimesExceeded, "%s: %w", api.NextAttempt(f.Attempts, f.Next), f.Err)
}

// lacksMetaspace reports whether an error is due to too little free metaspace.
func lacksMetaspace(err error) bool {
	for e, ok := errors.AsType[*errcode.Error](err); ok; e, ok = errors.AsType[*errcode.Error](e.Unwrap()) {
		if e.Code() == errcode.UserMetaspaceFull {
			return true
		}
	}
	return false
}

// freeMetaspace returns the free metaspace of a base in bytes; 0 if it is not known.
func freeMetaspace(b base.Snapshot) int64 {
	return max(b.Health.MetaspaceMax-b.Health.MetaspaceUsed, 0)
}

// reportFailure reports a failure in the log, by Events of the Pods that it concerns, and to Options.Failure.
func (p *Provider) reportFailure(key workerKey, a plan.Attempt, err error) {
	p.opts.Logger.Info("a module operation failed", "base", key.identity, "biz", a.Module.Identity(), "command",
		a.Command, "err", err)
	for _, v := range p.store.views(key) {
		concerned := v.wants() && v.module.Module == a.Module
		if a.Command == arklet.CommandUninstallBiz {
			concerned = v.module.installable() && v.module.Version == a.Module.Version
		}
		if concerned {
			p.opts.Recorder.Event(v.pod, corev1.EventTypeWarning, errcode.Of(err).Type(), errcode.Message(err))
			p.opts.Failure(v.pod, key.identity, a.Module, err)
		}
	}
}
