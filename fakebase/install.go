package fakebase

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// Values of the install strategy of installBiz. Any other value is treated as installOnly.
const (
	strategyInstallOnly    = "installOnly"
	strategyUninstallFirst = "uninstallThenInstall"
)

// installCommand executes installBiz (protocol 4.5).
func (l *incarnation) installCommand(req *bizRequest) commandResult {
	if req == nil {
		return l.handle(subject{command: cmdInstall}, func() commandResult {
			return exceptionResult(nullPointer(handlers[cmdInstall], "isAsync()"))
		})
	}
	return l.handle(req.subject(cmdInstall), func() commandResult {
		checked, ex := l.validateInstall(*req)
		if ex != nil {
			return failedResult(ex)
		}
		if !checked.InstallStrategy.set { // the default is part of the record
			checked.InstallStrategy = jsonString{strategyInstallOnly, true}
		}
		sub := checked.subject(cmdInstall)
		return l.operate(&checked, sub, func() commandResult {
			resp, ex := l.install(&checked, sub, ark.Hot)
			if ex != nil {
				return failedResult(ex)
			}
			out := operationResult(resp, "install biz not success!", "")
			if !out.failed {
				l.rememberModelVersion(sub, checked.BizModelVersion.value)
			}
			if resp.code == codeRepeat {
				out.code = l.repeatCode(sub)
			}
			return out
		})
	})
}

// rememberModelVersion records the bizModelVersion with which a module was installed (protocol 4.10).
func (l *incarnation) rememberModelVersion(sub subject, version string) {
	if l.b.opts.Generation != GenerationD {
		return
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.modelVersions[ark.ID(sub.biz, sub.version)] = version
}

// isExpired reports whether the module was installed with another bizModelVersion than the given one (protocol 4.10).
// Without a bizModelVersion in both commands, a command does not expire.
func (l *incarnation) isExpired(sub subject, version string) bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	installed := l.modelVersions[ark.ID(sub.biz, sub.version)]
	return l.b.opts.Generation == GenerationD && version != "" && installed != "" && installed != version
}

// refuseTraffic sets the readiness of the base to REFUSING_TRAFFIC or back, if modules affect the readiness.
func (l *incarnation) refuseTraffic(refuse bool) {
	if !l.b.opts.WithAllBizReadiness {
		return
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	l.refusesTraffic = refuse
}

func (r *bizRequest) subject(command string) subject {
	return subject{command: command, biz: r.BizName.value, version: r.BizVersion.value, url: r.BizURL.value}
}

// validateInstall checks an install request in the same order as arklet. If the request has neither a name nor a
// version, validateInstall fills in both from the jar.
func (l *incarnation) validateInstall(req bizRequest) (bizRequest, *exception) {
	switch {
	case bool(req.Async) && blank(req.RequestID):
		return req, asyncWithoutID()
	case blank(req.BizURL):
		return req, newValidationException(fault.CodeInvalidParameter, "bizUrl should not be blank")
	case blank(req.BizName) && blank(req.BizVersion):
		f, ex := l.resolve(&req)
		switch {
		case ex == errNoAnswer:
			return req, ex
		case ex != nil:
			return req, newValidationException(ex.code, "refresh biz info from jar failed: "+ex.nullableDetail())
		}
		req.BizName, req.BizVersion = jsonString{f.Name, true}, jsonString{f.Version, true}
	case blank(req.BizName) || blank(req.BizVersion):
		return req, newValidationException(fault.CodeInvalidParameter,
			"bizName and bizVersion should be both blank or both not blank.")
	}
	return req, nil
}

func (l *incarnation) resolve(req *bizRequest) (resolvedModule, *exception) {
	f, ex := l.b.opts.Catalogue.resolve(l.ctx, req.BizURL.value, req.BizName.value, req.BizVersion.value,
		l.b.opts.Metaspace.PerModule)
	if ex != nil && l.ctx.Err() != nil {
		return f, errNoAnswer
	}
	return f, ex
}

// install downloads, registers and starts a biz. The jar, not the request, defines the identity of the biz. The
// install succeeds when the main method has returned, even if another version stays active.
func (l *incarnation) install(req *bizRequest, sub subject, origin ark.Origin) (clientResponse, *exception) {
	begun := l.now()
	if req.InstallStrategy.value == strategyUninstallFirst {
		if ex := l.uninstallOthers(sub); ex != nil {
			return clientResponse{}, ex
		}
	}
	f, ex := l.pull(req, sub)
	if ex != nil {
		return clientResponse{}, ex
	}
	sub.main = f.MainClass
	id := f.ID()
	if ex := l.register(f, origin, sub); ex != nil {
		if ex == errRepeated {
			zero := int64(0)
			return clientResponse{code: codeRepeat, elapsed: &zero,
				message: "Biz: " + id + " has been installed or registered."}, nil
		}
		return clientResponse{}, ex
	}
	l.refuseTraffic(true)
	if !l.sleep(l.b.opts.scaled(f.install.Sample(l.b.randomFloat))) || l.crashDuring(sub) {
		return clientResponse{}, errNoAnswer
	}
	biz, ex := l.finishStart(f, origin, l.b.faults.exceptionAt(stepStart, sub))
	if ex != nil {
		return clientResponse{}, ex
	}
	l.refuseTraffic(false)
	cost := l.now().Sub(begun)
	l.log.Info("biz installed", "biz", id, "state", biz.State, "cost", cost)
	return clientResponse{
		code: codeSuccess, biz: []Biz{l.asReported(biz)}, elapsed: &f.Metaspace,
		message: fmt.Sprintf("Install Biz: %s success, cost: %d ms, started at: %s",
			id, cost.Milliseconds(), begun.Format("15:04:05,000")),
	}, nil
}

func (l *incarnation) pull(req *bizRequest, sub subject) (resolvedModule, *exception) {
	if ex := l.b.faults.exceptionAt(stepPull, sub); ex != nil {
		if ex.code == fault.CodePullBizTimeout && l.b.opts.Faithful {
			<-l.ctx.Done() // the download of a real base has no timeout
			return resolvedModule{}, errNoAnswer
		}
		return resolvedModule{}, ex
	}
	f, ex := l.resolve(req)
	if ex != nil {
		return f, ex
	}
	if !l.sleep(l.b.opts.scaled(f.pull.Sample(l.b.randomFloat))) {
		return f, errNoAnswer
	}
	return f, l.b.faults.exceptionAt(stepManifest, sub)
}

var errRepeated = &exception{class: "biz is registered"}

func (l *incarnation) register(f resolvedModule, origin ark.Origin, sub subject) *exception {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if _, taken := l.container.Get(f.ID()); !taken && !l.metaspaceUse.passesThreshold(f.Metaspace) {
		return outOfMetaspace()
	}
	if err := l.container.Register(f.Spec, origin, time.Now()); err != nil {
		if errors.Is(err, ark.ErrRegistered) {
			return errRepeated
		}
		return illegalState(fault.CodeUnknown, "%s of %s: %v", sub.command, f.ID(), err)
	}
	l.stopTimes[f.ID()] = f.uninstall
	return nil
}

// finishStart completes the start of a registered biz. The start fails if ex is not nil, the metaspace is exhausted,
// or the biz is a web application and another installed biz has its web context path.
func (l *incarnation) finishStart(f resolvedModule, origin ark.Origin, ex *exception) (Biz, *exception) {
	id := f.ID()
	_, full := l.b.faults.inEffectFor(fault.KindMetaspaceFull, subject{})
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	if ex == nil && (full || !l.metaspaceUse.fits(f.Metaspace)) {
		ex = outOfMetaspace()
	}
	if ex == nil && f.web && l.pathTakenLocked(f) {
		ex = newException(fault.CodeInstallBizUserError, "java.lang.reflect.InvocationTargetException", "")
		ex.causes = []string{
			"org.springframework.context.ApplicationContextException: Unable to start web server",
			"java.lang.IllegalArgumentException: Child name [" + f.WebContextPath + "] is not unique",
		}
	}
	if ex != nil {
		if err := l.container.StartFailed(id, ex.trace(), now); err != nil {
			return Biz{}, illegalState(fault.CodeUnknown, "%v", err)
		}
		l.failures[id] = failedStart{name: f.Name, origin: origin}
		return Biz{}, ex
	}
	if err := l.container.Started(id, now); err != nil {
		return Biz{}, illegalState(fault.CodeUnknown, "%v", err)
	}
	l.metaspaceUse.add(f.Metaspace)
	l.chargedMetaspace[id] = f.Metaspace
	for other, fs := range l.failures {
		if fs.name == f.Name {
			delete(l.failures, other)
		}
	}
	biz, _ := l.container.Get(id)
	return biz, nil
}

// pathTakenLocked reports whether another installed biz has the web context path. The caller holds b.mu.
func (l *incarnation) pathTakenLocked(f resolvedModule) bool {
	return slices.ContainsFunc(l.container.List(), func(b Biz) bool {
		return b.ID() != f.ID() && b.WebContextPath == f.WebContextPath && b.State != ark.Resolved
	})
}

// repeatCode returns the error code for the installation of a biz that is already installed. The code depends on the
// state of the biz (protocol 6, row 10); it is empty if the state is not an error.
func (l *incarnation) repeatCode(sub subject) string {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	b, _ := l.container.Get(ark.ID(sub.biz, sub.version))
	switch b.State {
	case ark.Resolved:
		return fault.CodeInstallBizExecuting
	case ark.Broken:
		return fault.CodeInstallRequirementNotMet
	default:
		return ""
	}
}

func outOfMetaspace() *exception {
	return newException(fault.CodeMetaspaceFull, "java.lang.OutOfMemoryError", "Metaspace")
}

// asReported returns a biz as the base reports it, including the effects of flapping and clockSkew faults.
func (l *incarnation) asReported(b Biz) Biz {
	fs := &l.b.faults
	if fs.None() {
		return b
	}
	if f, flaps := fs.inEffectFor(fault.KindFlapping, subject{biz: b.Name, version: b.Version}); flaps &&
		b.State == ark.Activated {
		period := time.Duration(f.Period)
		if period == 0 {
			period = 5 * time.Second
		}
		if (time.Since(l.started)/l.b.opts.scaled(period))%2 == 1 {
			b.State = ark.Deactivated
		}
	}
	if f, skewed := fs.inEffectFor(fault.KindClockSkew, subject{}); skewed {
		records := make([]Record, len(b.Records))
		for i, r := range b.Records {
			r.ChangeTime = r.ChangeTime.Add(time.Duration(f.Skew))
			records[i] = r
		}
		b.Records = records
	}
	return b
}
