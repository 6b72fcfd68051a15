package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// truthCheck compares what Kubernetes shows with what bases serve: a Pod that is Ready and stays,
// and an endpoint that is ready, must have each of its modules active, in its version.
//
// Each mismatch is reported with its length. It counts from the moment at which the controller
// can know of it at the latest, by the next list or by what the base says itself:
//   - a module that a command took away, or that was not there yet: at once, the answer tells;
//   - one that is gone although nobody was told: within Options.listed, by the next list, or by the answer to
//     the install of another version that is under way. With the
//     defaults 15 s, a tenth of it by which lists are spread, and a sweep of 1 s make 17.5 s;
//   - the end of the base's process: within Options.silent, by its silence, 25 s and a sweep; or,
//     when it is back under its identity, within Options.listed of its first word.
//
// An endpoint that turns ready while its Pod is Ready without the module counts from the same moment
// as the Pod: Kubernetes makes endpoints of what Pods say, at its own pace. So a request that is lost after the Pod has
// turned Not Ready is none of the controller's, unless its command took the module away.
//
// It is a violation if it goes on for longer than Options.TruthWithin from then, or, as long as
// another version serves, than Options.SwitchWithin, and than overtakenFor besides where no Pod that
// stays wants that one: a release has overtaken it, and what comes instead is being installed; or if a
// request to this base for what is missing was lost in that time, but by a timeout, which says nothing of a module: the
// machine may have stood still. By the defaults a Pod is so never Ready for more than 27 s on a base
// that has died, and for more than 18.5 s on one that has lost its module.
//
// Time does not count in which a component was away, and until it can have caught up, which the
// base's next list shows of a controller and of the broker: nobody could know, or write, what has
// changed. Nor does the time in which the base was disconnected, until its
// silence must have been noticed, or in which half of the bases were silent, which a controller may
// take for its own blindness.
type truthCheck struct {
	open  map[claim]*mismatch
	known map[string]map[claim]struct{} // claims that hold at present, by base
	// compared counts how often something became Ready.
	compared   int
	mismatches []mismatch
	closed     map[claim][]span          // mismatches of a claim
	lost       map[track][]span          // requests
	told       map[track][]order         // commands that may have taken a module away
	active     map[track]map[string]bool // versions
	went       map[track]time.Time       // when the last one that was active ceased to be so
}

// claim is a Pod that says it is Ready, or an endpoint of a Service for it.
type claim struct{ service, pod, uid, base string }

type mismatch struct {
	claim
	cause
	from, to time.Time
	// late is how much earlier than to it may have ended: the watch told then.
	late    time.Duration
	missing string
	modules []string // names of those that are missing
	// bare is when no version at all served, overtaken when one did that only Pods had wanted which do
	// not stay.
	bare, overtaken spans
}

// cause is why modules are missing. The zero value is that of a command, or of one that has not come.
type cause struct {
	ended    bool      // the base's process
	silent   bool      // and nothing has been heard of it since
	known    time.Time // when the controller can know of that at the latest
	vanished time.Time // when modules went while the process ran
}

// overtakenFor is how long a Pod may be Ready beside a version that overtook it and was overtaken.
const overtakenFor = 30 * time.Second

// spans are the times in which something was so.
type spans struct {
	list  []span
	since time.Time // of the last one, while it lasts
}

type span struct{ from, to time.Time }

// note notes whether it is so from now on.
func (s *spans) note(is bool, now time.Time) {
	switch {
	case is && s.since.IsZero():
		s.since = now
	case !is && !s.since.IsZero():
		s.list, s.since = append(slices.Clip(s.list), span{s.since, now}), time.Time{}
	}
}

// within is how long it was so within a time.
func (s *spans) within(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, s := range s.list {
		if s.from.Before(from) {
			s.from = from
		}
		if s.to.After(to) {
			s.to = to
		}
		sum += max(0, s.to.Sub(s.from))
	}
	return sum
}

// end notes that nothing of it goes on.
func (l *mismatch) end(now time.Time) {
	l.bare.note(false, now)
	l.overtaken.note(false, now)
}

// timedOut is the result of a request that nobody answered: a base without the module answers.
const timedOut = "timeout"

// order is a command that was answered.
type order struct {
	install  bool
	from, to time.Time
}

func (c *truthCheck) note(w *world, e change, o *Options) {
	if c.open == nil {
		c.open, c.known, c.closed = map[claim]*mismatch{}, map[string]map[claim]struct{}{}, map[claim][]span{}
		c.lost, c.told = map[track][]span{}, map[track][]order{}
		c.active, c.went = map[track]map[string]bool{}, map[track]time.Time{}
	}
	on := track{e.Base, e.Module}
	switch e.Kind {
	case timeline.Request:
		if e.Base != "" && e.State != timedOut {
			c.lost[on] = append(c.lost[on], span{e.Time.Add(-e.Elapsed), e.Time})
		}
	case timeline.Command:
		if e.Module != "" {
			c.told[on] = append(c.told[on], order{e.Name == timeline.CommandInstall, e.Time.Add(-e.Elapsed), e.Time})
		}
	case timeline.Base:
		c.compare(w, e, o, e.Base, func(claim) bool { return true })
		c.heard(w, e, o)
	case timeline.Module:
		c.noteActive(e)
		c.compare(w, e, o, e.Base, func(claim) bool { return true })
	case timeline.Pod:
		if e.pod != nil && e.pod.Base != "" {
			c.compare(w, e, o, e.pod.Base, func(k claim) bool { return k.uid == e.Pod.UID || c.open[k] != nil })
		}
	case timeline.Endpoints:
		for base := range e.bases {
			c.compare(w, e, o, base, func(k claim) bool { return k.service == e.Name })
		}
	}
}

// heard notes that a base whose process had ended speaks again. Of a new identity says nothing of
// the old one.
func (c *truthCheck) heard(w *world, e change, o *Options) {
	if change := timeline.BaseChange(e.State); change != timeline.BaseReady && change != timeline.BaseConnected {
		return
	}
	for k, l := range c.open {
		if k.base != e.Base || !l.silent {
			continue
		}
		if p := w.Pods.Get(k.uid); p != nil && w.another(p) {
			continue
		}
		if l.silent = false; e.Time.Before(l.known) {
			l.known = e.Time.Add(o.listed())
		}
	}
}

// compare looks at the claims about a base that may be concerned.
func (c *truthCheck) compare(w *world, e change, o *Options, base string, concerned func(claim) bool) {
	now := e.Time
	claims, known := w.claims(base, concerned), c.known[base]
	for k := range known {
		if _, ok := claims[k]; !ok && concerned(k) {
			delete(known, k)
			c.close(k, e)
			c.withdrawn(k, e)
		}
	}
	for k, p := range claims {
		if _, held := known[k]; !held {
			if known == nil {
				known = map[claim]struct{}{}
				c.known[base] = known
			}
			known[k] = struct{}{}
			c.compared++
		}
		b, ended := w.Bases.Get(k.base), w.ended(k.base)
		missing, names := missing(b, p)
		if missing == "" {
			c.close(k, e)
			continue
		}
		bare := !servesAll(b, p)
		l, own := c.open[k], c.open[claim{"", k.pod, k.uid, k.base}]
		if l != nil && bare && l.bare.since.IsZero() && !ended { // what served in its place has gone: that has a cause of its own
			c.close(k, e)
			l, own = nil, nil
		}
		if l == nil {
			l = &mismatch{claim: k, from: now, missing: missing, modules: names}
			if own != nil {
				l.cause = own.cause
			} else if !ended {
				l.vanished = c.wentSince(k.base, names, now.Add(-e.Late))
			}
			c.open[k] = l
		}
		if ended && !l.silent {
			l.ended, l.silent, l.known = true, true, now.Add(o.silent())
		}
		l.bare.note(bare, now)
		l.overtaken.note(w.overtaken(b, p), now)
	}
}

func (c *truthCheck) close(k claim, e change) {
	if l := c.open[k]; l != nil {
		l.to, l.late = e.Time, e.Late
		l.end(e.Time)
		c.mismatches = append(c.mismatches, *l)
		c.closed[k] = append(c.closed[k], span{l.from, l.to})
		delete(c.open, k)
	}
}

func (c *truthCheck) noteActive(e change) {
	t := track{e.Base, e.Module}
	if c.active[t] == nil {
		c.active[t] = map[string]bool{}
	}
	is := timeline.ModuleState(e.State) == timeline.ModuleActivated
	if c.active[t][e.Version] && !is {
		c.went[t] = e.Time
	}
	c.active[t][e.Version] = is
}

// wentSince is when the first of these modules went, if all of them have gone since then: a claim that the
// watch tells late may have been true. Zero = they have not.
func (c *truthCheck) wentSince(base string, names []string, since time.Time) (first time.Time) {
	for _, name := range names {
		went := c.went[track{base, name}]
		if went.Before(since) {
			return time.Time{}
		}
		if first.IsZero() || went.Before(first) {
			first = went
		}
	}
	return first
}

// withdrawn notes that a claim may have ended, for the watch was late, before its module came back.
func (c *truthCheck) withdrawn(k claim, e change) {
	earliest := e.Time.Add(-e.Late)
	for i := len(c.mismatches) - 1; i >= 0 && c.mismatches[i].to.After(earliest); i-- {
		if l := &c.mismatches[i]; l.claim == k {
			l.late = max(l.late, l.to.Sub(earliest))
		}
	}
}

// claims are the Pods on a base that are Ready, and the endpoints there that are ready.
func (w *world) claims(base string, concerned func(claim) bool) map[claim]*timeline.PodStatus {
	out := map[claim]*timeline.PodStatus{}
	for p := range w.PodsOn(base) {
		if k := (claim{"", p.Name, p.UID, base}); p.Serves() && concerned(k) {
			out[k] = p
		}
		for service, ready := range w.ready {
			if k := (claim{service, p.Name, p.UID, base}); ready[p.Name] && concerned(k) {
				out[k] = p
			}
		}
	}
	return out
}

// missing names the modules of the Pod that are not active on the base, with their versions in one
// text, and without.
func missing(b *timeline.BaseStatus, p *timeline.PodStatus) (text string, names []string) {
	var out []string
	for _, m := range p.Modules {
		if !b.Active(m.Name, m.Version) {
			out, names = append(out, m.String()), append(names, m.Name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " and "), names
}

// overtaken tells whether each module of the Pod that is not active has another version active which
// Pods on that base have wanted, and none that stays does.
func (w *world) overtaken(b *timeline.BaseStatus, p *timeline.PodStatus) bool {
	by := func(name string) bool {
		wanted, stays := false, false
		for _, key := range w.everOn[p.Base] {
			other := w.ever[key]
			for _, m := range other.Modules {
				if m.Name == name && b.Active(name, m.Version) {
					wanted, stays = true, stays || !other.Gone && !other.Deleting
				}
			}
		}
		return wanted && !stays
	}
	return !slices.ContainsFunc(p.Modules, func(m timeline.ModuleRef) bool { return !b.Active(m.Name, m.Version) && !by(m.Name) })
}

// servesAll tells whether some version of each module of the Pod is active.
func servesAll(b *timeline.BaseStatus, p *timeline.PodStatus) bool {
	return !slices.ContainsFunc(p.Modules, func(m timeline.ModuleRef) bool { return !b.Active(m.Name, "") })
}
