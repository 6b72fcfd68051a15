package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// The states of an asynchronous command (protocol 4.8).
const (
	opsInitialized = "INITIALIZED"
	opsExecuting   = "EXECUTING"
	opsSucceeded   = "SUCCEEDED"
	opsFailed      = "FAILED"
)

// processRecord is what is known of an asynchronous command. It is kept as
// long as the process lives, guarded by the base's mutex.
type processRecord struct {
	requestID string
	meta      any // the request, echoed
	status    string
	thread    string
	thrown    *exception
	code      string
	message   string
	start     time.Time
	end       time.Time // zero = not done
}

// operateAsync starts a command and answers with its record at once.
func (l *life) operateAsync(requestID, id string, req any, sub subject, op func() outcome) outcome {
	r := &processRecord{requestID: requestID, meta: req, status: opsInitialized, start: l.now(),
		thread: "arklet-async-" + requestID}
	l.b.mu.Lock()
	if _, known := l.ops[requestID]; known {
		l.b.mu.Unlock()
		return failed("The request corresponding to the requestId("+requestID+") has been executed.",
			fault.CodeInvalidParameter)
	}
	l.ops[requestID] = r
	snapshot := *r
	l.b.mu.Unlock()
	l.async.submit(func() { l.execute(r, id, sub, op) })
	return ok(snapshot)
}

func (l *life) execute(r *processRecord, id string, sub subject, op func() outcome) {
	out, conflict := l.exclusively(id, sub, func() outcome {
		l.b.mu.Lock()
		r.status = opsExecuting
		l.b.mu.Unlock()
		return op()
	})
	if out.gone {
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
			// A record may fail only while it executes, and the lock that is let
			// go is that of the command which runs.
			delete(l.locks, id)
		} else {
			r.status = opsFailed
		}
	case out.thrown != nil:
		r.status, r.thrown, r.message, r.code = opsFailed, out.thrown, out.thrown.message(), out.code
	default:
		r.status = opsSucceeded
		if out.failed {
			r.status, r.message, r.code = opsFailed, out.message, out.code
		}
	}
}

// queryOps is queryBizOps (protocol 4.8).
func (l *life) queryOps(req *opsRequest) outcome {
	return l.query(subject{command: cmdQueryOps}, func() outcome {
		switch {
		case req == nil:
			return thrownOutcome(invalid(fault.CodeInvalidParameter, "request is null"))
		case blank(req.RequestID):
			return thrownOutcome(invalid(fault.CodeInvalidParameter, "requestId is blank"))
		}
		l.b.mu.Lock()
		defer l.b.mu.Unlock()
		r, known := l.ops[req.RequestID.value]
		if !known {
			return failed("Not found the corresponding ops record.", fault.CodeInvalidParameter)
		}
		return ok(*r)
	})
}
