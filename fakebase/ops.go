package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// States of an asynchronous command (protocol 4.8).
const (
	opsInitialized = "INITIALIZED"
	opsExecuting   = "EXECUTING"
	opsSucceeded   = "SUCCEEDED"
	opsFailed      = "FAILED"
)

// processRecord is the record of an asynchronous command. The base keeps it until the process ends. The mutex of the
// base guards the record.
type processRecord struct {
	requestID string
	meta      any // the request of the command
	status    string
	thread    string
	thrown    *exception
	code      string
	message   string
	start     time.Time
	end       time.Time // end time; zero = the command is running
}

// operateAsync starts an asynchronous command. It returns the record of the command without waiting for the result.
func (l *incarnation) operateAsync(requestID, id string, req any, sub subject, op func() commandResult) commandResult {
	r := &processRecord{requestID: requestID, meta: req, status: opsInitialized, start: l.now(),
		thread: "arklet-async-" + requestID}
	l.b.mu.Lock()
	if _, known := l.ops[requestID]; known {
		l.b.mu.Unlock()
		return rejectedResult("The request corresponding to the requestId("+requestID+") has been executed.",
			fault.CodeInvalidParameter)
	}
	l.ops[requestID] = r
	snapshot := *r
	l.b.mu.Unlock()
	l.async.submit(func() { l.execute(r, id, sub, op) })
	return ok(snapshot)
}

func (l *incarnation) execute(r *processRecord, id string, sub subject, op func() commandResult) {
	out, conflict := l.withLock(id, sub, func() commandResult {
		l.b.mu.Lock()
		r.status = opsExecuting
		l.b.mu.Unlock()
		return op()
	})
	if out.noAnswer {
		return
	}
	now := l.now()
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	r.end = now
	switch {
	case conflict:
		r.message, r.code = "command conflict, exist unfinished command for this biz", out.code
		if l.b.opts.Faithful {
			// As a real base: only a record in the state EXECUTING can fail, and the lock of the running command is
			// released.
			delete(l.locks, id)
		} else {
			r.status = opsFailed
		}
	case out.exception != nil:
		r.status, r.thrown, r.message, r.code = opsFailed, out.exception, out.exception.message(), out.code
	default:
		r.status = opsSucceeded
		if out.failed {
			r.status, r.message, r.code = opsFailed, out.message, out.code
		}
	}
}

// queryOps executes queryBizOps (protocol 4.8).
func (l *incarnation) queryOps(req *opsRequest) commandResult {
	return l.query(subject{command: cmdQueryOps}, func() commandResult {
		switch {
		case req == nil:
			return exceptionResult(newValidationException(fault.CodeInvalidParameter, "request is null"))
		case blank(req.RequestID):
			return exceptionResult(newValidationException(fault.CodeInvalidParameter, "requestId is blank"))
		}
		l.b.mu.Lock()
		defer l.b.mu.Unlock()
		r, known := l.ops[req.RequestID.value]
		if !known {
			return rejectedResult("Not found the corresponding ops record.", fault.CodeInvalidParameter)
		}
		return ok(*r)
	})
}
