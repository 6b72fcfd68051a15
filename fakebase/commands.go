package fakebase

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// Names of the arklet commands (protocol 4.4).
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

// Response codes in the field data of a response (protocol 4.6 and 6).
const (
	codeSuccess      = "SUCCESS"
	codeFailed       = "FAILED"
	codeRepeat       = "REPEAT_BIZ"
	codeNotFound     = "NOT_FOUND_BIZ"
	codeIllegalState = "ILLEGAL_STATE_BIZ"
)

// commandResult is the result of a handler. Tunnels convert it to a response.
type commandResult struct {
	failed    bool
	message   string
	data      any // data of the response, of a type that dialect.render supports; may be nil
	exception *exception
	code      string // error code that the Koupleless documentation defines
	unknown   bool   // the command is unknown
	noAnswer  bool   // no response is sent, because the process has ended or the command hangs
}

// clientResponse is the response to an operation on a biz.
type clientResponse struct {
	code, message string
	biz           []Biz
	elapsed       *int64 // growth of the metaspace in bytes; nil = omitted
}

func ok(data any) commandResult { return commandResult{data: data} }

func rejectedResult(message, code string) commandResult {
	return commandResult{failed: true, message: message, code: code}
}

func exceptionResult(ex *exception) commandResult { return commandResult{exception: ex, code: ex.code} }

// errNoAnswer makes a command handler return without a response.
var errNoAnswer = &exception{class: "process ended"}

func failedResult(ex *exception) commandResult {
	if ex == errNoAnswer {
		return commandResult{noAnswer: true}
	}
	return exceptionResult(ex)
}

// handle executes a command unless a fault prevents it. If the base responds, handle traces the command.
func (l *incarnation) handle(sub subject, op func() commandResult) commandResult {
	began := time.Now()
	out, done := l.applyEarlyFaults(sub)
	if !done {
		out = op()
	}
	if !out.noAnswer {
		l.traceCommand(sub, out, time.Since(began))
	}
	return out
}

// applyEarlyFaults applies the faults that act before the handler: latency, crash and error. Crash faults of installs
// act later, while the main method runs. isFinal reports whether out is already the result of the command.
func (l *incarnation) applyEarlyFaults(sub subject) (out commandResult, isFinal bool) {
	fs := &l.b.faults
	if f, hit := fs.trigger(fault.KindLatency, sub); hit && !l.sleepOr(f.wait, f.cleared) {
		return commandResult{noAnswer: true}, true
	}
	switch {
	case fs.exceptionAt(stepDispatch, sub) != nil:
		return commandResult{unknown: true, code: fault.CodeInvalidRequest}, true
	case sub.command != cmdInstall && sub.command != cmdBatch && l.crashDuring(sub):
		return commandResult{noAnswer: true}, true
	}
	if ex := fs.exceptionAt(stepEnter, sub); ex != nil {
		return exceptionResult(ex), true
	}
	if ex := fs.exceptionAt(stepValidate, sub); ex != nil {
		return exceptionResult(ex), true
	}
	return commandResult{}, false
}

// hangIfFaulty blocks until the process ends if a hang fault matches the command, and reports whether one did.
func (l *incarnation) hangIfFaulty(sub subject) bool {
	if _, hit := l.b.faults.trigger(fault.KindHang, sub); !hit {
		return false
	}
	<-l.ctx.Done()
	return true
}

// query executes a command that needs no lock of a biz identity.
func (l *incarnation) query(sub subject, op func() commandResult) commandResult {
	return l.handle(sub, func() commandResult {
		if l.hangIfFaulty(sub) {
			return commandResult{noAnswer: true}
		}
		return op()
	})
}

// withLock runs an operation while it holds the lock of a biz identity (protocol 4.8). conflict reports whether the
// operation did not run because another command has the lock.
func (l *incarnation) withLock(id string, sub subject, op func() commandResult) (out commandResult, conflict bool) {
	running, free := l.tryLock(id, sub.command)
	if free && l.b.faults.exceptionAt(stepLock, sub) != nil {
		l.unlock(id)
		running, free = cmdInstall, false
	}
	if !free {
		code := fault.CodeInstallBizExecuting
		if running == cmdUninstall || running == cmdSwitch { // the Koupleless documentation has no code for these
			code = ""
		}
		return rejectedResult(fmt.Sprintf("FAILED:%s %s conflict, exist unfinished command(%s) for this biz",
			id, sub.command, running), code), true
	}
	defer l.unlock(id)
	if l.hangIfFaulty(sub) {
		return commandResult{noAnswer: true}, false
	}
	return op(), false
}

func (l *incarnation) tryLock(id, command string) (running string, free bool) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if running, taken := l.locks[id]; taken {
		return running, false
	}
	l.locks[id] = command
	return "", true
}

func (l *incarnation) unlock(id string) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	delete(l.locks, id)
}

func (l *incarnation) operate(req *bizRequest, sub subject, op func() commandResult) commandResult {
	id := ark.ID(sub.biz, sub.version)
	if req.Async {
		return l.operateAsync(req.RequestID.value, id, req, sub, op)
	}
	out, _ := l.withLock(id, sub, func() commandResult { return op() })
	return out
}

// uninstallCommand executes uninstallBiz (protocol 4.6).
func (l *incarnation) uninstallCommand(req *bizRequest) commandResult {
	return l.namedCommand(cmdUninstall, req, func(sub subject) commandResult {
		if l.isExpired(sub, req.BizModelVersion.value) {
			return rejectedResult(fmt.Sprintf("can not access biz because the command is expired. bizIdentity: %s, "+
				"bizModelVersion: %s", ark.ID(sub.biz, sub.version), req.BizModelVersion.value), "")
		}
		resp, ex := l.uninstall(sub)
		if ex != nil {
			return failedResult(ex)
		}
		return operationResult(resp, "uninstall biz not success!", fault.CodeNoMatchedBiz)
	})
}

// switchCommand executes switchBiz (protocol 4.6).
func (l *incarnation) switchCommand(req *bizRequest) commandResult {
	return l.namedCommand(cmdSwitch, req, func(sub subject) commandResult {
		return operationResult(l.switchTo(sub), "switch biz not success!", fault.CodeNoMatchedBiz)
	})
}

// namedCommand executes uninstallBiz or switchBiz, whose requests name a biz.
func (l *incarnation) namedCommand(command string, req *bizRequest, op func(subject) commandResult) commandResult {
	sub := subject{command: command}
	if req != nil {
		sub.biz, sub.version = req.BizName.value, req.BizVersion.value
	}
	return l.handle(sub, func() commandResult {
		switch {
		case req == nil:
			return exceptionResult(nullPointer(handlers[command], "getBizName()"))
		case blank(req.BizName):
			return exceptionResult(newValidationException(fault.CodeInvalidParameter, "bizName should not be blank"))
		case blank(req.BizVersion):
			return exceptionResult(newValidationException(fault.CodeInvalidParameter, "bizVersion should not be blank"))
		case bool(req.Async) && blank(req.RequestID):
			return exceptionResult(asyncWithoutID())
		}
		return l.operate(req, sub, func() commandResult { return op(sub) })
	})
}

// operationResult returns the command result for an operation. message is the message of a failed operation.
func operationResult(r clientResponse, message, notFoundCode string) commandResult {
	out := commandResult{data: r}
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

func (l *incarnation) switchTo(sub subject) clientResponse {
	id := ark.ID(sub.biz, sub.version)
	if l.b.faults.exceptionAt(stepFind, sub) != nil {
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

// queryAll executes queryAllBiz (protocol 4.7).
func (l *incarnation) queryAll() commandResult {
	sub := subject{command: cmdQueryAll}
	return l.query(sub, func() commandResult {
		if l.b.faults.exceptionAt(stepFind, sub) != nil {
			return rejectedResult("can not find biz", fault.CodeNoMatchedBiz)
		}
		return ok(l.reportedModules())
	})
}

// reportedModules returns the modules as the base reports them, including the effects of flapping and clockSkew faults.
func (l *incarnation) reportedModules() []Biz {
	l.b.mu.Lock()
	list := l.container.List()
	l.b.mu.Unlock()
	for i := range list {
		list[i] = l.asReported(list[i])
	}
	return list
}

func blank(t jsonString) bool { return strings.TrimSpace(t.value) == "" }

func asyncWithoutID() *exception {
	return newValidationException(fault.CodeInvalidParameter, "requestId should not be blank when async is true")
}

// handlers maps commands to the Java classes of their handlers.
var handlers = map[string]string{
	cmdInstall: "InstallBizHandler", cmdUninstall: "UninstallBizHandler", cmdSwitch: "SwitchBizHandler",
	cmdBatch: "BatchInstallBizHandler",
}

// nullPointer returns the NullPointerException of a handler that calls a method on a null request.
func nullPointer(handler, method string) *exception {
	return &exception{
		class: "java.lang.NullPointerException", code: fault.CodeInvalidParameter, fromArklet: true,
		detail: fmt.Sprintf(`Cannot invoke "com.alipay.sofa.koupleless.arklet.core.command.builtin.handler.%s$Input.%s" because "input" is null`,
			handler, method),
	}
}
