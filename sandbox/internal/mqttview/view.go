package mqttview

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

const (
	// told is how many firings of a rule are told one by one, but of those that last, of which the first
	// is; all are counted.
	told = 20
	// mostKnown is how many rules are remembered once they have ended.
	mostKnown = 1000
)

// Why a rule has ended.
const (
	usedUp   = "it has struck as often as it may"
	timeOver = "its time is over"
	cleared  = "cleared"
)

var (
	// ErrTwice is returned, wrapped, when a rule is set whose id another of its group has that has not
	// ended.
	ErrTwice = errors.New("there is a rule of that id already")
	// ErrUnknown is returned, wrapped, when there is and was no rule of an id.
	ErrUnknown = errors.New("there is none")
)

// Party is who a connection is of: a base, or else a controller.
type Party struct {
	// Base is its host name, and Group its group of bases; both are empty for a controller.
	Base, Group string
	// Replica is the number of a controller, from 1; 0 = a base, or nobody knows.
	Replica int
}

// Options of a View.
type Options struct {
	// Who tells whose an identity is, which client ids end with and topics name. It must not block, nor
	// call the View. Required.
	Who func(identity string) Party
	// Changed is told what the rules of a group do: that they are set, fire and end. It must not block.
	// Required.
	Changed func(group string, e timeline.Event)
	// Kill kills the n-th controller; 0 = all. It blocks until that has ended. Required.
	Kill func(n int)
}

// View disturbs what passes through its connections. Its methods may be called concurrently.
type View struct {
	o Options

	mu    sync.Mutex
	rules []*rule
	conns map[*conn]struct{}
}

// New returns a view without rules.
func New(o Options) *View { return &View{o: o, conns: map[*conn]struct{}{}} }

// Set sets a rule that has its defaults and is valid.
func (v *View) Set(s Status) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.ContainsFunc(v.rules, func(o *rule) bool { return o.live() && o.ID == s.ID && o.Group == s.Group }) {
		return fmt.Errorf("%s: %w", s.ID, ErrTwice)
	}
	if len(v.rules) >= mostKnown {
		v.rules = slices.DeleteFunc(v.rules, func(x *rule) bool { return !x.live() })
	}
	x := &rule{Status: s}
	v.rules = append(v.rules, x)
	x.timer = time.AfterFunc(s.For.Duration, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.end(x, timeOver)
	})
	v.tellAll(x, timeline.FaultSet, x.title())
	for c := range v.conns {
		v.arm(c)
		if x.Kind == v1alpha1.MQTTCut && c.known && x.meets(c.party) {
			v.fired(x, c.party, "a connection")
			c.shut()
		}
	}
	return nil
}

// Clear ends the rule of a group with an id, or all if it is *; with an empty group, those of any. One
// that has ended already is no error; ErrUnknown is returned, wrapped, for one that never was.
func (v *View) Clear(group, id string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := id == "*"
	for _, x := range v.rules {
		if (id == "*" || x.ID == id) && (group == "" || x.Group == group) {
			v.end(x, cleared)
			known = true
		}
	}
	if !known {
		return fmt.Errorf("rule %s: %w", id, ErrUnknown)
	}
	return nil
}

// Drop ends the rules of a group and forgets them.
func (v *View) Drop(group string) {
	_ = v.Clear(group, "*") // it knows *
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rules = slices.DeleteFunc(v.rules, func(x *rule) bool { return x.Group == group })
}

// Rules are those of a group that were set, ended ones too, the first first; of all groups if it is empty.
func (v *View) Rules(group string) []Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := []Status{}
	for _, x := range v.rules {
		if group == "" || x.Group == group {
			all = append(all, x.Status)
		}
	}
	return all
}

// arm has a connection be looked into if a rule is for it, and brings it in line with those that last.
func (v *View) arm(c *conn) {
	if c.identity == "" || !slices.ContainsFunc(v.rules, (*rule).live) {
		return
	}
	if !c.known {
		c.party, c.known = v.o.Who(c.identity), true
	}
	for _, l := range c.lanes() {
		held := false
		for _, x := range v.rules {
			if !x.live() || !x.meets(c.party) {
				continue
			}
			c.tapped.Store(true)
			held = held || x.Kind == v1alpha1.MQTTHold && x.in(l.direction)
		}
		l.hold(held)
	}
}

// end ends a rule, unless it has.
func (v *View) end(x *rule, why string) {
	if !x.live() {
		return
	}
	x.Ended = why
	x.timer.Stop()
	for c := range v.conns {
		for _, l := range c.lanes() {
			l.hold(slices.ContainsFunc(v.rules, func(o *rule) bool {
				return o.live() && o.Kind == v1alpha1.MQTTHold && o.in(l.direction) && c.known && o.meets(c.party)
			}))
		}
		if x.Kind == v1alpha1.MQTTHalfOpen && x.lost[c] {
			c.shut()
		}
	}
	x.lost = nil
	v.tellAll(x, timeline.FaultCleared, fmt.Sprintf("%s; fired %d times: %s", x.title(), x.Fired, why))
}

// fired counts, tells, and ends the rule when it may do no more.
func (v *View) fired(x *rule, by Party, what string) {
	x.Fired++
	most := told
	if x.Kind.Lasts() {
		most = 1
	}
	if x.Fired <= most {
		v.tell(x, by.Base, timeline.FaultFired, what)
	}
	if x.Count > 0 && x.Fired >= x.Count {
		v.end(x, usedUp)
	}
}

// tellAll tells something of each base that a rule is for.
func (v *View) tellAll(x *rule, change timeline.FaultChange, message string) {
	if len(x.Bases) == 0 {
		v.tell(x, "", change, message)
	}
	for _, base := range x.Bases {
		v.tell(x, base, change, message)
	}
}

func (v *View) tell(x *rule, base string, change timeline.FaultChange, message string) {
	v.o.Changed(x.Group, timeline.Event{
		Time: time.Now(), Kind: timeline.MQTT, Name: x.ID, Base: strings.TrimPrefix(base, x.Group+"-"), State: string(change), Code: string(x.Kind), Message: message,
	})
}
