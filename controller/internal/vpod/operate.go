package vpod

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// CommandResult is the result of a command.
type CommandResult struct {
	Identity string
	Request  arklet.Request
	Answer   arklet.Answer // answer of the base; zero if Err is set
	Err      error
	Code     errcode.Code // error code; empty after a success
	Took     time.Duration
}

const (
	// inDoubtFor is how long, after the timeout of an install, a base may still execute the unanswered install
	// command.
	inDoubtFor = 10 * time.Minute
	// listTimeout limits how long to wait for the module list of a base.
	listTimeout = 10 * time.Second
)

// install sends installBiz, and then requests the module list. It returns the newest snapshot, even if it returns an
// error. Every error has an error code.
func (p *Provider) install(ctx context.Context, key slotKey, b base.Snapshot, action plan.Action,
	mayResend func() bool) (base.Snapshot, error) {
	m := action.Module
	before, recorded := p.store.recordInstall(key, m,
		time.Now().Add(p.opts.InstallTimeout+p.opts.TimeScale.Of(inDoubtFor)))
	if !recorded {
		return b, nil
	}
	p.saveInstallRecord(ctx, key.identity)
	answer, b, err := p.runAndList(ctx, b, arklet.Request{Command: arklet.CommandInstallBiz, Module: m,
		UninstallFirst: action.UninstallFirst}, mayResend)
	if err != nil {
		return b, err
	}
	p.store.confirmInstall(key, m)
	if err := p.answerError(answer, b); err != nil {
		p.store.revertInstall(key, m, before)
		return b, err
	}
	switch biz, _ := b.Module(m.Name, m.Version); biz.State {
	// StateDeactivated: another version is active. StateResolved: the install is still in progress.
	case arklet.StateActivated, arklet.StateDeactivated, arklet.StateResolved:
		return b, nil
	default:
		return b, notActivated(m)
	}
}

// saveTimeout limits how long an install waits until the install record is saved. After that, the install continues,
// because an unavailable API server must not block installs.
const saveTimeout = time.Second

// saveInstallRecord saves the install record before an install is sent. Otherwise, if this controller stops and the Pod
// is deleted, another controller would leave the module on the base.
func (p *Provider) saveInstallRecord(ctx context.Context, identity string) {
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	p.opts.SaveInstallRecord(ctx, identity)
}

// notActivated returns the error for a module that is not active after a successful command.
func notActivated(m arklet.Module) error {
	return errcode.New(errcode.ArkletInstallModuleFailed,
		"the base reported that %s was installed, but its module list does not show it as activated", m.Identity())
}

// switchTo sends switchBiz, and then requests the module list.
func (p *Provider) switchTo(ctx context.Context, b base.Snapshot, m arklet.Module,
	mayResend func() bool) (base.Snapshot, error) {
	_, b, err := p.runAndList(ctx, b, arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}, mayResend)
	if err != nil {
		return b, err
	}
	if biz, exists := b.Module(m.Name, m.Version); exists && biz.State == arklet.StateActivated {
		return b, nil
	}
	return b, notActivated(m)
}

// uninstall sends uninstallBiz, and then requests the module list. A base may uninstall a module but report a failure,
// for example if a stop handler failed (protocol 6, condition 19). The result is then an error and a snapshot without
// the module.
func (p *Provider) uninstall(ctx context.Context, b base.Snapshot, m arklet.Module,
	mayResend func() bool) (base.Snapshot, error) {
	m.URL = "" // the log shows the installed jar, not the requested one
	p.store.withReadLock(func() {
		if l := p.store.slot(slotKey{b.Identity, m.Name}); l != nil {
			m.URL = l.memory.Installed[m.Version].URL
		}
	})
	answer, b, err := p.runAndList(ctx, b, arklet.Request{Command: arklet.CommandUninstallBiz, Module: m}, mayResend)
	if err == nil {
		err = p.answerError(answer, b)
	}
	if err != nil {
		return b, err
	}
	if _, exists := b.Module(m.Name, m.Version); exists {
		return b, errcode.New(errcode.ArkletUninstallBizFailed,
			"base %q reported that %s was uninstalled, but still lists it", p.registry.DisplayName(b.Identity),
			m.Identity())
	}
	p.opts.Logger.Debug("uninstalled a module", "base", b.Identity, "biz", m.Identity())
	return b, nil
}

// runAndList sends a command, waits for the answer, and then requests the module list.
func (p *Provider) runAndList(ctx context.Context, b base.Snapshot, r arklet.Request,
	mayResend func() bool) (arklet.Answer, base.Snapshot, error) {
	answer, err := p.runCommand(ctx, b.Identity, r, mayResend)
	if err != nil {
		return answer, b, err
	}
	b, err = p.listModules(ctx, b, answer.PublishedAt)
	return answer, b, err
}

// runCommand sends a command and waits for the answer. Every error has an error code, unless ctx is done or the
// command is obsolete.
func (p *Provider) runCommand(ctx context.Context, identity string, r arklet.Request,
	mayResend func() bool) (arklet.Answer, error) {
	if ctx.Err() != nil { // another controller may serve the base now
		return arklet.Answer{}, ctx.Err()
	}
	timeout, timeoutCode := p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut
	if r.Command == arklet.CommandUninstallBiz {
		timeout, timeoutCode = p.opts.UninstallTimeout, errcode.ArkletUninstallBizTimedOut
	}
	began := time.Now()
	commandCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	commandCtx, cancelCommand := context.WithCancelCause(commandCtx)
	defer cancelCommand(nil)
	if r.Command == arklet.CommandInstallBiz {
		key := slotKey{identity, r.Module.Name}
		setCurrent := func(i *pendingInstall) {
			p.store.change(func() {
				if l := p.store.slot(key); l != nil {
					l.currentInstall = i
				}
			})
		}
		setCurrent(&pendingInstall{r.Module, cancelCommand})
		defer setCurrent(nil)
	}
	p.opts.CommandSent(identity, r)
	answer, err := p.requests.Do(commandCtx, identity, r, mayResend)
	o := CommandResult{Identity: identity, Request: r, Answer: answer, Took: time.Since(began)}
	switch {
	case err == nil:
		if !answer.Done() {
			o.Code = answer.Classify("")
		}
		p.opts.CommandFinished(o)
		return answer, nil
	case ctx.Err() != nil:
		return answer, err
	case errors.Is(err, errUnwanted), errors.Is(err, base.ErrResendDeclined):
		o.Err, o.Code = err, timeoutCode
		p.opts.CommandFinished(o)
		return answer, err
	case errors.Is(err, base.ErrNoAnswer):
		err = errcode.Wrap(timeoutCode, err)
	default:
		err = errcode.Wrap(transportCode(err), err)
	}
	o.Err, o.Code = err, errcode.Of(err)
	p.opts.CommandFinished(o)
	return answer, err
}

// errUnwanted reports that the controller stopped waiting for an install because the Pods now request another
// version.
var errUnwanted = errors.New("no Pod requests this version any more")

// cancelledListTimeout limits how long listCancelledInstall waits for the module list.
const cancelledListTimeout = time.Second

// listCancelledInstall requests a module list after an install was cancelled, so that the controller learns whether
// the module was installed. Without this list, the controller would send the same install again when another Pod
// requests the version, and the base would refuse the second install.
func (p *Provider) listCancelledInstall(ctx context.Context, b base.Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.TimeScale.Of(cancelledListTimeout))
	defer cancel()
	if _, err := p.listModules(ctx, b, time.Now()); err != nil {
		p.opts.Logger.Debug("could not list the modules after a cancelled install", "base", b.Identity, "err", err)
	}
}

// pendingInstall is the install in progress of a module slot.
type pendingInstall struct {
	module arklet.Module
	cancel context.CancelCauseFunc
}

// cancelUnwantedInstall stops waiting for an install that no Pod requests any more, if a Pod requests another version.
func (p *Provider) cancelUnwantedInstall(key slotKey) {
	p.store.withReadLock(func() {
		l := p.store.slot(key)
		if l == nil || l.currentInstall == nil {
			return
		}
		others := false
		for _, v := range l.snapshots(key.module) {
			if v.wants() {
				// The base would refuse a second install of this version, even from another jar.
				if v.module.Version == l.currentInstall.module.Version {
					return
				}
				others = true
			}
		}
		if others {
			l.currentInstall.cancel(errUnwanted)
		}
	})
}

// listModules requests the module list of a base, and waits for a list that is not older than notBefore.
func (p *Provider) listModules(ctx context.Context, b base.Snapshot, notBefore time.Time) (base.Snapshot, error) {
	commandCtx, cancel := context.WithTimeout(ctx, p.opts.TimeScale.Of(listTimeout))
	defer cancel()
	fresh, err := p.requests.Modules(commandCtx, b.Identity, notBefore)
	if err != nil {
		return b, errcode.Wrap(transportCode(err), err)
	}
	return fresh, nil
}

// transportCode returns the error code for an error of the tunnel to a base.
func transportCode(err error) errcode.Code {
	switch {
	case errors.Is(err, base.ErrUnknownBase): // removed while the command was pending
		return errcode.ModuleControllerBaseInstanceNotFound
	case errors.Is(err, tunnel.ErrRefused):
		return errcode.ArkletArkletServiceNotFound
	}
	return errcode.ArkletNetworkError
}

// answerError returns the error that an answer reports; nil if the command succeeded. The error has an error code of
// the controller. It wraps an error that has the error code of arklet.
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
	if cause := arklet.RootCause(a.DataMessage); !strings.Contains(message, cause) {
		message += "; caused by " + cause
	}
	if path, taken := api.WebContextTaken(a.DataMessage); taken {
		message += "; another module or version on the base has the web context path " + strconv.Quote(path) +
			": use one path per version, or set the annotation " + labels.InstallStrategy + " to " +
			labels.UninstallThenInstall + ", which leaves a gap"
	}
	err := errcode.New(code, "%s of %s on base %q: %s", a.Command, a.Module.Identity(),
		p.registry.DisplayName(b.Identity),
		message)
	if as(code) == code { // arklet and the controller share the code, for example DiskFull
		return err
	}
	return errcode.Wrap(as(code), err)
}

// recordFailure records a failure and the time of the next attempt. It reports the failure if it differs from the
// previous one, or when the number of attempts reaches Options.MaxAttempts. The controller continues to retry after
// that.
func (p *Provider) recordFailure(key slotKey, a plan.Attempt, b base.Snapshot, err error) {
	now := time.Now()
	var oldFailure, f plan.Failure
	p.store.change(func() {
		l := p.store.slot(key)
		if l != nil {
			oldFailure = l.memory.Failed[a]
		}
		f = oldFailure
		f.Err, f.At, f.FreeMetaspace = err, now, -1
		failures := 1
		if !errcode.IsTransient(errcode.Of(err)) {
			f.Attempts++
			failures = f.Attempts
		}
		f.Next = now.Add(backoff(p.opts.TimeScale, failures))
		if lacksMetaspace(err) {
			f.FreeMetaspace = freeMetaspace(b)
		}
		if l != nil {
			l.memory.Failed[a] = f
		}
	})
	if oldFailure.Err == nil || oldFailure.Err.Error() != err.Error() ||
		f.Attempts == p.opts.MaxAttempts && oldFailure.Attempts < f.Attempts {
		p.reportFailure(key, a, p.statusError(a, f))
	}
}

// maxRetryDelay is the maximum delay between two attempts of a command, as in the kubelet.
const maxRetryDelay = 5 * time.Minute

// backoff returns the delay after a number of consecutive failures. The delay doubles with each failure.
func backoff(speed pace.TimeScale, failures int) time.Duration {
	d, atMost := speed.Of(minRetryDelay), speed.Of(maxRetryDelay)
	for range failures - 1 {
		d *= 2
		if d >= atMost {
			return atMost
		}
	}
	return d
}

// statusError returns the error that the Pod status shows for a failure. After Options.MaxAttempts failed attempts,
// the error includes the time of the next attempt.
func (p *Provider) statusError(a plan.Attempt, f plan.Failure) error {
	if a.Command != arklet.CommandInstallBiz || f.Attempts < p.opts.MaxAttempts {
		return f.Err
	}
	return errcode.New(errcode.ModuleControllerRetryTimesExceeded, "%s: %w", api.NextAttempt(f.Attempts, f.Next), f.Err)
}

// lacksMetaspace reports whether insufficient free metaspace caused an error.
func lacksMetaspace(err error) bool {
	for e, ok := errors.AsType[*errcode.Error](err); ok; e, ok = errors.AsType[*errcode.Error](e.Unwrap()) {
		if e.Code() == errcode.UserMetaspaceFull {
			return true
		}
	}
	return false
}

// freeMetaspace returns the free metaspace of a base in bytes; 0 if it is unknown.
func freeMetaspace(b base.Snapshot) int64 {
	return max(b.Health.MetaspaceMax-b.Health.MetaspaceUsed, 0)
}

// reportFailure logs a failed command, records Events for the affected Pods, and calls Options.ModuleFailed.
func (p *Provider) reportFailure(key slotKey, a plan.Attempt, err error) {
	p.opts.Logger.Info("a module operation failed", "base", key.identity, "biz", a.Module.Identity(), "command",
		a.Command, "err", err)
	for _, v := range p.store.snapshots(key) {
		concerned := v.wants() && v.module.Module == a.Module
		if a.Command == arklet.CommandUninstallBiz {
			concerned = v.module.installable() && v.module.Version == a.Module.Version
		}
		if concerned {
			p.opts.Recorder.Event(v.pod, corev1.EventTypeWarning, errcode.Of(err).Type(), errcode.Message(err))
			p.opts.ModuleFailed(v.pod, key.identity, a.Module, err)
		}
	}
}
