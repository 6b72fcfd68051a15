package fakebase

import (
	"errors"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// uninstall stops and removes one biz (protocol 4.6). Requests that it still
// works on are cut when it is gone, as the end of its class loader would.
func (l *life) uninstall(sub subject) (clientResponse, *exception) {
	id := ark.ID(sub.biz, sub.version)
	missing := clientResponse{code: codeNotFound, message: "Uninstall biz: " + id + " not found."}
	fs := &l.b.faults
	if sub.biz == l.b.opts.Name {
		return clientResponse{code: codeFailed, message: "Master biz must not be uninstalled."}, nil
	}
	if fs.fail(stepFind, sub) != nil {
		return missing, nil
	}
	if l.guarded(id, sub) {
		if ex := fs.fail(stepGuard, sub); ex != nil {
			return clientResponse{}, ex
		}
	}
	l.b.mu.Lock()
	delete(l.failures, id)
	err := l.container.Stopping(id, time.Now())
	pause := l.stopTimes[id]
	l.b.mu.Unlock()
	switch {
	case errors.Is(err, ark.ErrNotFound):
		return missing, nil
	case err != nil:
		return clientResponse{}, thrown(fault.CodeUninstallBizFailed, "java.lang.IllegalArgumentException",
			"BizState must be ACTIVATED, DEACTIVATED or BROKEN.")
	}
	if !l.sleep(l.b.opts.of(pause.Sample(l.b.share))) {
		return clientResponse{}, errGone
	}
	ex := fs.fail(stepStop, sub)
	l.b.mu.Lock()
	now := time.Now()
	if ex != nil {
		err, l.orphaned = l.container.StopFailed(id, now), true
	} else {
		err = l.container.Stopped(id, now)
	}
	l.releaseLocked(id)
	l.b.mu.Unlock()
	switch {
	case ex != nil:
		l.b.cutRequests(id)
		return clientResponse{}, ex
	case errors.Is(err, ark.ErrNotFound):
		return missing, nil // another command was faster
	case err != nil:
		return clientResponse{}, illegalState(fault.CodeUninstallBizFailed, "%v", err)
	}
	l.b.cutRequests(id)
	l.log.Info("biz uninstalled", "biz", id)
	return clientResponse{code: codeSuccess, message: "Uninstall biz: " + id + " success."}, nil
}

// guarded tells whether the biz is the active one of several versions, which
// an error of code UnInstallationRequirementNotMet refuses to uninstall. Where all
// versions are active nothing is guarded: nothing could ever be removed.
func (l *life) guarded(id string, sub subject) bool {
	if l.b.opts.Activation == ActivateMulti {
		return false
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	b, there := l.container.Get(id)
	return there && b.State == ark.Activated && len(l.container.Versions(sub.biz)) > 1
}

// uninstallOthers removes every version of the request's biz, as
// uninstallThenInstall does: what they answer is ignored, what they throw is not.
func (l *life) uninstallOthers(sub subject) *exception {
	l.b.mu.Lock()
	versions := l.container.Versions(sub.biz)
	l.b.mu.Unlock()
	for _, old := range versions {
		if ex := l.b.faults.fail(stepStopOld, sub); ex != nil {
			l.failStop(old.ID())
			return ex
		}
		if _, ex := l.uninstall(subject{command: cmdUninstall, biz: old.Name, version: old.Version}); ex != nil {
			if ex != errGone {
				ex.code = fault.CodeInstallBizTimedOut
			}
			return ex
		}
	}
	return nil
}

// uninstallUntold uninstalls the modules that a fault matches. Nothing reports it.
func (l *life) uninstallUntold() {
	l.b.mu.Lock()
	modules := l.container.List()
	l.b.mu.Unlock()
	for _, m := range modules {
		sub := subject{biz: m.Name, version: m.Version}
		f, hit := l.b.faults.fire(fault.KindUninstalled, sub)
		if !hit {
			continue
		}
		l.spawn(func() {
			if !l.sleep(f.wait) {
				return
			}
			if _, ex := l.uninstall(sub); ex != nil && ex != errGone {
				l.log.Info("a biz could not be uninstalled", "biz", m.ID(), "err", ex.message())
			}
		})
	}
}

// failStop is an uninstall whose stop handler throws.
func (l *life) failStop(id string) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	if l.container.Stopping(id, now) != nil || l.container.StopFailed(id, now) != nil {
		return // it starts just now, or is gone: nothing to break
	}
	l.orphaned = true
	l.releaseLocked(id)
}

// releaseLocked gives back the metaspace of a biz that is registered no more.
func (l *life) releaseLocked(id string) {
	if _, still := l.container.Get(id); !still {
		l.meta.giveBack(l.charged[id])
		delete(l.charged, id)
		delete(l.stopTimes, id)
	}
}
