package fuzz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

type generator struct {
	only []string // names of the actions to use; nil means all actions
	// beyond allows faults that a correct API server never causes.
	beyond bool
	// controllers is the maximum number of controllers; 0 means unlimited.
	controllers int
	// speed is the speed of the sandboxes; 0 means Speed.
	speed int
}

// controllersOf returns the maximum number of controllers in a sandbox; 0 means unlimited. A custom controller has
// the number of replicas in the configuration, by default 1.
func controllersOf(config *v1alpha1.Sandbox) int {
	switch c := config.Spec.Controller; {
	case len(c.Command) == 0:
		return 0
	case c.Replicas == nil:
		return 1
	default:
		return *c.Replicas
	}
}

// fits reports whether a sandbox supports the number of controllers that the schedule needs.
func (g generator) fits(s Schedule) bool { return g.controllers == 0 || s.Replicas <= g.controllers }

// generate returns the schedule for a seed. The same seed always results in the same schedule.
func (g generator) generate(seed uint64) Schedule {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable, not secret
	for {
		if s := g.random(r); s.valid() && len(s.Actions) > 0 {
			s.Seed, s.Speed = seed, g.speed
			return s
		}
	}
}

func (g generator) random(r *rand.Rand) Schedule {
	// Most schedules disrupt only their own objects, so that they can share a sandbox.
	shareable := g.only == nil && r.IntN(5) < 4
	s := Schedule{Replicas: 1}
	if !shareable && r.IntN(2) == 0 {
		s.Replicas = 2
	}
	activations := []v1alpha1.Activation{v1alpha1.ActivationNewModule, v1alpha1.ActivationMulti}
	installs := []time.Duration{0, 0, time.Second, 5 * time.Second}
	// the same at any speed; much shorter than MODULE_DRAIN at MaxSpeed
	requests := []time.Duration{0, 0, 0, 100 * time.Millisecond}
	set := Bases{Count: 1 + r.IntN(3),
		Tunnel:     pick(r, []v1alpha1.Tunnel{v1alpha1.TunnelMQTT, v1alpha1.TunnelMQTT, v1alpha1.TunnelHTTP}),
		Activation: pick(r, activations), InstallTime: pick(r, installs), RequestTime: pick(r, requests)}
	s.Bases = append(s.Bases, set)
	if r.IntN(4) == 0 {
		other := Bases{Count: 1, Tunnel: v1alpha1.TunnelHTTP, Activation: set.Activation, InstallTime: set.InstallTime,
			RequestTime: set.RequestTime}
		if set.Tunnel == v1alpha1.TunnelHTTP {
			other.Tunnel = v1alpha1.TunnelMQTT
		}
		s.Bases = append(s.Bases, other)
	}
	bases := s.bases()
	for i := range 1 + r.IntN(5)/4 {
		s.Workloads = append(s.Workloads, Workload{
			Module: fmt.Sprintf("biz%d", i+1),
			Kind: pick(r, []string{deployment, deployment, deployment, deployment, daemonSet, daemonSet, statefulSet,
				peer, pod}), Replicas: len(bases) - r.IntN(2)*r.IntN(len(bases)),
		})
	}
	for i := range s.Workloads {
		s.Workloads[i].fit(len(bases))
	}
	// Most schedules have no action that removes modules, so that every check applies.
	keepsModules := g.only == nil && r.IntN(3) > 0
	// Half of the schedules settle quickly, and all checks apply to them: no command is repeated, and endpoints
	// follow their Pods.
	settlesFast := g.only == nil && r.IntN(2) == 0
	var operations, disruptiveActions []actionSpec
	for _, m := range allActions {
		switch {
		case keepsModules && m.mayCause(losesRequests|leavesGap),
			settlesFast && (m.slow() || m.mayCause(repeatsCommands|staleEndpoints)):
			continue
		case shareable && m.affectsAllSchedules(), m.tunnel != "" && !s.hasTunnel(Action{Do: m.name}):
			continue
		case g.only == nil && m.breaksContract() && !g.beyond, g.only != nil && !slices.Contains(g.only, m.name):
			continue
		}
		if m.isDisruption() {
			disruptiveActions = append(disruptiveActions, m)
		} else {
			operations = append(operations, m)
		}
	}
	for _, list := range order(r, operations, disruptiveActions) {
		if len(list) == 0 {
			continue
		}
		kind := pickWeighted(r, list)
		m := Action{Do: kind.name, When: pick(r, triggers)}
		if m.When == Commanded {
			m.Nth = 1 + r.IntN(3)
		}
		if kind.name == uninstalled { // otherwise, an older list may make a Pod Ready
			m.When, m.Nth = Settled, 0
		}
		switch {
		case kind.targetsBase():
			m.Base = pick(r, s.basesFor(kind))
		case kind.resource == controllers || kind.resource == brokerConnection:
			m.Replica = 1 + r.IntN(s.Replicas)
		case !kind.isDisruption() && kind.name != addBase:
			m.Workload = r.IntN(len(s.Workloads))
		}
		if kind.isDisruption() {
			m.Lasts, m.For = r.IntN(3), time.Duration(r.IntN(8))*200*time.Millisecond
			if kind.canSkip() { // without another action there may be no matching request
				m.Lasts, m.Skip = max(m.Lasts, 1), r.IntN(6)
			}
		}
		if m.When == Commanded && !s.hasTunnel(Action{Do: release, When: Commanded}) {
			m.When, m.Nth = InstallBegun, 0
		}
		s.Actions = append(s.Actions, m)
	}
	return s
}

// order determines the kinds of the actions of a schedule. For each action, in random order, it returns the list from
// which the action is selected: disruptiveActions for one to five actions (three on average), and operations for one
// to four actions.
func order(r *rand.Rand, operations, disruptiveActions []actionSpec) (lists [][]actionSpec) {
	for range 1 + r.IntN(5) {
		lists = append(lists, disruptiveActions)
	}
	for range 1 + r.IntN(4) {
		lists = append(lists, operations)
	}
	r.Shuffle(len(lists), func(i, k int) { lists[i], lists[k] = lists[k], lists[i] })
	return lists
}

func withinSet(base string, b Bases) bool {
	for i := range b.Count {
		if base == fmt.Sprintf("%s-%d", b.name(), i+1) {
			return true
		}
	}
	return false
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func pickWeighted(r *rand.Rand, list []actionSpec) actionSpec {
	total := 0
	for _, m := range list {
		total += m.weight
	}
	n := r.IntN(total)
	for _, m := range list {
		n -= m.weight
		if n < 0 {
			return m
		}
	}
	return list[len(list)-1]
}
