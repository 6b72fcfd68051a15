package apifault

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	core "github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/valve"
)

// rules are what the faults do to the requests of controllers. The mutex of the faults guards it.
type rules struct {
	*fault.Set
	// groupOf returns the group of bases that an object belongs to; empty = none.
	groupOf func(namespace, name string) string
	// kill kills a controller by its number.
	kill func(replica int)

	streams []*stream
	ways    map[int]*way // by the number of the controller
	// lists are those that an oldList answers with, by key; cutAgain the watches whose next one a cutWatch refuses.
	lists    map[*fault.Active]map[string]*list
	cutAgain map[*fault.Active][]request
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
	s := &rules{
		Set: o.Faults, groupOf: o.GroupOf, kill: o.Kill, ways: map[int]*way{},
		lists: map[*fault.Active]map[string]*list{}, cutAgain: map[*fault.Active][]request{},
	}
	s.OnEnded(v1alpha1.TargetAPI, s.ended)
	return s
}

func (s *rules) live() iter.Seq[*fault.Active] { return s.InEffect(v1alpha1.TargetAPI) }

// meets reports whether a fault is about a request of a controller.
func meets(x *fault.Active, replica int, q *request) bool {
	m := &x.Fault.Match
	if !x.Fault.ActsOn("", replica) || q.verb == "" {
		return false
	}
	resource, subresource, one := strings.Cut(m.Resource, "/")
	switch {
	case m.Resource != "" && resource != q.resource, one && subresource != q.subresource:
		return false
	case m.Namespace != "" && q.namespace != "" && m.Namespace != q.namespace:
		return false
		// it has no namespace
	case m.Namespace != "" && q.namespace == "" &&
		!slices.Contains([]string{"list", "watch", "deletecollection"}, q.verb):
		return false
	case len(m.Verbs) > 0 && !slices.Contains(m.Verbs, q.verb):
		return false
	}
	return m.Name == "" || q.name != "" && strings.HasPrefix(q.name, m.Name)
}

// swallows reports whether a fault makes the connections of a controller a black hole.
func swallows(x *fault.Active, replica int) bool {
	return x.Fault.Kind == v1alpha1.APIBlackHole && x.Fault.ActsOn("", replica)
}

// watches reports whether faults of the kind act on the events of watches.
func watches(k core.Kind) bool {
	return k == v1alpha1.APIHoldWatch || v1alpha1.TargetAPI.BeyondContract(k)
}

// lead notes the way of a controller, which it has from now on.
func (s *rules) lead(replica int, next http.RoundTripper, v *valve.Valve) {
	s.Lock()
	defer s.Unlock()
	w := s.ways[replica]
	if w == nil {
		w = &way{writes: map[string]*writes{}, lists: map[string]asked{}}
		s.ways[replica] = w
	}
	w.next, w.valve = next, v
	s.shut()
}

// shut shuts the ways that a fault makes black holes, and opens the others.
func (s *rules) shut() {
	for n, w := range s.ways {
		shut := false
		for x := range s.live() {
			shut = shut || swallows(x, n)
		}
		w.valve.Set(shut)
	}
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

// set sets a fault that has been checked.
func (s *rules) set(ctx context.Context, i fault.Injection) (id string, err error) {
	var kept map[string]*list
	if i.Kind == v1alpha1.APIOldList {
		kept, err = s.keep(ctx, i)
		if err != nil {
			return "", err
		}
	}
	s.Lock()
	defer s.Unlock()
	x, err := s.Add(i)
	if err != nil {
		return "", err
	}
	switch kind := x.Fault.Kind; {
	case kind == v1alpha1.APIOldList:
		s.lists[x] = kept
	case kind == v1alpha1.APICutWatch:
		s.cut(x)
	case kind == v1alpha1.APIBlackHole:
		s.shut()
	case watches(kind):
		for _, open := range s.streams {
			if meets(x, open.replica, &open.request) {
				open.hold(x)
			}
		}
	}
	return x.ID, nil
}

func (s *rules) ended(x *fault.Active) {
	delete(s.lists, x)
	delete(s.cutAgain, x)
	for _, open := range s.streams {
		open.release(x)
	}
	s.shut()
}

// cut ends the watches that a fault meets.
func (s *rules) cut(x *fault.Active) {
	for _, open := range s.streams {
		if !meets(x, open.replica, &open.request) {
			continue
		}
		open.cut()
		s.RecordTrigger(x, "", open.String())
		if x.Fault.Relist {
			s.cutAgain[x] = append(s.cutAgain[x], open.request)
		}
	}
	if len(s.cutAgain[x]) == 0 {
		s.Finish(x)
	}
}

// refuses reports whether a watch is the next one of a watch that was cut.
func (s *rules) refuses(x *fault.Active, q *request) bool {
	i := slices.Index(s.cutAgain[x], *q)
	if i < 0 {
		return false
	}
	s.cutAgain[x] = slices.Delete(s.cutAgain[x], i, i+1)
	return true
}

// keep reads the lists that a fault is to show later.
func (s *rules) keep(ctx context.Context, i fault.Injection) (map[string]*list, error) {
	type known struct {
		next http.RoundTripper
		as   *http.Request
	}
	all := map[string]known{}
	s.Lock()
	for n, w := range s.ways {
		for key, l := range w.lists {
			if meets(&fault.Active{Fault: i}, n, &l.request) {
				all[key] = known{w.next, l.as}
			}
		}
	}
	s.Unlock()
	lists := map[string]*list{}
	size := 0
	for key, k := range all {
		l, err := fetch(ctx, k.next, k.as)
		if err != nil {
			return nil, err
		}
		size += len(l.body)
		if size > mostKept {
			return nil, fmt.Errorf("the lists of %s have more than %d MB: too much to keep", i.Match.Resource,
				mostKept>>20)
		}
		lists[key] = l
	}
	return lists, nil
}

// follow has the faults hold a watch, or cut it, until nobody reads it.
func (s *rules) follow(open *stream) {
	open.kept = func(open *stream, by []*fault.Active) {
		s.Lock()
		defer s.Unlock()
		for _, x := range by {
			if x.Ended == "" {
				s.RecordTrigger(x, "", "an event of the "+open.String())
			}
		}
	}
	open.done = func() {
		s.Lock()
		defer s.Unlock()
		s.streams = slices.DeleteFunc(s.streams, func(o *stream) bool { return o == open })
	}
	s.Lock()
	defer s.Unlock()
	s.streams = append(s.streams, open)
	for x := range s.live() {
		if watches(x.Fault.Kind) && meets(x, open.replica, &open.request) {
			open.hold(x)
		}
	}
	open.start()
}

// answered notes whether a write was done whose answer is to be lost. If it was not, another one may be.
func (s *rules) answered(x *fault.Active, q *request, done bool) {
	s.Lock()
	defer s.Unlock()
	if done {
		s.RecordTrigger(x, "", q.String())
	} else {
		x.CancelTrigger()
	}
}

// stopped notes that something of a controller had to wait in a black hole.
func (s *rules) stopped(replica int) {
	s.Lock()
	defer s.Unlock()
	for x := range s.live() {
		if swallows(x, replica) {
			s.RecordTrigger(x, "", "a packet")
		}
	}
}

// forget counts the writes of a group as nobody's.
func (s *rules) forget(group string) {
	s.Lock()
	defer s.Unlock()
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

func (s *rules) written(group string) Writes {
	s.Lock()
	defer s.Unlock()
	v := Writes{By: map[int]map[string]int{}}
	for n, w := range s.ways {
		v.By[n] = map[string]int{}
		for of, x := range w.writes {
			if group != "" && of != "" && of != group {
				continue
			}
			for what, times := range x.times {
				v.By[n][what] += times
			}
			if x.last.After(v.Last) {
				v.Last = x.last
			}
		}
	}
	return v
}
