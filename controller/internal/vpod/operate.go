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

// Outcome is what came of one command.
type Outcome struct {
	Identity string
	Request  arklet.Request
	// Answer is the base's; zero if it gave none, which Err explains.
	Answer arklet.Answer
	Err    error
	// Code says what went wrong; empty after a success.
	Code errcode.Code
	Took time.Duration
}

// lateFor is how long after its time an install may still be carried out by a base that did not
// answer.
const lateFor = 10 * time.Minute

// listTimeout is how long a base may take to list its modules.
const listTimeout = 10 * time.Second

// install sends installBiz and asks the base what came of it. The error carries a code; the
// snapshot is the newest either way.
func (p *Provider) install(ctx context.Context, key workerKey, b base.Snapshot, m arklet.Module, again func() bool) (base.Snapshot, error) {
	before, asked := p.store.placing(key, m, time.Now().Add(p.opts.InstallTimeout+p.opts.Speed.Of(lateFor)))
	if !asked {
		return b, nil
	}
	p.keep(ctx, key.identity)
	answer, err := p.runCommand(ctx, b.Identity, arklet.Request{Command: arklet.CommandInstallBiz, Module: m}, again, p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut)
	if err != nil {
		return b, err
	}
	b, err = p.listModules(ctx, b, answer.PublishedAt)
	if err != nil {
		return b, err
	}
	p.store.settled(key, m)
	if !answer.Succeeded() && !answer.AlreadyInstalled() {
		if err := p.answerError(answer, b, errcode.ClassifyInstall, errcode.ForInstall); err != nil {
			p.store.refused(key, m, before)
			return b, err
		}
	}
	switch biz, _ := b.Module(m.Name, m.Version); biz.State {
	case arklet.StateActivated, arklet.StateDeactivated, arklet.StateResolved: // another one serves, or somebody installs it
		return b, nil
	default:
		return b, notActivated(m)
	}
}

// keepWithin is the maximum time that an install waits for the ledger, so that an API server that does not
// answer does not delay releases further.
const keepWithin = time.Second

// keep has the ledger written before an install is sent: if this controller dies and the Pod goes
// meanwhile, nothing else tells the next one that the module is nobody's.
func (p *Provider) keep(ctx context.Context, identity string) {
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	p.opts.Keep(ctx, identity)
}

// notActivated is what is wrong when a base says that a command was carried out and its list does
// not show it.
func notActivated(m arklet.Module) error {
	return errcode.New(errcode.ArkletInstallModuleFailed, "the base says that it installed %s and does not list it as activated", m.Identity())
}

// switchTo sends switchBiz and asks the base what came of it.
func (p *Provider) switchTo(ctx context.Context, b base.Snapshot, m arklet.Module, again func() bool) (base.Snapshot, error) {
	answer, err := p.runCommand(ctx, b.Identity, arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}, again, p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut)
	if err != nil {
		return b, err
	}
	if b, err = p.listModules(ctx, b, answer.PublishedAt); err != nil {
		return b, err
	}
	if biz, there := b.Module(m.Name, m.Version); there && biz.State == arklet.StateActivated {
		return b, nil
	}
	return b, notActivated(m)
}

// uninstall sends uninstallBiz and asks the base whether the module is gone. A module may be gone
// although the base answers with a failure: a stop handler that throws does not keep it (protocol
// 5.2). The error tells of that too; the snapshot decides.
func (p *Provider) uninstall(ctx context.Context, b base.Snapshot, m arklet.Module, again func() bool) (base.Snapshot, error) {
	m.URL = "" // the log shows the jar that is uninstalled, and a Pod may ask for another jar of the version
	p.store.read(func() {
		if l := p.store.lane(workerKey{b.Identity, m.Name}); l != nil {
			m.URL = l.memory.Installed[m.Version].URL
		}
	})
	answer, err := p.runCommand(ctx, b.Identity, arklet.Request{Command: arklet.CommandUninstallBiz, Module: m}, again, p.opts.UninstallTimeout, errcode.ArkletUninstallBizTimedOut)
	if err != nil {
		return b, err
	}
	b, err = p.listModules(ctx, b, answer.PublishedAt)
	if err != nil {
		return b, err
	}
	if !answer.Succeeded() && !answer.NotInstalled() {
		if err := p.answerError(answer, b, errcode.ClassifyUninstall, errcode.ForUninstall); err != nil {
			return b, err
		}
	}
	if _, there := b.Module(m.Name, m.Version); there {
		return b, errcode.New(errcode.ArkletUninstallBizFailed, "base %q says that it uninstalled %s and lists it still", p.registry.Called(b.Identity), m.Identity())
	}
	p.opts.Logger.Debug("uninstalled a module", "base", b.Identity, "biz", m.Identity())
	return b, nil
}

// runCommand asks and measures; an error without an answer gets a code here.
func (p *Provider) runCommand(ctx context.Context, identity string, r arklet.Request, again func() bool, timeout time.Duration, late errcode.Code) (arklet.Answer, error) {
	if ctx.Err() != nil { // another controller may serve the base by now
		return arklet.Answer{}, ctx.Err()
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
	answer, err := p.dialog.Do(asking, identity, r, again)
	o := Outcome{Identity: identity, Request: r, Answer: answer, Took: time.Since(began)}
	switch {
	case err == nil:
		if !answer.Succeeded() && !alreadyDone(answer, r.Command) {
			o.Code = answerCode(answer, r.Command)
		}
		p.opts.Answered(o)
		return answer, nil
	case ctx.Err() != nil:
		return answer, err
	case errors.Is(err, errSuperseded), errors.Is(err, base.ErrNotAgain):
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

// errSuperseded is why nobody waits for the answer to an install any more: Pods want another
// version. What comes of it shows in the base's list.
var errSuperseded = errors.New("a Pod came for another version")

// showWithin is how long the list is waited for that shows an install which nobody waits for.
const showWithin = time.Second

// showInstall gets a list that shows an install which nobody waits for any more. Without it the same
// install would begin again if a Pod comes for that version once more, and the base refuses it.
func (p *Provider) showInstall(ctx context.Context, b base.Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Speed.Of(showWithin))
	defer cancel()
	if _, err := p.listModules(ctx, b, time.Now()); err != nil {
		p.opts.Logger.Debug("an install that no Pod wants any more does not show yet", "base", b.Identity, "err", err)
	}
}

// installing is an install under way.
type installing struct {
	module arklet.Module
	giveUp context.CancelCauseFunc
}

// supersede has an install that no Pod wants any more be waited for no longer, if a Pod wants
// another version.
func (p *Provider) supersede(key workerKey) {
	p.store.read(func() {
		l := p.store.lane(key)
		if l == nil || l.installing == nil {
			return
		}
		others := false
		for _, v := range l.views(key.module) {
			if v.wants() {
				if v.module.Version == l.installing.module.Version { // or the base refuses the next one, another jar or not
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

// alreadyDone says whether a base refused to do what had been done before: no failure.
func alreadyDone(a arklet.Answer, c arklet.Command) bool {
	return c == arklet.CommandInstallBiz && a.AlreadyInstalled() || c == arklet.CommandUninstallBiz && a.NotInstalled()
}

func answerCode(a arklet.Answer, c arklet.Command) errcode.Code {
	if c == arklet.CommandUninstallBiz {
		return errcode.ClassifyUninstall(classify(a, ""))
	}
	return errcode.ClassifyInstall(classify(a, ""))
}

func classify(a arklet.Answer, state arklet.State) errcode.Answer {
	return errcode.Answer{ErrorCode: a.ErrorCode, Code: a.Code, Message: a.Message, DataCode: a.DataCode, DataMessage: a.DataMessage, BizState: string(state)}
}

// listModules asks the base for its modules; the list is not older than notBefore.
func (p *Provider) listModules(ctx context.Context, b base.Snapshot, notBefore time.Time) (base.Snapshot, error) {
	asking, cancel := context.WithTimeout(ctx, p.opts.Speed.Of(listTimeout))
	defer cancel()
	fresh, err := p.dialog.Modules(asking, b.Identity, notBefore)
	if err != nil {
		return b, errcode.Wrap(transportCode(err), err)
	}
	return fresh, nil
}

// transportCode is the code of an error on the way to a base.
func transportCode(err error) errcode.Code {
	if errors.Is(err, tunnel.ErrRefused) {
		return errcode.ArkletArkletServiceNotFound
	}
	return errcode.ArkletNetworkError
}

// answerError turns an answer into an error with the controller's code, which holds arklet's.
func (p *Provider) answerError(a arklet.Answer, b base.Snapshot, of func(errcode.Answer) errcode.Code, as func(errcode.Code) errcode.Code) error {
	biz, _ := b.Module(a.Module.Name, a.Module.Version)
	code := of(classify(a, biz.State))
	if code == "" {
		return nil
	}
	message := firstLine(a.Message)
	if message == "" || a.DataCode != "" && a.DataCode != "FAILED" {
		message = firstLine(a.DataMessage)
	}
	err := errcode.New(code, "%s of %s on base %q: %s", a.Command, a.Module.Identity(), p.registry.Called(b.Identity), message)
	if as(code) == code { // DiskFull is one for both
		return err
	}
	return errcode.Wrap(as(code), err)
}

// recordFailure remembers what went wrong, decides when to try again, and tells of it once. It goes
// on for ever: what is left as it is drifts from the Pods.
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
		if errcode.Passes(errcode.Of(err)) { // it does not count
			f.Next = now.Add(backoff(p.opts.Speed, 1, p.opts.Speed.Of(retryAtMost)))
		} else {
			f.Attempts++
			f.Next = now.Add(backoff(p.opts.Speed, f.Attempts, p.opts.Speed.Of(retryAtMost)))
		}
		if lacksMetaspace(err) {
			f.FreeMetaspace = freeMetaspace(b)
		}
		if l != nil {
			l.memory.Failed[a] = f
		}
	})
	if before.Err == nil || before.Err.Error() != err.Error() || f.Attempts == p.opts.MaxAttempts && before.Attempts < f.Attempts {
		p.reportFailure(key, a, p.shownError(a, f))
	}
}

// retryAtMost is the longest pause between two attempts, as a kubelet's.
const retryAtMost = 5 * time.Minute

// backoff is how long to wait after a number of failures in a row: half a second, doubling.
func backoff(speed pace.Speed, failures int, atMost time.Duration) time.Duration {
	d := min(speed.Of(firstPause), atMost)
	for range failures - 1 {
		if d *= 2; d >= atMost {
			return atMost
		}
	}
	return d
}

// shownError is what a failure looks like to a user: from the sixth attempt on it says so, and when
// the next one is due.
func (p *Provider) shownError(a plan.Attempt, f plan.Failure) error {
	if a.Command != arklet.CommandInstallBiz || f.Attempts < p.opts.MaxAttempts {
		return f.Err
	}
	return errcode.New(errcode.ModuleControllerRetryTimesExceeded, "%s: %w", api.NextAttempt(f.Attempts, f.Next), f.Err)
}

// lacksMetaspace says whether more free metaspace would help.
func lacksMetaspace(err error) bool {
	for e, ok := errors.AsType[*errcode.Error](err); ok; e, ok = errors.AsType[*errcode.Error](e.Unwrap()) {
		if e.Code() == errcode.UserMetaspaceFull {
			return true
		}
	}
	return false
}

// freeMetaspace is what a base has left, in bytes; 0 if it does not say.
func freeMetaspace(b base.Snapshot) int64 {
	return max(b.Health.MetaspaceMax-b.Health.MetaspaceUsed, 0)
}

// reportFailure makes a failure known: in the log, in an Event of each Pod that it concerns, and to
// the hooks.
func (p *Provider) reportFailure(key workerKey, a plan.Attempt, err error) {
	p.opts.Logger.Info("a module operation failed", "base", key.identity, "biz", a.Module.Identity(), "command", a.Command, "err", err)
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
