package fakebase

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// The commands of arklet (protocol 4.4).
const (
	cmdHelp      = "help"
	cmdInstall   = "installBiz"
	cmdBatch     = "batchInstallBiz"
	cmdUninstall = "uninstallBiz"
	cmdSwitch    = "switchBiz"
	cmdQueryAll  = "queryAllBiz"
	cmdHealth    = "health"
	cmdQueryOps  = "queryBizOps"
)

// Response codes inside data (protocol 3.6, 4.6).
const (
	codeSuccess      = "SUCCESS"
	codeFailed       = "FAILED"
	codeRepeat       = "REPEAT_BIZ"
	codeNotFound     = "NOT_FOUND_BIZ"
	codeIllegalState = "ILLEGAL_STATE_BIZ"
)

// outcome is the result of a handler. A tunnel renders it.
type outcome struct {
	failed  bool
	message string
	data    any // one of the types that wire.go renders; nil = none
	thrown  *exception
	code    string // error code of the documents
	unknown bool   // there is no such command
	gone    bool   // the process ended, or the command hangs: nothing is answered
}

// clientResponse is what the operations on biz answer.
type clientResponse struct {
	code, message string
	biz           []Biz
	elapsed       *int64 // bytes of metaspace; nil = not stated
}

func ok(data any) outcome { return outcome{data: data} }

func failed(message, code string) outcome {
	return outcome{failed: true, message: message, code: code}
}

func thrownOutcome(ex *exception) outcome { return outcome{thrown: ex, code: ex.code} }

// errGone makes a handler stop without an answer.
var errGone = &exception{class: "process ended"}

func failure(ex *exception) outcome {
	if ex == errGone {
		return outcome{gone: true}
	}
	return thrownOutcome(ex)
}

// handle carries out a command, unless a fault prevents it, and traces it if it is answered.
func (l *life) handle(sub subject, op func() outcome) outcome {
	began := time.Now()
	out, done := l.arrive(sub)
	if !done {
		out = op()
	}
	if !out.gone {
		l.traceCommand(sub, out, time.Since(began))
	}
	return out
}

// arrive is what may happen to any command before its handler: latency, a
// crash (installs crash while main runs), an injected refusal. done = the
// outcome is final.
func (l *life) arrive(sub subject) (out outcome, done bool) {
	fs := &l.b.faults
	if f, hit := fs.fire(fault.KindLatency, sub); hit && !l.sleepOr(f.wait, f.cleared) {
		return outcome{gone: true}, true
	}
	switch {
	case fs.fail(stepDispatch, sub) != nil:
		return outcome{unknown: true, code: fault.CodeInvalidRequest}, true
	case sub.command != cmdInstall && sub.command != cmdBatch && l.crashes(sub):
		return outcome{gone: true}, true
	}
	if ex := fs.fail(stepEnter, sub); ex != nil {
		return thrownOutcome(ex), true
	}
	if ex := fs.fail(stepValidate, sub); ex != nil {
		return thrownOutcome(ex), true
	}
	return outcome{}, false
}

// hang blocks until the end of the process if there is a fault, and reports whether it has blocked.
func (l *life) hang(sub subject) bool {
	if _, hit := l.b.faults.fire(fault.KindHang, sub); !hit {
		return false
	}
	<-l.ctx.Done()
	return true
}

// query carries out a command that needs no lock.
func (l *life) query(sub subject, op func() outcome) outcome {
	return l.handle(sub, func() outcome {
		if l.hang(sub) {
			return outcome{gone: true}
		}
		return op()
	})
}

// exclusively runs an operation while no other has the lock of its identity
// (protocol 4.8). conflict tells that the operation did not run because another does.
func (l *life) exclusively(id string, sub subject, op func() outcome) (out outcome, conflict bool) {
	running, free := l.lock(id, sub.command)
	if free && l.b.faults.fail(stepLock, sub) != nil {
		l.unlock(id)
		running, free = cmdInstall, false
	}
	if !free {
		code := fault.CodeInstallBizExecuting
		if running == cmdUninstall || running == cmdSwitch { // Arklet's table has no code for these
			code = ""
		}
		return failed(fmt.Sprintf("FAILED:%s %s conflict, exist unfinished command(%s) for this biz",
			id, sub.command, running), code), true
	}
	defer l.unlock(id)
	if l.hang(sub) {
		return outcome{gone: true}, false
	}
	return op(), false
}

func (l *life) lock(id, command string) (running string, free bool) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if running, taken := l.locks[id]; taken {
		return running, false
	}
	if l.locks == nil {
		l.locks = map[string]string{}
	}
	l.locks[id] = command
	return "", true
}

func (l *life) unlock(id string) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	delete(l.locks, id)
}

func (l *life) operate(req *bizRequest, sub subject, op func() outcome) outcome {
	id := ark.ID(sub.biz, sub.version)
	if req.Async {
		return l.operateAsync(req.RequestID.value, id, req, sub, op)
	}
	out, _ := l.exclusively(id, sub, func() outcome { return op() })
	return out
}

// uninstallCommand is uninstallBiz (protocol 4.6).
func (l *life) uninstallCommand(req *bizRequest) outcome {
	return l.namedCommand(cmdUninstall, req, func(sub subject) outcome {
		resp, ex := l.uninstall(sub)
		if ex != nil {
			return failure(ex)
		}
		return respond(resp, "uninstall biz not success!", fault.CodeNoMatchedBiz)
	})
}

// switchCommand is switchBiz (protocol 4.6).
func (l *life) switchCommand(req *bizRequest) outcome {
	return l.namedCommand(cmdSwitch, req, func(sub subject) outcome {
		return respond(l.switchTo(sub), "switch biz not success!", fault.CodeNoMatchedBiz)
	})
}

// namedCommand carries out uninstallBiz or switchBiz.
func (l *life) namedCommand(command string, req *bizRequest, op func(subject) outcome) outcome {
	sub := subject{command: command}
	if req != nil {
		sub.biz, sub.version = req.BizName.value, req.BizVersion.value
	}
	return l.handle(sub, func() outcome {
		switch {
		case req == nil:
			return thrownOutcome(nullPointer(handlers[command], "getBizName()"))
		case blank(req.BizName):
			return thrownOutcome(invalid(fault.CodeInvalidParameter, "bizName should not be blank"))
		case blank(req.BizVersion):
			return thrownOutcome(invalid(fault.CodeInvalidParameter, "bizVersion should not be blank"))
		case bool(req.Async) && blank(req.RequestID):
			return thrownOutcome(asyncWithoutID())
		}
		return l.operate(req, sub, func() outcome { return op(sub) })
	})
}

// respond returns the outcome of an operation; message is that of a failure.
func respond(r clientResponse, message, notFoundCode string) outcome {
	out := outcome{data: r}
	if r.code == codeSuccess {
		return out
	}
	out.failed, out.message = true, message
	switch r.code {
	case codeNotFound:
		out.code = notFoundCode
	case codeIllegalState:
		out.code = fault.CodeUnknown
	case codeFailed:
		out.code = fault.CodeInvalidRequest
	}
	return out
}

func (l *life) switchTo(sub subject) clientResponse {
	id := ark.ID(sub.biz, sub.version)
	if l.b.faults.fail(stepFind, sub) != nil {
		return clientResponse{code: codeNotFound, message: "Switch biz: " + id + " not found."}
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	err := l.container.Switch(id, time.Now())
	switch {
	case errors.Is(err, ark.ErrNotFound):
		return clientResponse{code: codeNotFound, message: "Switch biz: " + id + " not found."}
	case err != nil:
		b, _ := l.container.Get(id)
		return clientResponse{code: codeIllegalState, message: fmt.Sprintf(
			"Switch Biz: %s's state must not be %s.", id, b.State.Lower())}
	}
	return clientResponse{code: codeSuccess, message: "Switch biz: " + id + " is activated."}
}

// queryAll is queryAllBiz (protocol 4.7).
func (l *life) queryAll() outcome {
	sub := subject{command: cmdQueryAll}
	return l.query(sub, func() outcome {
		if l.b.faults.fail(stepFind, sub) != nil {
			return failed("can not find biz", fault.CodeNoMatchedBiz)
		}
		return ok(l.reported())
	})
}

// reported is what the base says about its modules: as they are, but for
// flapping and a skewed clock.
func (l *life) reported() []Biz {
	l.b.mu.Lock()
	list := l.container.List()
	l.b.mu.Unlock()
	for i := range list {
		list[i] = l.asReported(list[i])
	}
	return list
}

func blank(t text) bool { return strings.TrimSpace(t.value) == "" }

func asyncWithoutID() *exception {
	return invalid(fault.CodeInvalidParameter, "requestId should not be blank when async is true")
}

// handlers are the classes of arklet that carry out commands.
var handlers = map[string]string{
	cmdInstall: "InstallBizHandler", cmdUninstall: "UninstallBizHandler", cmdSwitch: "SwitchBizHandler",
	cmdBatch: "BatchInstallBizHandler",
}

// nullPointer is what a handler throws that calls a method of a request that is not there.
func nullPointer(handler, method string) *exception {
	return &exception{
		class: "java.lang.NullPointerException", code: fault.CodeInvalidParameter, plain: true,
		detail: fmt.Sprintf(`Cannot invoke "com.alipay.sofa.koupleless.arklet.core.command.builtin.handler.%s$Input.%s" because "input" is null`,
			handler, method),
	}
}
