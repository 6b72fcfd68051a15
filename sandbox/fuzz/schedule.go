package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Schedule describes one run of the fuzzer. Equal schedules result in equal scenarios.
type Schedule struct {
	// Seed is the seed of the schedule. A shrunk schedule keeps the seed of the original schedule.
	Seed uint64 `json:"seed"`
	// Speed is the speed of the sandbox. Default: the constant Speed.
	Speed int `json:"speed,omitempty"`
	// Replicas is the number of controllers.
	Replicas  int        `json:"replicas"`
	Bases     []Bases    `json:"bases"`
	Workloads []Workload `json:"workloads"`
	Actions   []Action   `json:"moves"`
}

// Bases is a set of bases with the same settings.
type Bases struct {
	Tunnel      v1alpha1.Tunnel     `json:"tunnel"`
	Count       int                 `json:"count"`
	Activation  v1alpha1.Activation `json:"activation"`
	InstallTime time.Duration       `json:"installTime"`
	// RequestTime is the time that a module takes to handle a request.
	RequestTime time.Duration `json:"requestTime,omitempty"`
}

// name returns the name of the set of bases. A schedule has at most one set per tunnel.
func (b Bases) name() string { return string(b.Tunnel) }

// Workload is an API object whose Pods request a module.
type Workload struct {
	Module   string `json:"module"`
	Kind     string `json:"kind"` // Deployment, peer Deployment, DaemonSet, StatefulSet or Pod
	Replicas int    `json:"replicas"`
}

// Action is an operation or a disruption.
type Action struct {
	// When is the event after the previous action that this action waits for.
	When Trigger `json:"when"`
	// Do is the name of the action.
	Do string `json:"do"`
	// Workload is the index in Schedule.Workloads of the workload that an operation changes.
	Workload int `json:"workload,omitempty"`
	// Base is the name of the base that a disruption affects, as SET-N.
	Base string `json:"base,omitempty"`
	// Replica is the number of the controller that a disruption affects, from 1.
	Replica int `json:"replica,omitempty"`
	// Lasts is how many actions follow before the disruption ends. At the end of the schedule, all disruptions end.
	Lasts int `json:"lasts,omitempty"`
	// Skip is how many requests or messages are not disrupted before the first one is disrupted.
	Skip int `json:"skip,omitempty"`
	// Nth is the number, from 1, of the command that the trigger Commanded waits for.
	Nth int `json:"nth,omitempty"`
	// For is the minimum duration of the disruption.
	For time.Duration `json:"for,omitempty"`
}

func (m Action) String() string {
	s := string(m.When)
	if m.Nth > 1 {
		s += fmt.Sprintf(" (%d)", m.Nth)
	}
	s += ": " + m.Do
	switch {
	case m.Base != "":
		s += " " + m.Base
	case m.Replica > 1:
		s += fmt.Sprintf(" %d", m.Replica)
	}
	return s
}

// String returns the actions of the schedule in one line.
func (s Schedule) String() string {
	moves := make([]string, len(s.Actions))
	for i, m := range s.Actions {
		moves[i] = m.String()
	}
	return strings.Join(moves, "; ")
}

func (s Schedule) clone() Schedule {
	s.Bases, s.Workloads, s.Actions = slices.Clone(s.Bases), slices.Clone(s.Workloads), slices.Clone(s.Actions)
	return s
}

func (s Schedule) bases() (names []string) {
	for _, set := range s.Bases {
		for i := range set.Count {
			names = append(names, fmt.Sprintf("%s-%d", set.name(), i+1))
		}
	}
	return names
}

// basesFor returns the names of the bases that use the tunnel required by an action.
func (s Schedule) basesFor(kind actionSpec) []string {
	return slices.DeleteFunc(s.bases(), func(base string) bool {
		return kind.tunnel != "" && !s.hasTunnel(Action{Do: kind.name, Base: base})
	})
}

// has reports whether keep returns true for at least one action of the schedule.
func (s Schedule) has(keep func(*actionSpec) bool) bool {
	return slices.ContainsFunc(s.Actions, func(m Action) bool { return keep(actionSpecs[m.Do]) })
}

func (s Schedule) mayCause(e effect) bool {
	return s.has(func(m *actionSpec) bool { return m.mayCause(e) })
}

// needsOwnSandbox reports whether the schedule needs its own sandbox, because it disrupts components that are shared
// between schedules, or needs more than one controller.
func (s Schedule) needsOwnSandbox() bool {
	return s.Replicas > 1 || s.has((*actionSpec).affectsAllSchedules)
}

func (s Schedule) releases() (n int) {
	for _, m := range s.Actions {
		if m.Do == release || m.Do == rollback {
			n++
		}
	}
	return n
}

// valid reports whether the schedule contains all bases and workloads that its actions need.
func (s Schedule) valid() bool {
	bases := s.bases()
	if len(bases) == 0 || len(s.Workloads) == 0 || s.Replicas < 1 {
		return false
	}
	// A bare Pod is not recreated when its base is removed. Bases that are added have new names.
	barePods := slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Kind == pod })
	if barePods && s.has(func(m *actionSpec) bool { return m.mayCause(unreachable) || m.name == upgrade }) {
		return false
	}
	if i := slices.IndexFunc(s.Actions, func(m Action) bool { return m.Do == upgrade }); i >= 0 {
		if slices.ContainsFunc(s.Actions[i+1:], func(m Action) bool { return m.Base != "" || m.Do == upgrade }) {
			return false
		}
	}
	for _, m := range s.Actions {
		kind := actionSpecs[m.Do]
		if kind == nil || m.Workload >= len(s.Workloads) || m.Base != "" && !slices.Contains(bases, m.Base) ||
			m.Replica > s.Replicas {
			return false
		}
		if (kind.tunnel != "" || m.When == Commanded) && !s.hasTunnel(m) {
			return false
		}
		if kind.kinds != nil && !slices.Contains(kind.kinds, s.Workloads[m.Workload].Kind) {
			return false
		}
	}
	for _, w := range s.Workloads {
		if w.Replicas < 1 || w.Replicas > len(bases) {
			return false
		}
	}
	return true
}

// hasTunnel reports whether the base of an action uses the tunnel that the action requires. If the action has no
// base, it reports whether any base uses the tunnel.
func (s Schedule) hasTunnel(m Action) bool {
	tunnel := actionSpecs[m.Do].tunnel
	if tunnel == "" || m.When == Commanded {
		tunnel = v1alpha1.TunnelMQTT
	}
	return slices.ContainsFunc(s.Bases, func(b Bases) bool {
		return b.Tunnel == tunnel && (m.Base == "" || actionSpecs[m.Do].tunnel == "" || withinSet(m.Base, b))
	})
}

// Trigger is an event that an action waits for. The action waits for at most two seconds.
type Trigger string

// The triggers.
const (
	Immediately  Trigger = "immediately"
	InstallBegun Trigger = "an install has started"
	Installed    Trigger = "a base serves the newest version"
	Scheduled    Trigger = "a new Pod has a Node"
	NewReady     Trigger = "a new Pod is Ready"
	Ending       Trigger = "a Pod is being deleted"
	Settled      Trigger = "every Pod is Ready"
	// Commanded means that a controller sends the n-th install or uninstall command to the broker.
	Commanded Trigger = "a command is sent"
)

var triggers = []Trigger{Immediately, InstallBegun, Installed, Scheduled, NewReady, Ending, Settled, Commanded}
