package base

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// DueQuery is a query that the controller must send now.
type DueQuery struct {
	Tunnel  tunnel.Key
	To      tunnel.Address
	Command arklet.Command
}

// SweepResult is the result of one Sweep.
type SweepResult struct {
	Queries []DueQuery
	// Missed is the number of bases that missed a heartbeat since the previous sweep.
	Missed int
	Events []ConnectivityEvent
}

// Sweep updates the liveness of all bases. Call it about once a second. Missed heartbeats are ignored while the tunnel
// of a base is down, after the process was suspended, while messages arrive late, and during a mass outage.
func (r *Registry) Sweep() SweepResult {
	now := r.opts.Clock.Now()
	var found SweepResult
	var changes []Change
	r.mu.Lock()
	if slept := r.suspension.check(now, now.Round(0)); slept > 0 {
		found.Events = append(found.Events, ConnectivityEvent{Reason: ControllerSuspended, Duration: slept})
		changes = append(changes, r.recordSuspension(now, slept)...)
	}
	for key, bases := range r.byTunnel() {
		s := r.health[key]
		if s == nil {
			s = &tunnelHealth{}
			r.health[key] = s
		}
		down := !r.opts.Connected(key)
		late := !down && r.opts.Delayed(key)
		news := s.disconnected.update(ConnectivityEvent{Reason: TunnelDown}, down, now,
			r.opts.TimeScale.Of(reportDelay))
		if down {
			changes = append(changes, r.recordTunnelDown(bases, s, now)...)
		} else {
			bases = slices.DeleteFunc(bases, func(b *record) bool { return !b.isObserved() })
			news = append(news, s.delayed.update(ConnectivityEvent{Reason: ControllerBehind}, late, now, 0)...)
			late = late && now.Sub(s.delayed.since) < r.opts.Mass.MaxDuration
			if late {
				r.extendForBacklog(bases, now)
			} else {
				found.Missed += countMissed(bases, now, r.opts.TimeScale.Of(missedAfter))
				mass, evaluated := r.evaluate(bases, s, now)
				news, changes = append(news, mass...), append(changes, evaluated...)
			}
			found.Queries = r.dueQueries(bases, late, now, found.Queries)
		}
		for _, n := range news {
			n.Tunnel = string(key)
			found.Events = append(found.Events, n)
		}
	}
	r.mu.Unlock()
	r.notify(changes)
	return found
}

// byTunnel groups the bases by tunnel. The result also includes tunnels that have no bases any more, with an empty
// list.
func (r *Registry) byTunnel() map[tunnel.Key][]*record {
	m := make(map[tunnel.Key][]*record, 2)
	for key := range r.health {
		m[key] = nil
	}
	for _, b := range r.bases {
		m[b.info.Tunnel] = append(m[b.info.Tunnel], b)
	}
	return m
}

// recordSuspension restarts the grace period of all bases and makes all queries due immediately, because messages may
// have been lost while the process was suspended.
func (r *Registry) recordSuspension(now time.Time, suspendedFor time.Duration) (changes []Change) {
	for _, b := range r.bases {
		b.graceUntil = now.Add(r.grace(b.info.Tunnel))
		b.nextHealth, b.nextList = now, now
		changes = append(changes, b.observe(Observation{Reason: ControllerSuspended, Since: now.Add(-suspendedFor)})...)
	}
	return changes
}

// recordTunnelDown discards the missed heartbeats of the bases of a tunnel and restarts their grace period, because
// the tunnel is down.
func (r *Registry) recordTunnelDown(bases []*record, s *tunnelHealth, now time.Time) (changes []Change) {
	for _, b := range bases {
		b.graceUntil = now.Add(r.grace(b.info.Tunnel))
		if s.disconnected.reported {
			changes = append(changes, b.observe(Observation{Reason: TunnelDown, Since: s.disconnected.since})...)
		}
	}
	return changes
}

// extendForBacklog discards the missed heartbeats of the bases of a tunnel whose messages arrive late.
func (r *Registry) extendForBacklog(bases []*record, now time.Time) {
	for _, b := range bases {
		if b.graceUntil.Before(now) {
			b.graceUntil = now
		}
		if !b.heartbeatRequired.IsZero() {
			b.heartbeatRequired = now
		}
	}
}

// countMissed returns the number of bases that have newly missed a heartbeat. It counts each base once until the next
// message from the base.
func countMissed(bases []*record, now time.Time, threshold time.Duration) (missed int) {
	for _, b := range bases {
		if !b.missed && b.missedFor(now) >= threshold {
			b.missed = true
			missed++
		}
	}
	return missed
}

// missedFor returns the time for which the base has sent no message although this controller could have received one.
func (r *record) missedFor(now time.Time) time.Duration { return now.Sub(r.countedSince()) }

// countedSince returns the time from which missed heartbeats of the base are evaluated.
func (r *record) countedSince() time.Time {
	if r.graceUntil.After(r.lastSeen) {
		return r.graceUntil
	}
	return r.lastSeen
}

// evaluate updates the liveness of all bases of a connected tunnel.
func (r *Registry) evaluate(bases []*record, s *tunnelHealth, now time.Time) (news []ConnectivityEvent,
	changes []Change) {
	var expired []*record
	bases, changes = r.expireWithoutHeartbeat(bases, now)
	held := r.inMassOutage(bases, now)
	inOutage := 0
	for _, b := range bases {
		missed := b.missedFor(now)
		if missed < r.opts.UnreachableAfter {
			continue
		}
		if held[b.info.Identity] && (b.outageSince.IsZero() || now.Sub(b.outageSince) < r.opts.Mass.MaxDuration) {
			if b.outageSince.IsZero() {
				b.outageSince = now
			}
			b.outageUntil = now
			inOutage++
			changes = append(changes, b.observe(Observation{Reason: MassOutage, Since: b.countedSince()})...)
			continue
		}
		missed = min(missed, now.Sub(b.outageUntil))
		if missed >= r.opts.DeadAfter {
			expired = append(expired, b)
		}
		if missed >= r.opts.UnreachableAfter {
			if b.liveness == Reachable {
				b.liveness = Unreachable
				changes = append(changes,
					Change{Kind: LivenessChanged, Identity: b.info.Identity, Liveness: Unreachable})
			}
			changes = append(changes, b.observe(Observation{})...)
		}
	}
	news = s.massOutage.update(ConnectivityEvent{Reason: MassOutage, Missing: inOutage, Bases: len(bases)},
		inOutage > 0,
		now, 0)
	return news, append(changes, r.expire(expired, now)...)
}

// inMassOutage returns the identities of the bases that are in a mass outage of their group.
func (r *Registry) inMassOutage(bases []*record, now time.Time) map[string]bool {
	type members struct {
		list     []missingBase
		appeared []time.Time
		all      int
	}
	// A reachable base sends a heartbeat every 10 s.
	missed := func(b *record) bool { return b.missedFor(now) >= r.opts.UnreachableAfter/2 }
	if !slices.ContainsFunc(bases, missed) {
		return nil
	}
	groups := map[netip.Prefix]*members{}
	for _, b := range bases {
		group := r.group(b)
		g := groups[group]
		if g == nil {
			g = &members{}
			groups[group] = g
		}
		g.all++
		switch {
		case missed(b):
			g.list = append(g.list,
				missingBase{identity: b.info.Identity, missedSince: b.countedSince(), lastMessageAt: b.lastSeen,
					appearedAt: b.appearedAt})
		case !b.appearedAt.IsZero():
			g.appeared = append(g.appeared, b.appearedAt)
		}
	}
	held := map[string]bool{}
	for _, g := range groups {
		maps.Copy(held, r.opts.Mass.massFailure(g.list, g.appeared, g.all, r.opts.UnreachableAfter/2))
	}
	return held
}

// expireWithoutHeartbeat removes the bases that have sent no message within the required time after their Node was
// deleted. It returns the bases that do not require a heartbeat.
func (r *Registry) expireWithoutHeartbeat(bases []*record, now time.Time) (rest []*record, changes []Change) {
	rest = bases[:0:0]
	for _, b := range bases {
		switch {
		case b.heartbeatRequired.IsZero():
			rest = append(rest, b)
		case now.Sub(b.heartbeatRequired) >= r.opts.UnreachableAfter/2:
			r.remove(b.info.Identity)
			changes = append(changes, Change{Kind: Disappeared, Identity: b.info.Identity})
		}
	}
	return rest, changes
}

// expire removes bases that have missed heartbeats for DeadAfter, up to the maximum number of removals per minute. It
// first removes the base that has missed heartbeats for the longest time. A base that this controller stopped serving
// is removed only after another DeadAfter, because this controller may serve it again.
func (r *Registry) expire(expired []*record, now time.Time) (changes []Change) {
	if len(expired) == 0 {
		return nil
	}
	slices.SortFunc(expired, func(a, b *record) int { return a.countedSince().Compare(b.countedSince()) })
	acting, all := r.opts.MayAct(), map[netip.Prefix]int{}
	for _, b := range r.bases {
		all[r.group(b)]++
	}
	maps.DeleteFunc(r.budgets, func(group netip.Prefix, _ budget) bool { return all[group] == 0 })
	for _, b := range expired {
		if !acting {
			b.notServedSince = now
			continue
		}
		if !b.owned && now.Sub(b.notServedSince) < r.opts.DeadAfter {
			continue
		}
		group := r.group(b)
		left := r.budgets[group]
		if b.owned && !left.tryRemove(r.opts.Deletions, all[group], now, r.opts.TimeScale) {
			continue
		}
		r.budgets[group] = left
		r.remove(b.info.Identity)
		changes = append(changes, Change{Kind: Disappeared, Identity: b.info.Identity, TimedOut: true})
	}
	return changes
}

// dueQueries appends the due queries to probes and returns the result. If late is true, because messages arrive late,
// it omits health checks: heartbeats are then sufficient to detect reachable bases.
func (r *Registry) dueQueries(bases []*record, late bool, now time.Time, probes []DueQuery) []DueQuery {
	for _, b := range bases {
		id := b.info.Identity
		if r.bases[id] != b || !b.owned && !b.healthAt.IsZero() {
			continue
		}
		if !now.Before(b.nextHealth) {
			b.nextHealth = now.Add(r.opts.HealthInterval + queryOffset(id, r.opts.HealthInterval))
			if !late || b.healthAt.IsZero() || b.reconnecting || !b.heartbeatRequired.IsZero() {
				probes = append(probes, DueQuery{b.info.Tunnel, b.address(), arklet.CommandHealth})
			}
		}
		if b.owned && !now.Before(b.nextList) {
			b.nextList = now.Add(r.opts.ListInterval + queryOffset(id, r.opts.ListInterval))
			if b.reconnecting {
				b.nextList = now.Add(r.opts.TimeScale.Of(reconnectQueryInterval))
			}
			probes = append(probes, DueQuery{b.info.Tunnel, b.address(), arklet.CommandQueryAllBiz})
		}
	}
	return probes
}

// missedAfter is the time after which the metrics count a heartbeat as missed. It is the interval of 12 s of the
// slower tunnel (protocol 4.1), plus a tolerated delay.
const missedAfter = 15 * time.Second

// reconnectQueryInterval is the time between two module list queries to a base that may not have reconnected yet.
const reconnectQueryInterval = time.Second

// Reconnected records that a tunnel has reconnected. It makes all queries to the bases of the tunnel due immediately,
// because messages may have been lost. A base that reconnects later is queried every second until it sends a message.
// Missed heartbeats are ignored until the end of the grace period.
func (r *Registry) Reconnected(key tunnel.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opts.Clock.Now()
	for _, b := range r.bases {
		if b.info.Tunnel == key {
			b.reconnecting, b.nextHealth, b.nextList = true, now, now
			b.graceUntil = now.Add(r.grace(key))
		}
	}
}

// Unobserved returns the number of bases whose missed heartbeats are ignored, for each reason.
func (r *Registry) Unobserved() map[UnobservableReason]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[UnobservableReason]int{TunnelDown: 0, ControllerSuspended: 0, MassOutage: 0}
	for _, b := range r.bases {
		if b.observed.Reason != "" && b.isObserved() {
			n[b.observed.Reason]++
		}
	}
	return n
}
