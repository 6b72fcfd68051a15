package fakebase

import (
	"errors"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// uninstall stops and removes a biz (protocol 4.6), and then aborts the requests that the biz is still processing.
func (l *incarnation) uninstall(sub subject) (clientResponse, *exception) {
	id := ark.ID(sub.biz, sub.version)
	missing := clientResponse{code: codeNotFound, message: "Uninstall biz: " + id + " not found."}
	fs := &l.b.faults
	if sub.biz == l.b.opts.Name {
		return clientResponse{code: codeFailed, message: "Master biz must not be uninstalled."}, nil
	}
	if fs.exceptionAt(stepFind, sub) != nil {
		return missing, nil
	}
	if l.isGuarded(id, sub) {
		if ex := fs.exceptionAt(stepGuard, sub); ex != nil {
			return clientResponse{}, ex
		}
	}
	if !l.awaitSilence(id) {
		return clientResponse{}, errNoAnswer
	}
	l.b.mu.Lock()
	delete(l.failures, id)
	err := l.container.Stopping(id, time.Now())
	l.b.emitHealthLocked() // a failed start no longer affects the health
	pause := l.stopTimes[id]
	l.b.mu.Unlock()
	switch {
	case errors.Is(err, ark.ErrNotFound):
		return missing, nil
	case err != nil:
		return clientResponse{}, newException(fault.CodeUninstallBizFailed, "java.lang.IllegalArgumentException",
			"BizState must be ACTIVATED, DEACTIVATED or BROKEN.")
	}
	l.refuseTraffic(true)
	if !l.sleep(l.b.opts.scaled(pause.Sample(l.b.randomFloat))) {
		return clientResponse{}, errNoAnswer
	}
	ex := fs.exceptionAt(stepStop, sub)
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
		l.b.abortRequests(id)
		return clientResponse{}, ex
	case errors.Is(err, ark.ErrNotFound):
		return missing, nil // another command has removed the biz
	case err != nil:
		return clientResponse{}, illegalState(fault.CodeUninstallBizFailed, "%v", err)
	}
	l.refuseTraffic(false)
	l.b.abortRequests(id)
	l.log.Info("biz uninstalled", "biz", id)
	return clientResponse{code: codeSuccess, message: "Uninstall biz: " + id + " success."}, nil
}

// awaitSilence blocks for SilenceBeforeUninstall if the biz is registered. It returns false if the process has ended.
func (l *incarnation) awaitSilence(id string) bool {
	silence := l.b.opts.scaled(l.b.opts.SilenceBeforeUninstall)
	l.b.mu.Lock()
	_, registered := l.container.Get(id)
	l.b.mu.Unlock()
	if silence == 0 || !registered {
		return true
	}
	l.refuseTraffic(true)
	return l.sleep(silence)
}

// isGuarded reports whether the biz is the active version of several installed versions. A fault with the code
// UnInstallationRequirementNotMet prevents the uninstallation of this version. If all versions are active, isGuarded
// returns false, because otherwise no version could be uninstalled.
func (l *incarnation) isGuarded(id string, sub subject) bool {
	if l.b.opts.Activation == ActivateMulti {
		return false
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	b, found := l.container.Get(id)
	return found && b.State == ark.Activated && len(l.container.Versions(sub.biz)) > 1
}

// uninstallOthers uninstalls all installed versions of the biz, for the install strategy uninstallThenInstall. It
// stops at the first exception and returns it, or nil if there was none. It ignores other failures.
func (l *incarnation) uninstallOthers(sub subject) *exception {
	l.b.mu.Lock()
	versions := l.container.Versions(sub.biz)
	l.b.mu.Unlock()
	for _, old := range versions {
		if ex := l.b.faults.exceptionAt(stepStopOld, sub); ex != nil {
			l.failUninstall(old.ID())
			return ex
		}
		if _, ex := l.uninstall(subject{command: cmdUninstall, biz: old.Name, version: old.Version}); ex != nil {
			if ex != errNoAnswer {
				ex.code = fault.CodeInstallBizTimedOut
			}
			return ex
		}
	}
	return nil
}

// applyUninstalled uninstalls the modules that an uninstalled fault matches. The base sends no message about it.
func (l *incarnation) applyUninstalled() {
	l.b.mu.Lock()
	modules := l.container.List()
	l.b.mu.Unlock()
	for _, m := range modules {
		sub := subject{biz: m.Name, version: m.Version}
		f, hit := l.b.faults.trigger(fault.KindUninstalled, sub)
		if !hit {
			continue
		}
		l.spawn(func() {
			if !l.sleep(f.wait) {
				return
			}
			if _, ex := l.uninstall(sub); ex != nil && ex != errNoAnswer {
				l.log.Info("could not uninstall a biz for a fault", "biz", m.ID(), "err", ex.message())
			}
		})
	}
}

// failUninstall simulates the uninstallation of a module whose stop handler throws an exception.
func (l *incarnation) failUninstall(id string) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	if l.container.Stopping(id, now) != nil || l.container.StopFailed(id, now) != nil {
		return // the biz is starting or was removed
	}
	l.orphaned = true
	l.releaseLocked(id)
}

// releaseLocked frees the metaspace of a biz that is no longer registered. The caller holds b.mu.
func (l *incarnation) releaseLocked(id string) {
	defer l.b.emitHealthLocked()
	if _, registered := l.container.Get(id); !registered {
		l.metaspaceUse.free(l.chargedMetaspace[id])
		delete(l.chargedMetaspace, id)
		delete(l.stopTimes, id)
		delete(l.modelVersions, id)
	}
}
