package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

const (
	// reconnecting is what bases need to connect to a broker that is back: they try every second.
	reconnecting = 2500 * time.Millisecond
	// settling is what a controller has after the first list of a base since an outage: after a
	// start it has all Pods to read, too.
	settling = 5 * time.Second
)

// recovery is what anything else has when it is back: then the bases connect again and are asked
// for their modules within Options.listed. By the defaults these are 20 s.
func (o *Options) recovery() time.Duration { return reconnecting + o.listed() }

// controllerRecovery is what a controller has that is back, or that takes over the bases of another one: it waits until the
// Lease of the other one expires, looks when it would renew its own, and then hears of each base by a heartbeat.
func (o *Options) controllerRecovery() time.Duration {
	return o.ControllerLease + api.RenewInterval(o.ControllerLease) + o.of(api.HealthInterval) + settling
}

// outage is a time in which words may have got lost, on a base or, without a name, on all.
type outage struct {
	what, base string
	from, to   time.Time // to is zero as long as it lasts
	// most is how long it may excuse anybody; zero = as long as it lasts.
	most time.Duration
	// recovery is how long it goes on excusing when it is over.
	recovery time.Duration
	// listed is when a base has first told a list since it is over, by base: for that one the
	// recovery ends settling later. Nil = no list ends it.
	listed map[string]time.Time
	// hides tells that nobody can know or write meanwhile what the base serves. Faults do not: they
	// may swallow an answer.
	hides bool
	// heard tells that the answers of bases come all the same.
	heard bool
	// installs tells that a module is being installed, or any one, or that there is no process that could have one.
	installs bool
	module   string
}

// outages are those of each base, and, without a name, those of all, in the order of their beginnings.
type outages map[string][]*outage

// about are the outages that concern a base.
func (all outages) about(base string) []*outage {
	if base == "" {
		return all[""]
	}
	return slices.Concat(all[""], all[base])
}

func (all outages) add(o outage) { all[o.base] = append(all[o.base], &o) }

// begin notes an outage, unless it lasts already.
func (all outages) begin(o outage) {
	if all.lasting(o.what, o.base) == nil {
		all.add(o)
	}
}

// end notes that an outage is over, if there is one.
func (all outages) end(what, base string, now time.Time) {
	if o := all.lasting(what, base); o != nil {
		o.to = now
	}
}

func (all outages) lasting(what, base string) *outage {
	for _, o := range all[base] {
		if o.what == what && o.to.IsZero() {
			return o
		}
	}
	return nil
}

// told notes that a base has told a list.
func (all outages) told(base string, now time.Time) {
	for _, o := range all.about(base) {
		if o.listed != nil && !o.to.IsZero() && o.listed[base].IsZero() {
			o.listed[base] = now
		}
	}
}

// excuses are the times in which an outage excuses what is about a base, until end at most.
func (o *outage) excuses(base string, end time.Time) []span {
	to := o.to
	if to.IsZero() || to.After(end) {
		to = end
	}
	limit := to
	if o.most > 0 && o.from.Add(o.most).Before(to) {
		limit = o.from.Add(o.most)
	}
	out := []span{{o.from, limit}}
	if !o.to.IsZero() {
		recovered := o.to.Add(o.recovery)
		if at, is := o.listed[base]; is && at.Add(settling).Before(recovered) {
			recovered = at.Add(settling)
		}
		out = append(out, span{o.to, recovered})
	}
	return out
}

// countable returns how much of a time on a base is in no window in which a mismatch is allowed: nobody could know, or
// write, what the base serves. Windows are those of the outages that meet a condition.
func (all outages) countable(base string, from, to time.Time, window func(*outage) bool) time.Duration {
	var windows []span
	for _, o := range all.about(base) {
		if window(o) {
			windows = append(windows, o.excuses(base, to)...)
		}
	}
	slices.SortFunc(windows, func(a, b span) int { return a.from.Compare(b.from) })
	counted := time.Duration(0)
	for _, allowed := range windows {
		if allowed.from.After(to) {
			break
		}
		counted += max(0, allowed.from.Sub(from))
		if allowed.to.After(from) {
			from = allowed.to
		}
	}
	return counted + max(0, to.Sub(from))
}

func hides(o *outage) bool { return o.hides }

// has reports whether a moment is in the span.
func (s span) has(at time.Time) bool { return !at.Before(s.from) && !at.After(s.to) }

// excusesAt reports whether a moment on a base is in a window of the outage.
func (o *outage) excusesAt(base string, at time.Time) bool {
	return slices.ContainsFunc(o.excuses(base, at), func(s span) bool { return s.has(at) })
}

// allowed reports whether a moment on a base is in a window of an outage that hides what the base serves.
func (all outages) allowed(base string, at time.Time) bool {
	return slices.ContainsFunc(all.about(base), func(o *outage) bool { return o.hides && o.excusesAt(base, at) })
}

// away tells whether a base was away by itself within a time. The zero time is never.
func (all outages) away(base string, from, to time.Time) bool {
	return !from.IsZero() && slices.ContainsFunc(all[base], func(o *outage) bool {
		return o.hides && !o.from.After(to) && (o.to.IsZero() || !o.to.Before(from))
	})
}

// swallowed tells whether an answer of a base, given since then, may not have been known yet at a
// later moment. Without an outage it was known by then.
func (all outages) swallowed(base string, since, known, at time.Time) bool {
	return slices.ContainsFunc(all.about(base), func(o *outage) bool {
		return !o.heard && (o.to.IsZero() || !o.to.Before(since)) && !o.from.After(known) && o.excusesAt(base, at)
	})
}

// disturb notes the outages that an event begins or ends.
func (w *world) disturb(e change, o *Options) {
	w.installs(e, o)
	switch {
	case e.Component != nil:
		w.component(e.Component, e.Time, o)
	case e.Command != nil:
		if e.Command.Name == events.CommandList && e.Command.Code == "" {
			w.outages.told(e.Command.Base, e.Time)
		}
	case e.Fault != nil:
		w.fault(e.Fault, e.Time, o)
	case e.Base != nil:
		base := e.Base.Base
		switch e.Base.Change {
		case events.BaseDown, events.BaseRemoved, events.BaseUp: // that has rules of its own
			if x := w.outages.lasting(connection, base); x != nil {
				x.to, x.recovery = e.Time, 0
			}
		case events.BaseDisconnected: // its silence is noticed
			if w.ended(base) {
				break
			}
			w.outages.begin(outage{what: connection, base: base, from: e.Time, most: o.silent(), recovery: o.recovery(), listed: map[string]time.Time{}, hides: true})
		case events.BaseConnected:
			w.outages.end(connection, base, e.Time)
		}
		w.process(e.Base, e.Time, o)
		w.silence(base, e.Time, o)
	}
}

// installs notes that an installation has begun on a base, or that a fault has struck one; and that a Pod was bound to the base,
// of which the controller knows the modules by the next list.
func (w *world) installs(e change, o *Options) {
	begins := func(base, module string) {
		if !w.ended(base) {
			w.outages.add(outage{what: "installation", base: base, module: module, from: e.Time, to: e.Time, recovery: o.InstallWithin, installs: true, heard: true})
		}
	}
	switch {
	case e.Command != nil && e.Command.Name == events.CommandInstall:
		begins(e.Command.Base, e.Command.Module.Name)
	case e.Module != nil && e.Module.State == events.ModuleResolved:
		begins(e.Module.Base, e.Module.Name)
	case e.Fault != nil && e.Fault.Change == events.FaultFired:
		begins(e.Fault.Base, "")
	case e.pod != nil && w.bound[e.pod.PodKey()].Equal(e.Time):
		w.outages.add(outage{what: "installation", base: e.pod.Base, from: e.Time, to: e.Time, recovery: o.listed(), installs: true, heard: true})
	}
}

// process notes that the process of a base has ended, which the controller notices by its silence; or that the base is
// back under its identity, which the next list shows. A base with another identity is another one.
func (w *world) process(e *events.BaseEvent, now time.Time, o *Options) {
	b := w.Bases.Get(e.Base)
	if b == nil {
		return
	}
	switch {
	case w.ended(e.Base):
		w.outages.begin(outage{what: down, base: e.Base, from: now, installs: true, heard: true})
		w.outages.begin(outage{what: processEnd + b.Identity, base: e.Base, from: now, most: o.silent(), recovery: o.listed(), hides: true, heard: true})
	case e.Change == events.BaseReady || e.Change == events.BaseConnected:
		w.outages.end(down, e.Base, now)
		w.outages.end(processEnd+b.Identity, e.Base, now)
	}
}

const (
	down       = "base without a process"
	processEnd = "end of the process " // the identity follows
	connection = "connection"
	viewFault  = "API fault " // its name follows
	silence    = "mass silence"
	broker     = "broker"
	scheduler  = "kube-scheduler" // no status of a Pod depends on it
)

// component notes that a component is away, or back. A controller beside which another one runs is
// replaced by that.
func (w *world) component(e *events.ComponentEvent, now time.Time, o *Options) {
	if e.Name == scheduler {
		return
	}
	if e.State == events.ComponentRunning {
		w.outages.end(e.Name, "", now)
		return
	}
	x := outage{what: e.Name, from: now, recovery: o.recovery(), hides: true}
	if e.Name == broker {
		x.listed = map[string]time.Time{}
	}
	if strings.HasPrefix(e.Name, controller) {
		x.recovery, x.listed = o.controllerRecovery(), map[string]time.Time{}
		for other := range w.Components.All() {
			if other.Name != e.Name && strings.HasPrefix(other.Name, controller) && other.State == events.ComponentRunning {
				x.most = o.controllerRecovery()
			}
		}
	}
	w.outages.begin(x)
}

// fault notes what a fault may explain. After a fault of the API a controller may try again, or look again, for as
// long as anything may settle. After a fault of MQTT, what is lost or late is known from the next list.
func (w *world) fault(e *events.FaultEvent, now time.Time, o *Options) {
	x := outage{what: e.ID, base: e.Base, from: now, recovery: o.listed()}
	switch {
	case e.Target == v1alpha1.TargetAPI:
		x = outage{what: viewFault + e.ID, from: now, recovery: o.of(settling), hides: true, heard: true}
	case e.Target == v1alpha1.TargetMQTT && (e.Kind == v1alpha1.MQTTNote || e.Target.Kills(e.Kind)): // a controller that ends has rules of its own
		return
	case e.Target == v1alpha1.TargetMQTT:
		x = outage{what: "MQTT fault " + e.ID, base: e.Base, from: now, recovery: o.recovery(), listed: map[string]time.Time{}, hides: true}
	}
	lasts := e.Target.Lasts(e.Kind)
	switch {
	case e.Change == events.FaultSet && lasts:
		w.outages.begin(x)
	case e.Change == events.FaultFired && !lasts:
		x.to = now
		w.outages.add(x)
	case e.Change == events.FaultCleared:
		w.outages.end(x.what, x.base, now)
	}
}

// knownAt is until when a controller whose write has come now has known of what is in the API: not of
// what came in the last seconds, if its view of it was disturbed then, or its writes were.
func (w *world) knownAt(now time.Time) time.Time {
	decided := now.Add(-decidedWithin)
	known, atMost := decided, decided.Add(-settling)
	for _, x := range w.outages[""] {
		if since := x.from.Add(-decidedWithin); strings.HasPrefix(x.what, viewFault) && (x.to.IsZero() || x.to.Add(x.recovery).After(decided)) && since.Before(known) {
			known = since
		}
	}
	if known.Before(atMost) {
		return atMost
	}
	return known
}

// silentBases are the bases that are silent, and those that were removed.
type silentBases struct {
	now, removed map[string]bool
	mass         bool // so many are silent that it may be the way to them
}

// silence notes since when a base is silent together with so many that a controller may take it for
// a fault of the way to them, and leave everything as it is; see api.MassOutage. When
// others are back, the silence of those that are not counts from then. It looks at the base of which something
// was told.
func (w *world) silence(base string, now time.Time, o *Options) {
	b := w.Bases.Get(base)
	if b == nil {
		return
	}
	delete(w.silent.now, base)
	delete(w.silent.removed, base)
	switch {
	case b.Removed:
		w.silent.removed[base] = true
		w.outages.end(silence, base, now)
	case !b.Running || w.outages.lasting(connection, base) != nil:
		w.silent.now[base] = true
	default:
		w.outages.end(silence, base, now)
	}
	all := w.Bases.Len() - len(w.silent.removed)
	was := w.silent.mass
	w.silent.mass = api.MassOutage(len(w.silent.now), all, api.MassPercent, api.MassMinBases)
	switch {
	case w.silent.mass && was && w.silent.now[base]:
		w.outages.begin(outage{what: silence, base: base, from: now, hides: true})
	case w.silent.mass && !was:
		for name := range w.silent.now {
			w.outages.begin(outage{what: silence, base: name, from: now, hides: true})
		}
	case was && !w.silent.mass:
		for name := range w.silent.now {
			if x := w.outages.lasting(silence, name); x != nil {
				x.to, x.recovery = now, o.silent()
			}
		}
	}
}
