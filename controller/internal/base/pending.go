package base

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// overdue is how long an answer may take after a list that shows its result, because a list may overtake it.
const overdue = 5 * time.Second

// sendAgain is how long to wait for an answer over MQTT before a list is queried that shows whether the request has
// arrived: the pause of a base between two heartbeats (protocol 3.1).
const sendAgain = 10 * time.Second

// missedTwice is the time between two lists that must both not show a request before it is sent again. If both were
// delayed on their way, a base may send its list before it handles the request.
const missedTwice = time.Second

// pending is a request that waits for its answer.
type pending struct {
	answer chan reply
	unseen chan struct{} // its request is to be sent again
	// sooner is when to query the next list: the last one shows the result of the request, or does not show the
	// request.
	sooner chan time.Duration
	// look is true if the next list made at or after asked, on the clock of the base, shows whether the request has
	// arrived. misses is the number of lists that did not show it.
	look      bool
	asked     time.Time
	misses    int
	sentAgain bool
	before    arklet.State // of the module in the base's list when it was asked; empty = it was not there
	shown     time.Time    // since when the base's lists show the operation done; zero = the last one does not
}

// expect records a request. Call forget in the end.
func (d *RequestTracker) expect(identity string, q question) (p *pending, forget func(), err error) {
	s, _ := d.registry.Get(identity) // if it is not known, the question is not sent
	before, _ := s.Module(q.module.Name, q.module.Version)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, busy := d.waiting[identity][q]; busy {
		return nil, nil, fmt.Errorf("%s of %s on base %q is under way", q.command, q.module.Identity(),
			d.registry.DisplayName(identity))
	}
	if d.waiting[identity] == nil {
		d.waiting[identity] = map[question]*pending{}
	}
	p = &pending{answer: make(chan reply, 1), unseen: make(chan struct{}, 1), sooner: make(chan time.Duration, 1),
		before: before.State}
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

// mayBeLost makes the next list show whether a request has arrived. It returns false over HTTP, where the tunnel
// knows.
func (d *RequestTracker) mayBeLost(identity string, p *pending) bool {
	s, known := d.registry.Get(identity)
	if !known || s.Tunnel != tunnel.MQTT {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.look { // the list that was asked for then is late, or lost
		return true
	}
	p.look = true
	p.asked = s.ListedAt
	if !s.ListReceivedAt.IsZero() { // both are of the last list; bases tell whole milliseconds
		p.asked = s.ListedAt.Add(d.registry.opts.Clock.Since(s.ListReceivedAt)).Truncate(time.Millisecond)
	}
	return true
}

// HandleList compares a module list with the requests that wait, because a request or an answer may be lost while both
// sides stay connected. If the lists of 5 s show the result of a request, it gets a success. If there is no answer
// for 10 s and two lists show the module unchanged, the request is sent again, with doubling pauses: a base rejects a
// command that it is executing (protocol 4.8) or has executed. Failures are not in the list.
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
		case p.look && m.State == p.before && !s.ListedAt.Before(p.asked):
			p.look, p.shown = false, time.Time{}
			p.misses++
			if p.misses == 1 {
				offer(p.sooner, d.registry.opts.Speed.Of(missedTwice))
				continue
			}
			p.misses, p.sentAgain = 0, true
			p.unseen <- struct{}{}
		case !q.done(s, p.before):
			p.shown = time.Time{}
		case p.shown.IsZero():
			p.shown = now
			offer(p.sooner, d.registry.opts.Speed.Of(overdue))
		case now.Sub(p.shown) >= d.registry.opts.Speed.Of(overdue):
			offer(p.answer, reply{answer: arklet.Answer{
				Command: q.command, Module: q.module, PublishedAt: s.ListedAt, Code: arklet.CodeSuccess,
				Message: "no answer came, but the base's list shows that it was done",
			}})
		}
	}
}

// done reports whether a list shows the result of a request. before is the state of the module when it was sent.
func (q question) done(s Snapshot, before arklet.State) bool {
	m, there := s.Module(q.module.Name, q.module.Version)
	switch q.command {
	case arklet.CommandInstallBiz: // a base may keep a new version deactivated
		return m.State == arklet.StateActivated ||
			m.State == arklet.StateDeactivated && before != arklet.StateDeactivated
	case arklet.CommandSwitchBiz:
		return m.State == arklet.StateActivated
	case arklet.CommandUninstallBiz:
		return s.Modules != nil && !there
	default:
		return false
	}
}
