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
	// reconnectTime is the time that bases need to reconnect to a recovered broker. They try to reconnect every
	// second.
	reconnectTime = 2500 * time.Millisecond
	// settleTime is the longest time that a controller needs to settle after it has received the first module list of
	// a base after an outage. After a start of the controller, this includes reading all Pods.
	settleTime = 5 * time.Second
)

// recovery returns the recovery time of all components except controllers, 20 s by default. During this time, bases
// reconnect, and the controller requests their module lists within listDelay.
func (o *Options) recovery() time.Duration { return reconnectTime + o.listDelay() }

// controllerRecovery returns the recovery time of a controller that restarts, or that takes over the bases of another
// controller. The controller checks whether the Lease of the other controller has expired each time it renews its own
// Lease. Afterwards, it needs a heartbeat from each base.
func (o *Options) controllerRecovery() time.Duration {
	return o.LeaseDuration + api.RenewInterval(o.LeaseDuration) + o.scaled(api.HealthInterval) + settleTime
}

// outage is a period in which messages may have been lost: messages of one base or, if base is empty, of all bases.
type outage struct {
	id, base string
	from, to time.Time // to is zero until the outage has ended
	// limit is the maximum duration of the tolerance window. Zero means that the window lasts until the outage ends.
	limit time.Duration
	// recovery is how long the tolerance window continues after the end of the outage.
	recovery time.Duration
	// firstLists maps each base to the time of its first module list since the end of the outage. The recovery of the
	// base ends settleTime after this list. If firstLists is nil, module lists do not end the recovery.
	firstLists map[string]time.Time
	// unobservable reports whether, during the outage, the controller cannot observe the base or cannot write to the
	// API. It is false for faults that only drop responses.
	unobservable bool
	// responsesArrive reports whether the controller receives responses during the outage.
	responsesArrive bool
	// installing reports whether the outage is a window that addInstallations adds, or the time in which the base has
	// no process.
	installing bool
	module     string
}

// outages maps each base to its outages, ordered by their start. The key "" contains the outages that affect all
// bases.
type outages map[string][]*outage

// affecting returns the outages that affect a base.
func (all outages) affecting(base string) []*outage {
	if base == "" {
		return all[""]
	}
	return slices.Concat(all[""], all[base])
}

func (all outages) add(o outage) { all[o.base] = append(all[o.base], &o) }

// begin adds an outage unless the same outage is already in progress.
func (all outages) begin(o outage) {
	if all.ongoing(o.id, o.base) == nil {
		all.add(o)
	}
}

func (all outages) end(what, base string, now time.Time) {
	if o := all.ongoing(what, base); o != nil {
		o.to = now
	}
}

func (all outages) ongoing(what, base string) *outage {
	for _, o := range all[base] {
		if o.id == what && o.to.IsZero() {
			return o
		}
	}
	return nil
}

// recordList records that a base has sent a module list.
func (all outages) recordList(base string, now time.Time) {
	for _, o := range all.affecting(base) {
		if o.firstLists != nil && !o.to.IsZero() && o.firstLists[base].IsZero() {
			o.firstLists[base] = now
		}
	}
}

// windows returns the tolerance windows of the outage for mismatches on a base. The windows are cut off at end.
func (o *outage) windows(base string, end time.Time) []span {
	to := o.to
	if to.IsZero() || to.After(end) {
		to = end
	}
	limit := to
	if o.limit > 0 && o.from.Add(o.limit).Before(to) {
		limit = o.from.Add(o.limit)
	}
	out := []span{{o.from, limit}}
	if !o.to.IsZero() {
		recovered := o.to.Add(o.recovery)
		if at, is := o.firstLists[base]; is && at.Add(settleTime).Before(recovered) {
			recovered = at.Add(settleTime)
		}
		out = append(out, span{o.to, recovered})
	}
	return out
}

// outsideWindows returns how much of the period between from and to lies outside the tolerance windows of a base. It
// considers only outages for which window returns true.
func (all outages) outsideWindows(base string, from, to time.Time, window func(*outage) bool) time.Duration {
	var windows []span
	for _, o := range all.affecting(base) {
		if window(o) {
			windows = append(windows, o.windows(base, to)...)
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

func isUnobservable(o *outage) bool { return o.unobservable }

// has reports whether the span contains the given time.
func (s span) has(at time.Time) bool { return !at.Before(s.from) && !at.After(s.to) }

// covers reports whether one of the outage's tolerance windows for the base contains the given time.
func (o *outage) covers(base string, at time.Time) bool {
	return slices.ContainsFunc(o.windows(base, at), func(s span) bool { return s.has(at) })
}

// unobservableAt reports whether, at the given time, the base is within a tolerance window of an unobservable outage.
func (all outages) unobservableAt(base string, at time.Time) bool {
	return slices.ContainsFunc(all.affecting(base), func(o *outage) bool {
		return o.unobservable && o.covers(base,
			at)
	})
}

// unobservableDuring reports whether an unobservable outage of this base alone overlaps the given period. It returns
// false if from is zero.
func (all outages) unobservableDuring(base string, from, to time.Time) bool {
	return !from.IsZero() && slices.ContainsFunc(all[base], func(o *outage) bool {
		return o.unobservable && !o.from.After(to) && (o.to.IsZero() || !o.to.Before(from))
	})
}

// mayLoseResponse reports whether an outage may have prevented the controller from receiving a response that was sent
// between since and known, and whether a tolerance window of this outage contains the time at.
func (all outages) mayLoseResponse(base string, since, known, at time.Time) bool {
	return slices.ContainsFunc(all.affecting(base), func(o *outage) bool {
		return !o.responsesArrive && (o.to.IsZero() || !o.to.Before(since)) && !o.from.After(known) &&
			o.covers(base, at)
	})
}

// updateOutages applies an event to the recorded outages: it begins or ends each outage that the event affects.
func (w *history) updateOutages(e appliedEvent, o *Options) {
	w.addInstallations(e, o)
	switch {
	case e.Component != nil:
		w.updateComponent(e.Component, e.Time, o)
	case e.Command != nil:
		if e.Command.Name == events.CommandList && e.Command.Code == "" {
			w.outages.recordList(e.Command.Base, e.Time)
		}
	case e.Fault != nil:
		w.updateFault(e.Fault, e.Time, o)
	case e.Base != nil:
		base := e.Base.Base
		switch e.Base.Change {
		case events.BaseDown, events.BaseRemoved, events.BaseUp: // see updateProcess
			if x := w.outages.ongoing(connection, base); x != nil {
				x.to, x.recovery = e.Time, 0
			}
		case events.BaseDisconnected: // the controller detects missed heartbeats
			if w.processEnded(base) {
				break
			}
			w.outages.begin(outage{id: connection, base: base, from: e.Time, limit: o.detectionDelay(),
				recovery:   o.recovery(),
				firstLists: map[string]time.Time{}, unobservable: true})
		case events.BaseConnected:
			w.outages.end(connection, base, e.Time)
		}
		w.updateProcess(e.Base, e.Time, o)
		w.updateMassOutage(base, e.Time, o)
	}
}

// addInstallations adds a tolerance window when an installation starts, when a fault is triggered on a base, or when
// a Pod is bound to a base. The controller installs the module of a newly bound Pod after the next module list.
func (w *history) addInstallations(e appliedEvent, o *Options) {
	begins := func(base, module string) {
		if !w.processEnded(base) {
			w.outages.add(outage{id: "installation", base: base, module: module, from: e.Time, to: e.Time,
				recovery: o.InstallTimeout, installing: true, responsesArrive: true})
		}
	}
	switch {
	case e.Command != nil && e.Command.Name == events.CommandInstall:
		begins(e.Command.Base, e.Command.Module.Name)
	case e.Module != nil && e.Module.State == events.ModuleResolved:
		begins(e.Module.Base, e.Module.Name)
	case e.Fault != nil && e.Fault.Change == events.FaultTriggered:
		begins(e.Fault.Base, "")
	case e.pod != nil && w.boundAt[e.pod.PodKey()].Equal(e.Time):
		w.outages.add(outage{id: "installation", base: e.pod.Base, from: e.Time, to: e.Time, recovery: o.listDelay(),
			installing: true, responsesArrive: true})
	}
}

// updateProcess begins an outage when the process of a base ends, which the controller detects by missed heartbeats.
// The outage ends when the base restarts with the same identity, which the next module list shows. A base with
// another identity is treated as another base.
func (w *history) updateProcess(e *events.BaseEvent, now time.Time, o *Options) {
	b := w.Bases.Get(e.Base)
	if b == nil {
		return
	}
	switch {
	case w.processEnded(e.Base):
		w.outages.begin(outage{id: down, base: e.Base, from: now, installing: true, responsesArrive: true})
		w.outages.begin(outage{id: processEnd + b.Identity, base: e.Base, from: now, limit: o.detectionDelay(),
			recovery: o.listDelay(), unobservable: true, responsesArrive: true})
	case e.Change == events.BaseReady || e.Change == events.BaseConnected:
		w.outages.end(down, e.Base, now)
		w.outages.end(processEnd+b.Identity, e.Base, now)
	}
}

const (
	down       = "base without a process"
	processEnd = "end of the process " // the identity follows
	connection = "connection"
	apiFault   = "API fault " // its name follows
	massOutage = "mass outage"
	broker     = "broker"
	scheduler  = "kube-scheduler" // its outages do not affect the status of Pods
)

// updateComponent begins or ends the outage of a component. If a controller becomes unavailable while another
// controller is running, the other controller takes over its bases.
func (w *history) updateComponent(e *events.ComponentEvent, now time.Time, o *Options) {
	if e.Name == scheduler {
		return
	}
	if e.State == events.ComponentRunning {
		w.outages.end(e.Name, "", now)
		return
	}
	x := outage{id: e.Name, from: now, recovery: o.recovery(), unobservable: true}
	if e.Name == broker {
		x.firstLists = map[string]time.Time{}
	}
	if strings.HasPrefix(e.Name, controller) {
		x.recovery, x.firstLists = o.controllerRecovery(), map[string]time.Time{}
		for other := range w.Components.All() {
			if other.Name != e.Name && strings.HasPrefix(other.Name, controller) &&
				other.State == events.ComponentRunning {
				x.limit = o.controllerRecovery()
			}
		}
	}
	w.outages.begin(x)
}

// updateFault begins or ends the outage that a fault causes. After an API fault, the controller may retry writes for
// settleTime. After an MQTT fault, the next module list makes up for lost messages.
func (w *history) updateFault(e *events.FaultEvent, now time.Time, o *Options) {
	x := outage{id: e.ID, base: e.Base, from: now, recovery: o.listDelay()}
	switch {
	case e.Target == v1alpha1.TargetAPI:
		x = outage{id: apiFault + e.ID, from: now, recovery: o.scaled(settleTime), unobservable: true,
			responsesArrive: true}
		// the end of a controller is an outage of its component
	case e.Target == v1alpha1.TargetMQTT && (e.Kind == v1alpha1.MQTTNote || e.Target.Kills(e.Kind)):
		return
	case e.Target == v1alpha1.TargetMQTT:
		x = outage{id: "MQTT fault " + e.ID, base: e.Base, from: now, recovery: o.recovery(),
			firstLists: map[string]time.Time{}, unobservable: true}
	}
	lasts := e.Target.IsState(e.Kind)
	switch {
	case e.Change == events.FaultSet && lasts:
		w.outages.begin(x)
	case e.Change == events.FaultTriggered && !lasts:
		x.to = now
		w.outages.add(x)
	case e.Change == events.FaultCleared:
		w.outages.end(x.id, x.base, now)
	}
}

// knownAt returns the time of the API state that the controller knew when it decided on a write that takes effect now.
// Without an API fault, this is decisionDelay before now. An API fault of the controller makes it earlier, by at most
// settleTime.
func (w *history) knownAt(now time.Time) time.Time {
	decided := now.Add(-decisionDelay)
	known, atMost := decided, decided.Add(-settleTime)
	for _, x := range w.outages[""] {
		if since := x.from.Add(-decisionDelay); strings.HasPrefix(x.id, apiFault) &&
			(x.to.IsZero() || x.to.Add(x.recovery).After(decided)) && since.Before(known) {
			known = since
		}
	}
	if known.Before(atMost) {
		return atMost
	}
	return known
}

// unreachableBases records which bases are currently unreachable, and which bases were removed.
type unreachableBases struct {
	now, removed map[string]bool
	mass         bool // so many bases are unreachable that the controller assumes a network failure
}

// updateMassOutage starts or ends the mass outage after an event of a base. During a mass outage, so many bases are
// unreachable that the controller assumes a network failure, see api.MassOutage. For bases that are still unreachable
// when the mass outage ends, the unreachable time is measured from its end.
func (w *history) updateMassOutage(base string, now time.Time, o *Options) {
	b := w.Bases.Get(base)
	if b == nil {
		return
	}
	delete(w.unreachable.now, base)
	delete(w.unreachable.removed, base)
	switch {
	case b.Removed:
		w.unreachable.removed[base] = true
		w.outages.end(massOutage, base, now)
	case !b.Running || w.outages.ongoing(connection, base) != nil:
		w.unreachable.now[base] = true
	default:
		w.outages.end(massOutage, base, now)
	}
	all := w.Bases.Len() - len(w.unreachable.removed)
	was := w.unreachable.mass
	w.unreachable.mass = api.MassOutage(len(w.unreachable.now), all, api.MassPercent, api.MassMinBases)
	switch {
	case w.unreachable.mass && was && w.unreachable.now[base]:
		w.outages.begin(outage{id: massOutage, base: base, from: now, unobservable: true})
	case w.unreachable.mass && !was:
		for name := range w.unreachable.now {
			w.outages.begin(outage{id: massOutage, base: name, from: now, unobservable: true})
		}
	case was && !w.unreachable.mass:
		for name := range w.unreachable.now {
			if x := w.outages.ongoing(massOutage, name); x != nil {
				x.to, x.recovery = now, o.detectionDelay()
			}
		}
	}
}
