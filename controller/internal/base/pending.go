package base

import (
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// overdue is how long an answer may take after a list that shows the operation done: a list may
// overtake it.
const overdue = 5 * time.Second

// sendAgain is how long there is no answer over MQTT before a list is asked for, which shows whether
// the request has arrived: as long as a base's pause between two heartbeats (protocol 3.1).
const sendAgain = 10 * time.Second

// missedTwice is how long after a list that does not show a request another one is asked for. Only then is it
// sent again: where both were held up on their way, a base may make its list before it takes the request up.
const missedTwice = time.Second

// pending is a question that waits for its answer.
type pending struct {
	answer chan reply
	unseen chan struct{} // its request is to be sent again
	// sooner is when another list is to be asked for: one has shown it done while its answer is late or lost, or
	// has not shown that it has arrived.
	sooner chan time.Duration
	// look says that the next list tells whether the request has arrived, if it was made not before asked, by the
	// clock of the base; misses is how many lists have not shown it.
	look   bool
	asked  time.Time
	misses int
	// sentAgain says that it has been sent more than once.
	sentAgain bool
	before    arklet.State // of the module in the base's list when it was asked; empty = it was not there
	shown     time.Time    // since when the base's lists show the operation done; zero = the last one does not
}

// expect notes a question. Call forget in the end.
func (d *Dialog) expect(identity string, q question) (p *pending, forget func(), err error) {
	s, _ := d.registry.Get(identity) // if it is not known, the question is not sent
	before, _ := s.Module(q.module.Name, q.module.Version)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, busy := d.waiting[identity][q]; busy {
		return nil, nil, fmt.Errorf("%s of %s on base %q is under way", q.command, q.module.Identity(), d.registry.Called(identity))
	}
	if d.waiting[identity] == nil {
		d.waiting[identity] = map[question]*pending{}
	}
	p = &pending{answer: make(chan reply, 1), unseen: make(chan struct{}, 1), sooner: make(chan time.Duration, 1), before: before.State}
	d.waiting[identity][q] = p
	return p, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if delete(d.waiting[identity], q); len(d.waiting[identity]) == 0 {
			delete(d.waiting, identity)
		}
	}, nil
}

// mayBeLost has the list that is asked for now tell whether a request has arrived; one that was on its way
// already may be older than the request. Over HTTP the tunnel knows.
func (d *Dialog) mayBeLost(identity string, p *pending) bool {
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
	if p.asked = s.ListedAt; !s.HeardAt.IsZero() { // both are of the last list; bases tell whole milliseconds
		p.asked = s.ListedAt.Add(d.registry.opts.Clock.Since(s.HeardAt)).Truncate(time.Millisecond)
	}
	return true
}

// Listed compares a base's new list with what it has been asked for. A request or its answer can be
// lost on its way while the controller notices nothing, as when a base alone loses its connection
// for a moment. If the lists of 5 s show that the operation was done, the last of them over MQTT asked for, whoever
// waits gets a success that says so, and does not wait until his time is over. If there was no answer for 10 s and two lists
// that were asked for then show the module as it was, the request is sent again, and again after twice the pause: a base does
// nothing twice, since it refuses what it is at (protocol 4.8) and what it has done. What failed
// shows in no list.
func (d *Dialog) Listed(identity string) {
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
			if p.misses++; p.misses == 1 {
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

// done tells whether a base's list shows that what was asked has been done; before is the module's
// state then.
func (q question) done(s Snapshot, before arklet.State) bool {
	m, there := s.Module(q.module.Name, q.module.Version)
	switch q.command {
	case arklet.CommandInstallBiz: // a base may keep a new version deactivated
		return m.State == arklet.StateActivated || m.State == arklet.StateDeactivated && before != arklet.StateDeactivated
	case arklet.CommandSwitchBiz:
		return m.State == arklet.StateActivated
	case arklet.CommandUninstallBiz:
		return s.Modules != nil && !there
	default:
		return false
	}
}
