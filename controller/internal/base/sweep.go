package base

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// Probe is a question that is due.
type Probe struct {
	Tunnel  tunnel.Key
	To      tunnel.Address
	Command arklet.Command
}

// Swept is what a sweep found.
type Swept struct {
	// Probes are the questions that are due now.
	Probes []Probe
	// Bases is how many there are.
	Bases int
	// Missed is how many bases missed a heartbeat since the last sweep.
	Missed int
	// News tells which blindness began or ended.
	News []News
}

// Sweep moves bases between the stages of silence. Call it about once a second; it costs nothing
// for a base with nothing due. Silence counts only while it means something: while the base's
// tunnel is up, the process was awake, what bases say comes in time, and not half of the bases fell silent together.
func (r *Registry) Sweep() Swept {
	now := r.opts.Clock.Now()
	var found Swept
	var changes []Change
	r.mu.Lock()
	if slept := r.awake.look(now, now.Round(0)); slept > 0 {
		found.News = append(found.News, News{Blind: ControllerSuspended, Lasted: slept})
		changes = append(changes, r.wokenUp(now, slept)...)
	}
	for key, bases := range r.byTunnel() {
		s := r.sights[key]
		if s == nil {
			s = &sight{}
			r.sights[key] = s
		}
		down, news := s.look(r.opts.Sees(key), now, r.opts.Speed.Of(tellAfter))
		late := false
		if !down {
			bases = slices.DeleteFunc(bases, func(b *record) bool { return !b.isObserved() })
			var more []News
			late, more = s.behind(r.opts.Behind(key), now, r.opts.Mass.AtMost)
			news = append(news, more...)
		}
		switch {
		case down:
			changes = append(changes, r.blind(bases, s, now)...)
		case late:
			r.hearOut(bases, now)
			found.Probes = r.ask(bases, true, now, found.Probes)
		default:
			var mass []News
			found.Missed += countMissed(bases, now, r.opts.Speed.Of(missedAfter))
			mass, changes = r.judge(bases, s, now, changes)
			news = append(news, mass...)
			found.Probes = r.ask(bases, false, now, found.Probes)
		}
		for _, n := range news {
			n.Tunnel = string(key)
			found.News = append(found.News, n)
		}
	}
	found.Bases = len(r.bases)
	r.mu.Unlock()
	r.tell(changes)
	return found
}

// byTunnel sorts the bases by their tunnels; those of which the last base went are kept for their
// news.
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

// wokenUp has all bases asked at once: what they said while the process stood still may be lost.
func (r *Registry) wokenUp(now time.Time, slept time.Duration) (changes []Change) {
	for _, b := range r.bases {
		b.quietUntil = now.Add(r.grace(b.info.Tunnel))
		b.nextHealth, b.nextList = now, now
		changes = append(changes, b.observe(Observation{Blind: ControllerSuspended, Since: now.Add(-slept)})...)
	}
	return changes
}

// blind stops the silence clock of the bases of a tunnel that is down.
func (r *Registry) blind(bases []*record, s *sight, now time.Time) (changes []Change) {
	for _, b := range bases {
		b.quietUntil = now.Add(r.grace(b.info.Tunnel))
		if s.told {
			changes = append(changes, b.observe(Observation{Blind: TunnelDown, Since: s.downSince})...)
		}
	}
	return changes
}

// hearOut stops the silence clock of bases whose words wait to be read.
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

// silence is for how long a base could have been heard and was not.
func (r *record) silence(now time.Time) time.Duration { return now.Sub(r.heard()) }

// heard is when its silence began to count.
func (r *record) heard() time.Time {
	if r.quietUntil.After(r.lastSeen) {
		return r.quietUntil
	}
	return r.lastSeen
}

// judge moves the bases of a tunnel that is up between the stages of silence.
func (r *Registry) judge(bases []*record, s *sight, now time.Time, changes []Change) (news []News, _ []Change) {
	var dead []*record
	bases, given := r.giveUpDoubted(bases, now)
	changes = append(changes, given...)
	held := r.held(bases, now)
	many := 0
	for _, b := range bases {
		silence := b.silence(now)
		if silence < r.opts.UnreachableAfter {
			continue
		}
		if held[b.info.Identity] && (b.heldSince.IsZero() || now.Sub(b.heldSince) < r.opts.Mass.AtMost) {
			if b.heldSince.IsZero() {
				b.heldSince = now
			}
			b.heldUntil = now
			many++
			changes = append(changes, b.observe(Observation{Blind: MassSilence, Since: b.heard()})...)
			continue
		}
		if silence = min(silence, now.Sub(b.heldUntil)); silence >= r.opts.DeadAfter {
			dead = append(dead, b)
		}
		if silence >= r.opts.UnreachableAfter {
			if b.liveness == Alive {
				b.liveness = Unreachable
				changes = append(changes, Change{Kind: LivenessChanged, Identity: b.info.Identity, Liveness: Unreachable})
			}
			changes = append(changes, b.observe(Observation{})...) // its silence is its own
		}
	}
	switch {
	case many > 0 && s.mass.IsZero():
		s.mass = now
		news = []News{{Blind: MassSilence, Silent: many, Bases: len(bases)}}
	case many == 0 && !s.mass.IsZero():
		news = []News{{Blind: MassSilence, Ended: true, Lasted: now.Sub(s.mass)}}
		s.mass = time.Time{}
	}
	return news, append(changes, r.giveUp(dead, now)...)
}

// held returns the bases that miss heartbeats at the same time as too many other bases of their group.
func (r *Registry) held(bases []*record, now time.Time) map[string]bool {
	type members struct {
		list []silent
		came []time.Time
		all  int
	}
	silence := func(b *record) bool { return b.silence(now) >= r.opts.UnreachableAfter/2 } // a reachable base sends a heartbeat every 10 s
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

// giveUpDoubted forgets bases whose Node was deleted and that do not speak, and returns the others:
// those that may still speak are not counted as silent.
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

// giveUp forgets dead bases, the longest silent first, as many as may go at a time. One that
// another controller serves is only forgotten here; who serves one that was lost shows when this
// controller may act again, and has looked.
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
		changes = append(changes, Change{Kind: Disappeared, Identity: b.info.Identity, Silent: true})
	}
	return changes
}

// ask returns the questions that are due. With late answers it leaves those for health out: that a base lives
// shows in what it says by itself, and who is behind needs no more to read.
func (r *Registry) ask(bases []*record, late bool, now time.Time, probes []Probe) []Probe {
	for _, b := range bases {
		id := b.info.Identity
		if r.bases[id] != b || !b.owned && !b.healthAt.IsZero() {
			continue
		}
		if !now.Before(b.nextHealth) {
			b.nextHealth = now.Add(r.opts.HealthInterval + spread(id, r.opts.HealthInterval))
			if !late || b.healthAt.IsZero() || b.away || !b.doubted.IsZero() {
				probes = append(probes, Probe{b.info.Tunnel, b.address(), arklet.CommandHealth})
			}
		}
		if b.owned && !now.Before(b.nextList) {
			b.nextList = now.Add(r.opts.ListInterval + spread(id, r.opts.ListInterval))
			if b.away {
				b.nextList = now.Add(r.opts.Speed.Of(askAway))
			}
			probes = append(probes, Probe{b.info.Tunnel, b.address(), arklet.CommandQueryAllBiz})
		}
	}
	return probes
}

// missedAfter is one heartbeat of 12 s (the slower tunnel, protocol 4.1) and some delay.
const missedAfter = 15 * time.Second

// askAway is the pause between two questions to a base that may not be back yet.
const askAway = time.Second

// Reconnected makes every question to the bases of a tunnel due at once: what was said meanwhile is
// lost. They may take longer to connect again, and hear nothing before; so each is asked every
// second until it speaks, and has then Returned. Until its grace is over its silence does not count.
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

// Unobserved counts the bases from whose silence nothing is concluded, by the reason.
func (r *Registry) Unobserved() map[Blindness]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[Blindness]int{TunnelDown: 0, ControllerSuspended: 0, MassSilence: 0}
	for _, b := range r.bases {
		if b.observed.Blind != "" && b.isObserved() {
			n[b.observed.Blind]++
		}
	}
	return n
}
