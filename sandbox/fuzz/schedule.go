package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Schedule is what one run does. Equal schedules become equal scenarios.
type Schedule struct {
	// Seed it was drawn from; a smaller schedule keeps that of the one it was made of.
	Seed uint64 `json:"seed"`
	// Speed of the sandbox; 0 = the constant of that name.
	Speed int `json:"speed,omitempty"`
	// Replicas of the controller.
	Replicas  int        `json:"replicas"`
	Bases     []Bases    `json:"bases"`
	Workloads []Workload `json:"workloads"`
	Moves     []Move     `json:"moves"`
}

// Bases are a set of equal bases.
type Bases struct {
	Tunnel      v1alpha1.Tunnel     `json:"tunnel"`
	Count       int                 `json:"count"`
	Activation  v1alpha1.Activation `json:"activation"`
	InstallTime time.Duration       `json:"installTime"`
	// RequestTime is how long modules work on a request.
	RequestTime time.Duration `json:"requestTime,omitempty"`
}

// name is that of the set: there is one for each tunnel.
func (b Bases) name() string { return string(b.Tunnel) }

// Workload is a module and what runs it.
type Workload struct {
	Module   string `json:"module"`
	Kind     string `json:"kind"` // Deployment, peer Deployment, DaemonSet, StatefulSet or Pod
	Replicas int    `json:"replicas"`
}

// Move is one thing that is done: an operation, or a disturbance that begins or ends.
type Move struct {
	// When it is done: what is waited for, after the move before.
	When Trigger `json:"when"`
	// Do names the move.
	Do string `json:"do"`
	// Workload it is about, by its index, for operations.
	Workload int `json:"workload,omitempty"`
	// Base it is about, as SET-N, for disturbances of bases.
	Base string `json:"base,omitempty"`
	// Replica of the controller, from 1, for its disturbances.
	Replica int `json:"replica,omitempty"`
	// Lasts says how many moves later a disturbance ends; one that lasts longer than the schedule
	// ends with it.
	Lasts int `json:"lasts,omitempty"`
	// Skip is how many writes pass before one is struck, for disturbances that count them.
	Skip int `json:"skip,omitempty"`
	// Nth is for which command is waited, from 1, with the trigger Commanded.
	Nth int `json:"nth,omitempty"`
	// For is how long a disturbance lasts at least.
	For time.Duration `json:"for,omitempty"`
}

func (m Move) String() string {
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

// String is a line for people.
func (s Schedule) String() string {
	moves := make([]string, len(s.Moves))
	for i, m := range s.Moves {
		moves[i] = m.String()
	}
	return strings.Join(moves, "; ")
}

// clone copies the schedule, so that a change of the copy leaves it as it is.
func (s Schedule) clone() Schedule {
	s.Bases, s.Workloads, s.Moves = slices.Clone(s.Bases), slices.Clone(s.Workloads), slices.Clone(s.Moves)
	return s
}

// bases are the names of all bases.
func (s Schedule) bases() (names []string) {
	for _, set := range s.Bases {
		for i := range set.Count {
			names = append(names, fmt.Sprintf("%s-%d", set.name(), i+1))
		}
	}
	return names
}

// basesFor are the names of those that a move can be about: its tunnel may have to be theirs.
func (s Schedule) basesFor(kind move) []string {
	return slices.DeleteFunc(s.bases(), func(base string) bool {
		return kind.tunnel != "" && !s.reaches(Move{Do: kind.name, Base: base})
	})
}

// has tells whether a move is among those of the schedule.
func (s Schedule) has(keep func(*move) bool) bool {
	return slices.ContainsFunc(s.Moves, func(m Move) bool { return keep(moves[m.Do]) })
}

// may reports whether a move of the schedule has one of the effects.
func (s Schedule) may(e effect) bool {
	return s.has(func(m *move) bool { return m.may(e) })
}

// alone says whether the schedule needs a sandbox for itself: it disturbs what all schedules there have
// in common, or wants another number of controllers.
func (s Schedule) alone() bool { return s.Replicas > 1 || s.has((*move).shared) }

// disturbances is how many of the moves are.
func (s Schedule) disturbances() (n int) {
	for _, m := range s.Moves {
		if moves[m.Do].disturbs() {
			n++
		}
	}
	return n
}

// releases is how many releases there are, forth or back.
func (s Schedule) releases() (n int) {
	for _, m := range s.Moves {
		if m.Do == release || m.Do == rollback {
			n++
		}
	}
	return n
}

// valid says whether all that the moves are about is there.
func (s Schedule) valid() bool {
	bases := s.bases()
	if len(bases) == 0 || len(s.Workloads) == 0 || s.Replicas < 1 {
		return false
	}
	// A Pod that nobody makes anew goes with its base; and new bases have other names.
	lone := slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Kind == pod })
	if lone && s.has(func(m *move) bool { return m.may(unreachable) || m.name == upgrade }) {
		return false
	}
	if i := slices.IndexFunc(s.Moves, func(m Move) bool { return m.Do == upgrade }); i >= 0 {
		if slices.ContainsFunc(s.Moves[i+1:], func(m Move) bool { return m.Base != "" || m.Do == upgrade }) {
			return false
		}
	}
	for _, m := range s.Moves {
		kind := moves[m.Do]
		if kind == nil || m.Workload >= len(s.Workloads) || m.Base != "" && !slices.Contains(bases, m.Base) || m.Replica > s.Replicas {
			return false
		}
		if (kind.tunnel != "" || m.When == Commanded) && !s.reaches(m) {
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

// reaches says whether there is what a move needs that is about a tunnel: its base has it, or any base.
func (s Schedule) reaches(m Move) bool {
	tunnel := moves[m.Do].tunnel
	if tunnel == "" || m.When == Commanded {
		tunnel = v1alpha1.TunnelMQTT
	}
	return slices.ContainsFunc(s.Bases, func(b Bases) bool {
		return b.Tunnel == tunnel && (m.Base == "" || moves[m.Do].tunnel == "" || withinSet(m.Base, b))
	})
}

// Trigger is what is waited for before a move. What is not seen within two seconds is not waited for
// any longer.
type Trigger string

// The triggers.
const (
	AtOnce       Trigger = "at once"
	InstallBegun Trigger = "an install has begun"
	Installed    Trigger = "a base serves the newest version"
	Scheduled    Trigger = "a new Pod has a Node"
	NewReady     Trigger = "a new Pod is Ready"
	Ending       Trigger = "a Pod is being deleted"
	Settled      Trigger = "every Pod is Ready"
	// Commanded is the n-th command, to install or to uninstall, that passes to the broker.
	Commanded Trigger = "a command passes"
)

var triggers = []Trigger{AtOnce, InstallBegun, Installed, Scheduled, NewReady, Ending, Settled, Commanded}
