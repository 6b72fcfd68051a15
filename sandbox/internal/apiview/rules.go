package apiview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/valve"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

const (
	// told is how many firings of a rule are told one by one, but for those that happen all the time,
	// of which the first is; all are counted.
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

// ErrTwice is returned, wrapped, when a rule is set whose id another has that has not ended.
var ErrTwice = errors.New("there is a rule of that id already")

// rules are all rules of a sandbox.
type rules struct {
	// changed is told what rules do, and whose they are, with mu held.
	changed func(group string, e timeline.Event)
	// groupOf tells whose objects are; empty = nobody's.
	groupOf func(namespace, name string) string
	// kill kills a controller by its number.
	kill func(replica int)

	mu      sync.Mutex
	all     []*rule
	streams []*stream
	ways    map[int]*way // by the number of the controller
}

// way is that of one controller to the API server.
type way struct {
	next   http.RoundTripper
	valve  *valve.Valve
	writes map[string]*writes // by group
	lists  map[string]asked   // that it has read, by key
}

// writes are those to the objects of one group.
type writes struct {
	times map[string]int // by verb and resource
	last  time.Time      // of anything but a Lease
}

// asked is a request, and what it is about.
type asked struct {
	request
	as *http.Request
}

func newRules(o Options) *rules {
	return &rules{changed: o.Changed, groupOf: o.GroupOf, kill: o.Kill, ways: map[int]*way{}}
}

// lead notes the way of a controller, which it has from now on.
func (s *rules) lead(replica int, next http.RoundTripper, v *valve.Valve) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.ways[replica]
	if w == nil {
		w = &way{writes: map[string]*writes{}, lists: map[string]asked{}}
		s.ways[replica] = w
	}
	w.next, w.valve = next, v
	s.shut()
}

// shut shuts the ways that a rule makes black holes, and opens the others.
func (s *rules) shut() {
	for n, w := range s.ways {
		w.valve.Set(slices.ContainsFunc(s.live(), func(x *rule) bool { return x.swallows(n) }))
	}
}

// live are the rules that have not ended, the first first.
func (s *rules) live() []*rule {
	return slices.DeleteFunc(slices.Clone(s.all), func(x *rule) bool { return !x.live() })
}

// note counts writes, and remembers which lists a controller reads.
func (s *rules) note(replica int, q *request, r *http.Request) {
	w := s.ways[replica]
	if q.writes() {
		w.count(s.groupOf(q.namespace, q.name), q.verb+" "+q.what(), 1, time.Now())
	}
	if old(r, q) && len(w.lists) < mostLists {
		w.lists[listKey(r)] = asked{*q, r.Clone(context.WithoutCancel(r.Context()))}
	}
}

// count counts writes to objects of a group.
func (w *way) count(group, what string, times int, last time.Time) {
	of := w.writes[group]
	if of == nil {
		of = &writes{times: map[string]int{}}
		w.writes[group] = of
	}
	of.times[what] += times
	if !strings.HasSuffix(what, " leases") && last.After(of.last) {
		of.last = last
	}
}

// set sets a rule that has been checked.
func (s *rules) set(ctx context.Context, r Status) error {
	x := &rule{Status: r}
	if r.Kind == v1alpha1.APIOldList {
		if err := s.keep(ctx, x); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.live(), func(o *rule) bool { return o.ID == r.ID && o.Group == r.Group }) {
		return fmt.Errorf("%s: %w", r.ID, ErrTwice)
	}
	if len(s.all) >= mostKnown {
		s.all = s.live()
	}
	s.all = append(s.all, x)
	x.timer = time.AfterFunc(r.For.Duration, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.end(x, timeOver)
	})
	s.tell(x, timeline.FaultSet, x.title())
	switch x.Kind {
	case v1alpha1.APIHoldWatch, v1alpha1.APILoseEvents, v1alpha1.APIDoubleEvents, v1alpha1.APIReorderEvents:
		for _, open := range s.streams {
			if x.meets(open.replica, &open.request) {
				open.hold(x)
			}
		}
	case v1alpha1.APICutWatch:
		s.cut(x)
	case v1alpha1.APIBlackHole:
		s.shut()
	}
	return nil
}

// cut ends the watches that a rule meets.
func (s *rules) cut(x *rule) {
	for _, open := range s.streams {
		if !x.meets(open.replica, &open.request) {
			continue
		}
		open.cut()
		s.fired(x, open.String())
		if x.Relist {
			x.gone = append(x.gone, open.request)
		}
	}
	if len(x.gone) == 0 {
		s.end(x, usedUp)
	}
}

// forgets tells whether a watch is the next one of a watch that was cut.
func (r *rule) forgets(q *request) bool {
	i := slices.Index(r.gone, *q)
	if i < 0 {
		return false
	}
	r.gone = slices.Delete(r.gone, i, i+1)
	return true
}

// keep reads the lists that a rule is to show later.
func (s *rules) keep(ctx context.Context, x *rule) error {
	type known struct {
		next http.RoundTripper
		as   *http.Request
	}
	all := map[string]known{}
	s.mu.Lock()
	for n, w := range s.ways {
		for key, l := range w.lists {
			if x.meets(n, &l.request) {
				all[key] = known{w.next, l.as}
			}
		}
	}
	s.mu.Unlock()
	x.lists = map[string]*list{}
	size := 0
	for key, k := range all {
		l, err := fetch(ctx, k.next, k.as)
		if err != nil {
			return err
		}
		if size += len(l.body); size > mostKept {
			return fmt.Errorf("the lists of %s have more than %d MB: too much to keep", x.Resource, mostKept>>20)
		}
		x.lists[key] = l
	}
	return nil
}

// follow has the rules hold a watch, or cut it, until nobody reads it.
func (s *rules) follow(open *stream) {
	open.kept = func(open *stream, by []*rule) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, x := range by {
			if x.live() {
				s.fired(x, "an event of the "+open.String())
			}
		}
	}
	open.done = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.streams = slices.DeleteFunc(s.streams, func(o *stream) bool { return o == open })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams = append(s.streams, open)
	for _, x := range s.live() {
		if (x.Kind == v1alpha1.APIHoldWatch || x.Kind.BeyondContract()) && x.meets(open.replica, &open.request) {
			open.hold(x)
		}
	}
	open.start()
}

// lost notes whether a write was done whose answer is to be lost. One that was not may be another.
func (s *rules) lost(x *rule, q *request, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !done {
		x.struck--
		return
	}
	s.fired(x, q.String())
}

// stopped notes that something of a controller had to wait in a black hole.
func (s *rules) stopped(replica int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.live() {
		if x.swallows(replica) {
			s.fired(x, "a packet")
		}
	}
}

// fired counts, and ends the rule when it may do no more.
func (s *rules) fired(x *rule, what string) {
	x.Fired++
	most := told
	if x.Kind.Lasts() || x.Kind == v1alpha1.APIDelay {
		most = 1
	}
	if x.Fired <= most {
		s.tell(x, timeline.FaultFired, what)
	}
	if x.Count > 0 && x.Fired >= x.Count {
		s.end(x, usedUp)
	}
}

// end ends a rule, unless it has.
func (s *rules) end(x *rule, why string) {
	if !x.live() {
		return
	}
	x.Ended, x.lists = why, nil
	x.timer.Stop()
	for _, open := range s.streams {
		open.release(x)
	}
	s.shut()
	s.tell(x, timeline.FaultCleared, fmt.Sprintf("%s; fired %d times: %s", x.title(), x.Fired, why))
}

func (s *rules) tell(x *rule, change timeline.FaultChange, message string) {
	s.changed(x.Group, timeline.Event{Time: time.Now(), Kind: timeline.API, Name: x.ID, State: string(change), Code: string(x.Kind), Message: message})
}

// clear ends the rules of which is is true, and tells whether there are any, ended or not.
func (s *rules) clear(is func(*rule) bool) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all {
		if is(x) {
			s.end(x, cleared)
			known = true
		}
	}
	return known
}

// forget drops the rules of a group that have ended, and whose writes were its.
func (s *rules) forget(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(x *rule) bool { return x.Group == group && !x.live() })
	for _, w := range s.ways {
		gone := w.writes[group]
		if gone == nil || group == "" {
			continue
		}
		delete(w.writes, group)
		for what, times := range gone.times {
			w.count("", what, times, time.Time{})
		}
	}
}

func (s *rules) view(group string) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := View{Rules: []Status{}, Writes: map[int]map[string]int{}}
	for _, x := range s.all {
		if group == "" || x.Group == group {
			v.Rules = append(v.Rules, x.Status)
		}
	}
	for n, w := range s.ways {
		v.Writes[n] = map[string]int{}
		for of, x := range w.writes {
			if group != "" && of != "" && of != group {
				continue
			}
			for what, times := range x.times {
				v.Writes[n][what] += times
			}
			if x.last.After(v.Wrote) {
				v.Wrote = x.last
			}
		}
	}
	return v
}
