package base

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// answerDelay is how long to wait for an answer after a module list shows the result of the request. The answer may
// arrive later than the list.
const answerDelay = 5 * time.Second

// resendDelay is how long to wait for an answer over MQTT before querying a module list. The list shows whether the
// base received the request. The delay is the heartbeat interval of a base (protocol 3.2).
const resendDelay = 10 * time.Second

// relistDelay is how long to wait before querying a second module list when the first one does not show the request.
// The request is resent only if both lists lack it, because a delayed base may have listed its modules before it
// handled the request.
const relistDelay = time.Second

// pending is a request for which the base has not answered yet.
type pending struct {
	answer chan reply
	resend chan struct{} // receives a value when the request must be resent
	// relist receives the delay before the next module list query. A value is sent after a list that shows the result
	// of the request, and after a list that does not show the request.
	relist chan time.Duration
	// checkList is true while module lists are checked for the request. The check uses only lists that the base made
	// at or after listedAfter, on the clock of the base. missedLists is the number of lists that did not show the
	// request.
	checkList   bool
	listedAfter time.Time
	missedLists int
	resent      bool
	stateBefore arklet.State // state of the module in the last module list before the request; empty if not listed
	// time when the first module list that shows the result arrived; zero if the latest module list does not show the
	// result
	doneSince time.Time
}

// expect records a pending request. The caller must call forget when it stops waiting.
func (d *RequestTracker) expect(identity string, q commandKey) (p *pending, forget func(), err error) {
	s, _ := d.registry.Get(identity) // send returns an error for an unknown base
	before, _ := s.Module(q.module.Name, q.module.Version)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, busy := d.waiting[identity][q]; busy {
		return nil, nil, fmt.Errorf("%s of %s on base %q is already in progress", q.command, q.module.Identity(),
			d.registry.DisplayName(identity))
	}
	if d.waiting[identity] == nil {
		d.waiting[identity] = map[commandKey]*pending{}
	}
	p = &pending{answer: make(chan reply, 1), resend: make(chan struct{}, 1), relist: make(chan time.Duration, 1),
		stateBefore: before.State}
	d.waiting[identity][q] = p
	return p, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting[identity], q)
		if len(d.waiting[identity]) == 0 {
			delete(d.waiting, identity)
		}
	}, nil
}

// requestListCheck makes HandleList check whether the next module list shows the request. It returns false over HTTP,
// because the HTTP tunnel itself reports lost requests.
func (d *RequestTracker) requestListCheck(identity string, p *pending) bool {
	s, known := d.registry.Get(identity)
	if !known || s.Tunnel != tunnel.MQTT {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.checkList { // the previous list is late or lost
		return true
	}
	p.checkList = true
	p.listedAfter = s.ListedAt
	if !s.ListReceivedAt.IsZero() { // convert the current time to the clock of the base, which reports milliseconds
		p.listedAfter = s.ListedAt.Add(d.registry.opts.Clock.Since(s.ListReceivedAt)).Truncate(time.Millisecond)
	}
	return true
}

// HandleList compares a new module list with the pending requests, because a request or an answer can be lost while
// both sides stay connected. A request succeeds if lists show its result for 5 s. A request is resent, with doubling
// delays, if there is no answer for 10 s and two lists show the module unchanged. Resending is safe, because a base
// rejects a command that it is executing (protocol 4.8) or has executed. Lists do not show failures.
func (d *RequestTracker) HandleList(identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting[identity]) == 0 {
		return
	}
	s, _ := d.registry.Get(identity)
	now := d.registry.opts.Clock.Now()
	for q, p := range d.waiting[identity] {
		m, _ := s.Module(q.module.Name, q.module.Version)
		switch {
		case p.checkList && m.State == p.stateBefore && !s.ListedAt.Before(p.listedAfter):
			p.checkList, p.doneSince = false, time.Time{}
			p.missedLists++
			if p.missedLists == 1 {
				offer(p.relist, d.registry.opts.TimeScale.Of(relistDelay))
				continue
			}
			p.missedLists, p.resent = 0, true
			p.resend <- struct{}{}
		case !q.isConfirmedBy(s, p.stateBefore):
			p.doneSince = time.Time{}
		case p.doneSince.IsZero():
			p.doneSince = now
			offer(p.relist, d.registry.opts.TimeScale.Of(answerDelay))
		case now.Sub(p.doneSince) >= d.registry.opts.TimeScale.Of(answerDelay):
			offer(p.answer, reply{answer: arklet.Answer{
				Command: q.command, Module: q.module, PublishedAt: s.ListedAt, Code: arklet.CodeSuccess,
				Message: "no answer arrived, but the module list of the base shows the result",
			}})
		}
	}
}

// isConfirmedBy reports whether a module list shows the result of a request. stateBefore is the state of the module
// in the last list before the request.
func (q commandKey) isConfirmedBy(s Snapshot, stateBefore arklet.State) bool {
	m, listed := s.Module(q.module.Name, q.module.Version)
	switch q.command {
	case arklet.CommandInstallBiz: // a base may keep a new version deactivated
		return m.State == arklet.StateActivated ||
			m.State == arklet.StateDeactivated && stateBefore != arklet.StateDeactivated
	case arklet.CommandSwitchBiz:
		return m.State == arklet.StateActivated
	case arklet.CommandUninstallBiz:
		return s.Modules != nil && !listed
	default:
		return false
	}
}
