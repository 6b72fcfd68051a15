package vpod

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// failure is what went wrong last with a module of a Pod.
type failure struct {
	err      error // carries an error code; nil means nothing went wrong
	attempts int   // of installs or uninstalls in vain, in a row
	next     time.Time
	final    bool // no further attempt until the Pod or the base changes
}

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

// listTimeout is how long a base may take to list its modules.
const listTimeout = 10 * time.Second

// install sends installBiz and asks the base what came of it. The error carries a code; the
// snapshot is the newest either way.
func (p *Provider) install(ctx context.Context, b base.Snapshot, m arklet.Module) (base.Snapshot, error) {
	answer, err := p.runCommand(ctx, b.Identity, arklet.Request{Command: arklet.CommandInstallBiz, Module: m}, p.opts.InstallTimeout, errcode.ArkletInstallModuleTimedOut)
	if err != nil {
		return b, err
	}
	b, err = p.listModules(ctx, b, answer.PublishedAt)
	if err != nil {
		return b, err
	}
	if answer.Succeeded() || answer.AlreadyInstalled() {
		return b, nil // the list says what became of it
	}
	return b, p.answerError(answer, b, errcode.ClassifyInstall, errcode.ForInstall)
}

// uninstall sends uninstallBiz and asks the base whether the module is gone. A module may be gone
// although the base answers with a failure: a stop handler that throws does not keep it (protocol
// 5.2). The error tells of that too; the snapshot decides.
func (p *Provider) uninstall(ctx context.Context, b base.Snapshot, m arklet.Module) (base.Snapshot, error) {
	answer, err := p.runCommand(ctx, b.Identity, arklet.Request{Command: arklet.CommandUninstallBiz, Module: m}, p.opts.UninstallTimeout, errcode.ArkletUninstallBizTimedOut)
	if err != nil {
		return b, err
	}
	b, err = p.listModules(ctx, b, answer.PublishedAt)
	if err != nil {
		return b, err
	}
	_, there := b.Module(m.Name, m.Version)
	switch {
	case !there && (answer.Succeeded() || answer.NotInstalled()):
		return b, nil
	case answer.Succeeded() || answer.NotInstalled():
		return b, errcode.New(errcode.ArkletUninstallBizFailed, "base %q says that it uninstalled %s and lists it still", b.Identity, m.Identity())
	default:
		return b, p.answerError(answer, b, errcode.ClassifyUninstall, errcode.ForUninstall)
	}
}

// runCommand asks and measures; an error without an answer gets a code here.
func (p *Provider) runCommand(ctx context.Context, identity string, r arklet.Request, timeout time.Duration, late errcode.Code) (arklet.Answer, error) {
	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.opts.Asked(identity, r)
	answer, err := p.dialog.Do(asking, identity, r)
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
	case errors.Is(err, base.ErrNoAnswer):
		err = errcode.Wrap(late, err)
	default:
		err = errcode.Wrap(transportCode(err), err)
	}
	o.Err, o.Code = err, errcode.Of(err)
	p.opts.Answered(o)
	return answer, err
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
	asking, cancel := context.WithTimeout(ctx, listTimeout)
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
	err := errcode.New(code, "%s of %s on base %q: %s", a.Command, a.Module.Identity(), b.Identity, message)
	if as(code) == code { // DiskFull is one for both
		return err
	}
	return errcode.Wrap(as(code), err)
}

// recordFailure remembers what went wrong with a module of a Pod, decides when to try again, and
// tells of it once.
func (p *Provider) recordFailure(v view, m arklet.Module, err error, limit int) failure {
	f := v.failure
	before := f.err
	f.err = err
	switch errcode.Of(err) {
	case errcode.ArkletNetworkError, errcode.ArkletArkletServiceNotFound, errcode.ArkletInstallModuleExecuting:
		// not the module's fault: does not count
		f.next = time.Now().Add(backoff(1))
	default:
		f.attempts++
		f.next = time.Now().Add(backoff(f.attempts))
	}
	if limit > 0 && f.attempts >= limit {
		f.final = true
		f.err = errcode.Wrap(errcode.ModuleControllerRetryTimesExceeded, err)
	}
	p.store.change(func() { v.failures[m.Name] = f })
	if before == nil || before.Error() != f.err.Error() {
		p.reportFailure(v, m, f.err)
	}
	return f
}

// reportFailure makes a failure known: in the log, in an Event of the Pod, and to the hooks.
func (p *Provider) reportFailure(v view, m arklet.Module, err error) {
	p.opts.Logger.Info("a module operation failed", "base", v.identity, "biz", m.Identity(), "pod", nameOf(v.pod).String(), "err", err)
	p.opts.Recorder.Event(v.pod, corev1.EventTypeWarning, errcode.Of(err).Type(), errcode.Message(err))
	p.opts.Failure(v.pod, v.identity, m, err)
}

func (p *Provider) clearFailure(v view, name string) {
	if v.failure.err != nil {
		p.store.change(func() { delete(v.failures, name) })
	}
}
