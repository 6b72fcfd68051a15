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

// controllerRecovery is the recovery of a controller that has restarted, or that takes over the bases of another one. It waits
// until the Lease of the other controller expires, checks when it renews its own, and then needs a heartbeat of each base.
func (o *Options) controllerRecovery() time.Duration {
	return o.ControllerLease + api.RenewInterval(o.ControllerLease) + o.of(api.HealthInterval) + settling
}

// outage is a time in which words may have got lost, on a base or, without a name, on all.
type outage struct {
	what, base string
	from, to   time.Time // to is zero as long as it lasts
	// most is how long it may excuse anybody; zero = as long as it lasts.
	most time.Duration
	// recovery is how long it excuses after its end.
	recovery time.Duration
	// listed is the first module list of each base since the end of the outage. The recovery of the base ends settling later.
	// Nil = no list ends it.
	listed map[string]time.Time
	// hides reports whether the controller cannot observe the base, or cannot write, in the meantime. A fault can drop a response,
	// but hides nothing.
	hides bool
	// heard reports whether responses of bases arrive nevertheless.
	heard bool
	// installs reports whether a module is being installed, or the base has no process.
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

// begin adds an outage, unless it has begun already.
func (all outages) begin(o outage) {
	if all.lasting(o.what, o.base) == nil {
		all.add(o)
	}
}

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

// told records the module list of a base.
func (all outages) told(base string, now time.Time) {
	for _, o := range all.about(base) {
		if o.listed != nil && !o.to.IsZero() && o.listed[base].IsZero() {
			o.listed[base] = now
		}
	}
}

// excuses returns the windows in which the outage excuses a base, until end at most.
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

// countable returns how much of a time on a base is in no window of the outages for which window is true.
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

// away reports whether an outage of the base alone hid it within a time. from may be zero.
func (all outages) away(base string, from, to time.Time) bool {
	return !from.IsZero() && slices.ContainsFunc(all[base], func(o *outage) bool {
		return o.hides && !o.from.After(to) && (o.to.IsZero() || !o.to.Before(from))
	})
}

// swallowed reports whether the controller may not have known at a moment of a response given since then.
func (all outages) swallowed(base string, since, known, at time.Time) bool {
	return slices.ContainsFunc(all.about(base), func(o *outage) bool {
		return !o.heard && (o.to.IsZero() || !o.to.Before(since)) && !o.from.After(known) && o.excusesAt(base, at)
	})
}

// disturb begins and ends the outages of an event.
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
			w.outages.begin(outage{what: connection, base: base, from: e.Time, most: o.silent(), recovery: o.recovery(),
				listed: map[string]time.Time{}, hides: true})
		case events.BaseConnected:
			w.outages.end(connection, base, e.Time)
		}
		w.process(e.Base, e.Time, o)
		w.silence(base, e.Time, o)
	}
}

// installs adds an installation that has begun, or was hit by a fault, and a Pod that was bound to a base: the next module
// list tells the controller what the base has.
func (w *world) installs(e change, o *Options) {
	begins := func(base, module string) {
		if !w.ended(base) {
			w.outages.add(outage{what: "installation", base: base, module: module, from: e.Time, to: e.Time,
				recovery: o.InstallWithin, installs: true, heard: true})
		}
	}
	switch {
	case e.Command != nil && e.Command.Name == events.CommandInstall:
		begins(e.Command.Base, e.Command.Module.Name)
	case e.Module != nil && e.Module.State == events.ModuleResolved:
		begins(e.Module.Base, e.Module.Name)
	case e.Fault != nil && e.Fault.Change == events.FaultTriggered:
		begins(e.Fault.Base, "")
	case e.pod != nil && w.bound[e.pod.PodKey()].Equal(e.Time):
		w.outages.add(outage{what: "installation", base: e.pod.Base, from: e.Time, to: e.Time, recovery: o.listed(),
			installs: true, heard: true})
	}
}

// process adds the end of the process of a base, which the controller notices by missed heartbeats, and its return under the
// same identity, which the next module list shows. A base with another identity is another base.
func (w *world) process(e *events.BaseEvent, now time.Time, o *Options) {
	b := w.Bases.Get(e.Base)
	if b == nil {
		return
	}
	switch {
	case w.ended(e.Base):
		w.outages.begin(outage{what: down, base: e.Base, from: now, installs: true, heard: true})
		w.outages.begin(outage{what: processEnd + b.Identity, base: e.Base, from: now, most: o.silent(),
			recovery: o.listed(), hides: true, heard: true})
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

// component adds the outage of a component. Another running controller takes over from a controller.
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
			if other.Name != e.Name && strings.HasPrefix(other.Name, controller) &&
				other.State == events.ComponentRunning {
				x.most = o.controllerRecovery()
			}
		}
	}
	w.outages.begin(x)
}

// fault adds the outage of a fault. After a fault of the API the controller may retry for settling. After a fault of MQTT the
// next module list shows what was lost.
func (w *world) fault(e *events.FaultEvent, now time.Time, o *Options) {
	x := outage{what: e.ID, base: e.Base, from: now, recovery: o.listed()}
	switch {
	case e.Target == v1alpha1.TargetAPI:
		x = outage{what: viewFault + e.ID, from: now, recovery: o.of(settling), hides: true, heard: true}
		// a controller that ends has rules of its own
	case e.Target == v1alpha1.TargetMQTT && (e.Kind == v1alpha1.MQTTNote || e.Target.Kills(e.Kind)):
		return
	case e.Target == v1alpha1.TargetMQTT:
		x = outage{what: "MQTT fault " + e.ID, base: e.Base, from: now, recovery: o.recovery(),
			listed: map[string]time.Time{}, hides: true}
	}
	lasts := e.Target.Lasts(e.Kind)
	switch {
	case e.Change == events.FaultSet && lasts:
		w.outages.begin(x)
	case e.Change == events.FaultTriggered && !lasts:
		x.to = now
		w.outages.add(x)
	case e.Change == events.FaultCleared:
		w.outages.end(x.what, x.base, now)
	}
}

// knownAt returns until when the controller knew the API when it decided a write of now. If a fault affected its connection,
// this can be up to settling earlier.
func (w *world) knownAt(now time.Time) time.Time {
	decided := now.Add(-decidedWithin)
	known, atMost := decided, decided.Add(-settling)
	for _, x := range w.outages[""] {
		if since := x.from.Add(-decidedWithin); strings.HasPrefix(x.what, viewFault) &&
			(x.to.IsZero() || x.to.Add(x.recovery).After(decided)) && since.Before(known) {
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

// silence updates the mass outage after an event of a base: when so many bases are unreachable that the controller may assume
// a network failure, see api.MassOutage. When the mass outage ends, the time of the remaining bases counts from then.
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
