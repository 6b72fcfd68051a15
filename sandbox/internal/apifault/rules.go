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

// rules applies faults to the requests of controllers. The mutex of the embedded Set guards all fields.
type rules struct {
	*fault.Set
	// groupOf returns the group of bases that an object belongs to, or the empty string for objects without a group.
	groupOf func(namespace, name string) string
	// kill kills the controller with the given number.
	kill func(replica int)

	streams   []*stream
	upstreams map[int]*upstream // by controller number
	// lists contains the saved list responses of each oldList fault, by listKey. pendingRelists contains, for each
	// cutWatch fault with relist, the watches that the fault has cut. The fault rejects the next request for each of
	// these watches.
	lists          map[*fault.Active]map[string]*listResponse
	pendingRelists map[*fault.Active][]request
}

// upstream is the connection of one controller to the API server.
type upstream struct {
	next   http.RoundTripper
	valve  *valve.Valve
	writes map[string]*writes     // by group
	lists  map[string]listRequest // list requests sent by the controller, by listKey
}

// writes counts the writes to the objects of one group.
type writes struct {
	times map[string]int // number of writes by verb and resource
	last  time.Time      // time of the last write to an object other than a Lease
}

// listRequest is a recorded list request with its attributes.
type listRequest struct {
	request
	original *http.Request
}

func newRules(o Options) *rules {
	s := &rules{
		Set: o.Faults, groupOf: o.GroupOf, kill: o.Kill, upstreams: map[int]*upstream{},
		lists: map[*fault.Active]map[string]*listResponse{}, pendingRelists: map[*fault.Active][]request{},
	}
	s.OnEnded(v1alpha1.TargetAPI, s.onEnded)
	return s
}

func (s *rules) inEffect() iter.Seq[*fault.Active] { return s.InEffect(v1alpha1.TargetAPI) }

// matches reports whether a fault applies to a request from the controller with the number replica.
func matches(x *fault.Active, replica int, q *request) bool {
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
	// Lists and watches of all namespaces match. Other requests without a namespace are for cluster-scoped objects.
	case m.Namespace != "" && q.namespace == "" &&
		!slices.Contains([]string{"list", "watch", "deletecollection"}, q.verb):
		return false
	case len(m.Verbs) > 0 && !slices.Contains(m.Verbs, q.verb):
		return false
	}
	return m.Name == "" || q.name != "" && strings.HasPrefix(q.name, m.Name)
}

// isBlackHole reports whether a fault blocks all data of the controller with the number replica.
func isBlackHole(x *fault.Active, replica int) bool {
	return x.Fault.Kind == v1alpha1.APIBlackHole && x.Fault.ActsOn("", replica)
}

// actsOnEvents reports whether faults of the kind k act on watch events.
func actsOnEvents(k core.Kind) bool {
	return k == v1alpha1.APIHoldWatch || v1alpha1.TargetAPI.BeyondContract(k)
}

// setUpstream sets the transport and the valve of a controller's connection to the API server.
func (s *rules) setUpstream(replica int, next http.RoundTripper, v *valve.Valve) {
	s.Lock()
	defer s.Unlock()
	w := s.upstreams[replica]
	if w == nil {
		w = &upstream{writes: map[string]*writes{}, lists: map[string]listRequest{}}
		s.upstreams[replica] = w
	}
	w.next, w.valve = next, v
	s.updateValves()
}

// updateValves closes the valves of all controllers to which a blackHole fault applies, and opens all other valves.
func (s *rules) updateValves() {
	for n, w := range s.upstreams {
		closed := false
		for x := range s.inEffect() {
			closed = closed || isBlackHole(x, n)
		}
		w.valve.Set(closed)
	}
}

// record counts the request q if it is a write, and saves it if it is a list request that oldList faults can repeat.
func (s *rules) record(replica int, q *request, r *http.Request) {
	w := s.upstreams[replica]
	if q.isWrite() {
		w.count(s.groupOf(q.namespace, q.name), q.verb+" "+q.resourcePath(), 1, time.Now())
	}
	if allowsStale(r, q) && len(w.lists) < maxLists {
		w.lists[listKey(r)] = listRequest{*q, r.Clone(context.WithoutCancel(r.Context()))}
	}
}

func (w *upstream) count(group, what string, times int, last time.Time) {
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

// inject adds a valid fault and applies it to the open watches and connections.
func (s *rules) inject(ctx context.Context, i fault.Injection) (id string, err error) {
	var lists map[string]*listResponse
	if i.Kind == v1alpha1.APIOldList {
		lists, err = s.readLists(ctx, i)
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
		s.lists[x] = lists
	case kind == v1alpha1.APICutWatch:
		s.cutWatches(x)
	case kind == v1alpha1.APIBlackHole:
		s.updateValves()
	case actsOnEvents(kind):
		for _, open := range s.streams {
			if matches(x, open.replica, &open.request) {
				open.addFault(x)
			}
		}
	}
	return x.ID, nil
}

func (s *rules) onEnded(x *fault.Active) {
	delete(s.lists, x)
	delete(s.pendingRelists, x)
	for _, open := range s.streams {
		open.removeFault(x)
	}
	s.updateValves()
}

// cutWatches ends the open watches that match a fault.
func (s *rules) cutWatches(x *fault.Active) {
	for _, open := range s.streams {
		if !matches(x, open.replica, &open.request) {
			continue
		}
		open.cut()
		s.RecordTrigger(x, "", open.String())
		if x.Fault.Relist {
			s.pendingRelists[x] = append(s.pendingRelists[x], open.request)
		}
	}
	if len(s.pendingRelists[x]) == 0 {
		s.Finish(x)
	}
}

// takeRelist reports whether a watch request resumes a watch that the fault x has cut. It returns true once per cut
// watch.
func (s *rules) takeRelist(x *fault.Active, q *request) bool {
	i := slices.Index(s.pendingRelists[x], *q)
	if i < 0 {
		return false
	}
	s.pendingRelists[x] = slices.Delete(s.pendingRelists[x], i, i+1)
	return true
}

// readLists repeats the recorded list requests that match a fault, and returns the responses by listKey.
func (s *rules) readLists(ctx context.Context, i fault.Injection) (map[string]*listResponse, error) {
	type source struct {
		next     http.RoundTripper
		original *http.Request
	}
	sources := map[string]source{}
	s.Lock()
	for n, w := range s.upstreams {
		for key, l := range w.lists {
			if matches(&fault.Active{Fault: i}, n, &l.request) {
				sources[key] = source{w.next, l.original}
			}
		}
	}
	s.Unlock()
	lists := map[string]*listResponse{}
	size := 0
	for key, k := range sources {
		l, err := fetch(ctx, k.next, k.original)
		if err != nil {
			return nil, err
		}
		size += len(l.body)
		if size > maxListBytes {
			return nil, fmt.Errorf("the lists of %s are larger than %d MB in total", i.Match.Resource,
				maxListBytes>>20)
		}
		lists[key] = l
	}
	return lists, nil
}

// addStream registers an open watch, applies the matching faults to it, and starts to read its events. Faults that
// are set later also act on the watch until it is closed.
func (s *rules) addStream(open *stream) {
	open.onHeldEvent = func(open *stream, faults []*fault.Active) {
		s.Lock()
		defer s.Unlock()
		for _, x := range faults {
			if x.Ended == "" {
				s.RecordTrigger(x, "", "an event of the "+open.String())
			}
		}
	}
	open.onClose = func() {
		s.Lock()
		defer s.Unlock()
		s.streams = slices.DeleteFunc(s.streams, func(o *stream) bool { return o == open })
	}
	s.Lock()
	defer s.Unlock()
	s.streams = append(s.streams, open)
	for x := range s.inEffect() {
		if actsOnEvents(x.Fault.Kind) && matches(x, open.replica, &open.request) {
			open.addFault(x)
		}
	}
	open.start()
}

// resolveDrop records whether a request succeeded whose response the fault x drops. If the request failed, the fault
// stays armed for the next matching request.
func (s *rules) resolveDrop(x *fault.Active, q *request, succeeded bool) {
	s.Lock()
	defer s.Unlock()
	if succeeded {
		s.RecordTrigger(x, "", q.String())
	} else {
		x.CancelTrigger()
	}
}

// recordBlocked records that the blackHole faults of a controller have blocked data.
func (s *rules) recordBlocked(replica int) {
	s.Lock()
	defer s.Unlock()
	for x := range s.inEffect() {
		if isBlackHole(x, replica) {
			s.RecordTrigger(x, "", "a packet")
		}
	}
}

// forgetGroup adds the write counts of a group to the counts of objects without a group.
func (s *rules) forgetGroup(group string) {
	s.Lock()
	defer s.Unlock()
	for _, w := range s.upstreams {
		deleted := w.writes[group]
		if deleted == nil || group == "" {
			continue
		}
		delete(w.writes, group)
		for what, times := range deleted.times {
			w.count("", what, times, time.Time{})
		}
	}
}

func (s *rules) writesOf(group string) Writes {
	s.Lock()
	defer s.Unlock()
	v := Writes{By: map[int]map[string]int{}}
	for n, w := range s.upstreams {
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
