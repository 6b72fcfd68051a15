package fakebase

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// The strategies of installBiz; what is neither counts as the first.
const (
	strategyInstallOnly    = "installOnly"
	strategyUninstallFirst = "uninstallThenInstall"
)

// installCommand is installBiz (protocol 4.5).
func (l *life) installCommand(req *bizRequest) outcome {
	if req == nil {
		return l.handle(subject{command: cmdInstall}, func() outcome {
			return thrownOutcome(nullPointer(handlers[cmdInstall], "isAsync()"))
		})
	}
	return l.handle(req.subject(cmdInstall), func() outcome {
		checked, ex := l.validateInstall(*req)
		if ex != nil {
			return failure(ex)
		}
		if !checked.InstallStrategy.set { // the default is filled in, and echoed
			checked.InstallStrategy = text{strategyInstallOnly, true}
		}
		sub := checked.subject(cmdInstall)
		return l.operate(&checked, sub, func() outcome {
			resp, ex := l.install(&checked, sub, ark.Hot)
			if ex != nil {
				return failure(ex)
			}
			out := respond(resp, "install biz not success!", "")
			if resp.code == codeRepeat {
				out.code = l.repeatCode(sub)
			}
			return out
		})
	})
}

func (r *bizRequest) subject(command string) subject {
	return subject{command: command, biz: r.BizName.value, version: r.BizVersion.value, url: r.BizURL.value}
}

// validateInstall checks a request in arklet's order. A request without name
// and version gets those of the jar.
func (l *life) validateInstall(req bizRequest) (bizRequest, *exception) {
	switch {
	case bool(req.Async) && blank(req.RequestID):
		return req, asyncWithoutID()
	case blank(req.BizURL):
		return req, invalid(fault.CodeInvalidParameter, "bizUrl should not be blank")
	case blank(req.BizName) && blank(req.BizVersion):
		f, ex := l.resolve(&req)
		switch {
		case ex == errGone:
			return req, ex
		case ex != nil:
			return req, invalid(ex.code, "refresh biz info from jar failed: "+ex.nullableDetail())
		}
		req.BizName, req.BizVersion = text{f.Name, true}, text{f.Version, true}
	case blank(req.BizName) || blank(req.BizVersion):
		return req, invalid(fault.CodeInvalidParameter,
			"bizName and bizVersion should be both blank or both not blank.")
	}
	return req, nil
}

func (l *life) resolve(req *bizRequest) (found, *exception) {
	f, ex := l.b.opts.Catalogue.resolve(l.ctx, req.BizURL.value, req.BizName.value, req.BizVersion.value,
		l.b.opts.Metaspace.PerModule)
	if ex != nil && l.ctx.Err() != nil {
		return f, errGone
	}
	return f, ex
}

// install downloads, registers and starts one biz. The identity is that of
// the jar, not of the request. Success means that main has returned; which
// version is active then is the container's business.
func (l *life) install(req *bizRequest, sub subject, origin ark.Origin) (clientResponse, *exception) {
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
	if !l.sleep(l.b.opts.of(f.install.Sample(l.b.share))) || l.crashes(sub) {
		return clientResponse{}, errGone
	}
	biz, ex := l.finishStart(f, origin, l.b.faults.fail(stepStart, sub))
	if ex != nil {
		return clientResponse{}, ex
	}
	cost := l.now().Sub(begun)
	l.log.Info("biz installed", "biz", id, "state", biz.State, "cost", cost)
	return clientResponse{
		code: codeSuccess, biz: []Biz{l.asReported(biz)}, elapsed: &f.Metaspace,
		message: fmt.Sprintf("Install Biz: %s success, cost: %d ms, started at: %s",
			id, cost.Milliseconds(), begun.Format("15:04:05,000")),
	}, nil
}

func (l *life) pull(req *bizRequest, sub subject) (found, *exception) {
	if ex := l.b.faults.fail(stepPull, sub); ex != nil {
		if ex.code == fault.CodePullBizTimeout && l.b.opts.Faithful {
			<-l.ctx.Done() // a real download has no time limit
			return found{}, errGone
		}
		return found{}, ex
	}
	f, ex := l.resolve(req)
	if ex != nil {
		return f, ex
	}
	if !l.sleep(l.b.opts.of(f.pull.Sample(l.b.share))) {
		return f, errGone
	}
	return f, l.b.faults.fail(stepManifest, sub)
}

var errRepeated = &exception{class: "biz is registered"}

func (l *life) register(f found, origin ark.Origin, sub subject) *exception {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if _, taken := l.container.Get(f.ID()); !taken && !l.meta.allowed(f.Metaspace) {
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

// finishStart ends the start of a registered biz: well, or with the exception
// that main threw or that the metaspace has no room.
func (l *life) finishStart(f found, origin ark.Origin, ex *exception) (Biz, *exception) {
	id := f.ID()
	_, full := l.b.faults.holds(fault.KindMetaspaceFull, subject{})
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	now := time.Now()
	if ex == nil && (full || !l.meta.fits(f.Metaspace)) {
		ex = outOfMetaspace()
	}
	if ex == nil && f.web && l.pathTakenLocked(f) {
		ex = thrown(fault.CodeInstallBizUserError, "java.lang.reflect.InvocationTargetException", "")
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
	l.meta.add(f.Metaspace)
	l.charged[id] = f.Metaspace
	for other, fs := range l.failures {
		if fs.name == f.Name {
			delete(l.failures, other)
		}
	}
	biz, _ := l.container.Get(id)
	return biz, nil
}

// pathTakenLocked reports whether another installed biz has the web context path.
func (l *life) pathTakenLocked(f found) bool {
	return slices.ContainsFunc(l.container.List(), func(b Biz) bool {
		return b.ID() != f.ID() && b.WebContextPath == f.WebContextPath && b.State != ark.Resolved
	})
}

// repeatCode is the error code of a refused second install; it depends on
// the state of the first (protocol 6, row 10).
func (l *life) repeatCode(sub subject) string {
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
	return thrown(fault.CodeMetaspaceFull, "java.lang.OutOfMemoryError", "Metaspace")
}

// asReported puts a biz as the base reports it: states flap if a fault says
// so, times are those of its clock.
func (l *life) asReported(b Biz) Biz {
	fs := &l.b.faults
	if fs.None() {
		return b
	}
	if f, flaps := fs.holds(fault.KindFlapping, subject{biz: b.Name, version: b.Version}); flaps &&
		b.State == ark.Activated {
		period := time.Duration(f.Period)
		if period == 0 {
			period = 5 * time.Second
		}
		if (time.Since(l.started)/l.b.opts.of(period))%2 == 1 {
			b.State = ark.Deactivated
		}
	}
	if f, skewed := fs.holds(fault.KindClockSkew, subject{}); skewed {
		records := make([]Record, len(b.Records))
		for i, r := range b.Records {
			r.ChangeTime = r.ChangeTime.Add(time.Duration(f.Skew))
			records[i] = r
		}
		b.Records = records
	}
	return b
}
