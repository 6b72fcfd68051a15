package base

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// DueQuery is a query that is due.
type DueQuery struct {
	Tunnel  tunnel.Key
	To      tunnel.Address
	Command arklet.Command
}

// SweepResult is the result of a sweep.
type SweepResult struct {
	Queries []DueQuery
	// Missed is the number of bases that missed a heartbeat since the last sweep.
	Missed int
	Events []ConnectivityEvent
}

// Sweep updates the liveness of all bases; call it about once a second. Missed heartbeats are ignored while the
// tunnel of a base is down, after the process was suspended, while messages arrive late, and during a mass outage.
func (r *Registry) Sweep() SweepResult {
	now := r.opts.Clock.Now()
	var found SweepResult
	var changes []Change
	r.mu.Lock()
	if slept := r.awake.look(now, now.Round(0)); slept > 0 {
		found.Events = append(found.Events, ConnectivityEvent{Reason: ControllerSuspended, Duration: slept})
		changes = append(changes, r.wokenUp(now, slept)...)
	}
	for key, bases := range r.byTunnel() {
		s := r.sights[key]
		if s == nil {
			s = &sight{}
			r.sights[key] = s
		}
		down := !r.opts.Connected(key)
		late := !down && r.opts.Delayed(key)
		news := s.down.update(ConnectivityEvent{Reason: TunnelDown}, down, now, r.opts.Speed.Of(tellAfter))
		if down {
			changes = append(changes, r.blind(bases, s, now)...)
		} else {
			bases = slices.DeleteFunc(bases, func(b *record) bool { return !b.isObserved() })
			news = append(news, s.late.update(ConnectivityEvent{Reason: ControllerBehind}, late, now, 0)...)
			late = late && now.Sub(s.late.since) < r.opts.Mass.MaxDuration
			if late {
				r.hearOut(bases, now)
			} else {
				found.Missed += countMissed(bases, now, r.opts.Speed.Of(missedAfter))
				mass, judged := r.judge(bases, s, now)
				news, changes = append(news, mass...), append(changes, judged...)
			}
			found.Queries = r.ask(bases, late, now, found.Queries)
		}
		for _, n := range news {
			n.Tunnel = string(key)
			found.Events = append(found.Events, n)
		}
	}
	r.mu.Unlock()
	r.tell(changes)
	return found
}

// byTunnel groups the bases by their tunnels. Tunnels that had bases before are included.
func (r *Registry) byTunnel() map[tunnel.Key][]*record {
	m := make(map[tunnel.Key][]*record, 2)
	for key := range r.sights {
		m[key] = nil
	}
	for _, b := range r.bases {
		m[b.info.Tunnel] = append(m[b.info.Tunnel], b)
	}
	return m
}

// wokenUp makes all queries due now, because messages may have been lost while the process was suspended.
func (r *Registry) wokenUp(now time.Time, slept time.Duration) (changes []Change) {
	for _, b := range r.bases {
		b.quietUntil = now.Add(r.grace(b.info.Tunnel))
		b.nextHealth, b.nextList = now, now
		changes = append(changes, b.observe(Observation{Reason: ControllerSuspended, Since: now.Add(-slept)})...)
	}
	return changes
}

// blind makes the missed heartbeats of bases count from now, after the grace period.
func (r *Registry) blind(bases []*record, s *sight, now time.Time) (changes []Change) {
	for _, b := range bases {
		b.quietUntil = now.Add(r.grace(b.info.Tunnel))
		if s.down.reported {
			changes = append(changes, b.observe(Observation{Reason: TunnelDown, Since: s.down.since})...)
		}
	}
	return changes
}

// hearOut makes the missed heartbeats of bases count from now, because their messages arrive late.
func (r *Registry) hearOut(bases []*record, now time.Time) {
	for _, b := range bases {
		if b.quietUntil.Before(now) {
			b.quietUntil = now
		}
		if !b.doubted.IsZero() {
			b.doubted = now
		}
	}
}

func countMissed(bases []*record, now time.Time, after time.Duration) (missed int) {
	for _, b := range bases {
		if !b.missed && b.silence(now) >= after {
			b.missed = true
			missed++
		}
	}
	return missed
}

// silence returns how long a base has sent no message although this controller could have received one.
func (r *record) silence(now time.Time) time.Duration { return now.Sub(r.heard()) }

func (r *record) heard() time.Time {
	if r.quietUntil.After(r.lastSeen) {
		return r.quietUntil
	}
	return r.lastSeen
}

// judge updates the liveness of the bases of a tunnel that is connected.
func (r *Registry) judge(bases []*record, s *sight, now time.Time) (news []ConnectivityEvent, changes []Change) {
	var dead []*record
	bases, changes = r.giveUpDoubted(bases, now)
	held := r.held(bases, now)
	many := 0
	for _, b := range bases {
		silence := b.silence(now)
		if silence < r.opts.UnreachableAfter {
			continue
		}
		if held[b.info.Identity] && (b.heldSince.IsZero() || now.Sub(b.heldSince) < r.opts.Mass.MaxDuration) {
			if b.heldSince.IsZero() {
				b.heldSince = now
			}
			b.heldUntil = now
			many++
			changes = append(changes, b.observe(Observation{Reason: MassOutage, Since: b.heard()})...)
			continue
		}
		silence = min(silence, now.Sub(b.heldUntil))
		if silence >= r.opts.DeadAfter {
			dead = append(dead, b)
		}
		if silence >= r.opts.UnreachableAfter {
			if b.liveness == Reachable {
				b.liveness = Unreachable
				changes = append(changes,
					Change{Kind: LivenessChanged, Identity: b.info.Identity, Liveness: Unreachable})
			}
			changes = append(changes, b.observe(Observation{})...)
		}
	}
	news = s.mass.update(ConnectivityEvent{Reason: MassOutage, Missing: many, Bases: len(bases)}, many > 0, now, 0)
	return news, append(changes, r.giveUp(dead, now)...)
}

// held returns the bases that miss heartbeats at the same time as too many other bases of their group.
func (r *Registry) held(bases []*record, now time.Time) map[string]bool {
	type members struct {
		list []silent
		came []time.Time
		all  int
	}
	// a reachable base sends a heartbeat every 10 s
	silence := func(b *record) bool { return b.silence(now) >= r.opts.UnreachableAfter/2 }
	if !slices.ContainsFunc(bases, silence) {
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
		case silence(b):
			g.list = append(g.list, silent{identity: b.info.Identity, heard: b.heard(), last: b.lastSeen, came: b.came})
		case !b.came.IsZero():
			g.came = append(g.came, b.came)
		}
	}
	held := map[string]bool{}
	for _, g := range groups {
		maps.Copy(held, r.opts.Mass.mass(g.list, g.came, g.all, r.opts.UnreachableAfter/2))
	}
	return held
}

// giveUpDoubted removes bases whose Node was deleted and that send no messages. It returns the bases that are not
// doubted.
func (r *Registry) giveUpDoubted(bases []*record, now time.Time) (rest []*record, changes []Change) {
	rest = bases[:0:0]
	for _, b := range bases {
		switch {
		case b.doubted.IsZero():
			rest = append(rest, b)
		case now.Sub(b.doubted) >= r.opts.UnreachableAfter/2:
			r.remove(b.info.Identity)
			changes = append(changes, Change{Kind: Disappeared, Identity: b.info.Identity})
		}
	}
	return rest, changes
}

// giveUp removes dead bases within the limit of a minute, those first that have missed heartbeats for the longest
// time. A base that this controller does not serve any more is removed after DeadAfter, if this controller has not
// begun to serve it again.
func (r *Registry) giveUp(dead []*record, now time.Time) (changes []Change) {
	if len(dead) == 0 {
		return nil
	}
	slices.SortFunc(dead, func(a, b *record) int { return a.heard().Compare(b.heard()) })
	acting, all := r.opts.Acting(), map[netip.Prefix]int{}
	for _, b := range r.bases {
		all[r.group(b)]++
	}
	maps.DeleteFunc(r.budgets, func(group netip.Prefix, _ budget) bool { return all[group] == 0 })
	for _, b := range dead {
		if !acting {
			b.lostAt = now
			continue
		}
		if !b.owned && now.Sub(b.lostAt) < r.opts.DeadAfter {
			continue
		}
		group := r.group(b)
		left := r.budgets[group]
		if b.owned && !left.take(r.opts.Deletions, all[group], now, r.opts.Speed) {
			continue
		}
		r.budgets[group] = left
		r.remove(b.info.Identity)
		changes = append(changes, Change{Kind: Disappeared, Identity: b.info.Identity, TimedOut: true})
	}
	return changes
}

// ask returns the queries that are due. While messages arrive late, health checks are omitted, because bases send
// heartbeats anyway.
func (r *Registry) ask(bases []*record, late bool, now time.Time, probes []DueQuery) []DueQuery {
	for _, b := range bases {
		id := b.info.Identity
		if r.bases[id] != b || !b.owned && !b.healthAt.IsZero() {
			continue
		}
		if !now.Before(b.nextHealth) {
			b.nextHealth = now.Add(r.opts.HealthInterval + spread(id, r.opts.HealthInterval))
			if !late || b.healthAt.IsZero() || b.away || !b.doubted.IsZero() {
				probes = append(probes, DueQuery{b.info.Tunnel, b.address(), arklet.CommandHealth})
			}
		}
		if b.owned && !now.Before(b.nextList) {
			b.nextList = now.Add(r.opts.ListInterval + spread(id, r.opts.ListInterval))
			if b.away {
				b.nextList = now.Add(r.opts.Speed.Of(askAway))
			}
			probes = append(probes, DueQuery{b.info.Tunnel, b.address(), arklet.CommandQueryAllBiz})
		}
	}
	return probes
}

// missedAfter is a heartbeat interval of 12 s, that of the slower tunnel (protocol 4.1), and some delay.
const missedAfter = 15 * time.Second

// askAway is the time between two module list queries of a base that may not have connected again.
const askAway = time.Second

// Reconnected makes the queries to the bases of a tunnel due now, because their messages may have been lost. Bases
// may connect again later, so each one is queried every second until it sends a message. Missed heartbeats count
// after the grace period.
func (r *Registry) Reconnected(key tunnel.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opts.Clock.Now()
	for _, b := range r.bases {
		if b.info.Tunnel == key {
			b.away, b.nextHealth, b.nextList = true, now, now
			b.quietUntil = now.Add(r.grace(key))
		}
	}
}

// Unobserved returns the number of bases whose missed heartbeats are ignored, by reason.
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
