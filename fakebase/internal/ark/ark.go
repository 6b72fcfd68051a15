// Package ark is the part of a base that keeps its modules: which are
// installed, in which state, how they got there, and which version of a name
// takes the traffic. It is pure: it does no I/O, takes every time as an
// argument and never blocks, so that its rules can be tested by themselves.
//
// The rules are those of sofa-ark (protocol 5). The type Container holds the
// modules of one process; it is not safe for concurrent use, its owner locks.
package ark

import (
	"errors"
	"strings"
	"time"
)

// State is where a biz stands in its life, spelled as Java's enum constant
// (BizState, protocol 5.1). The zero value is no state.
type State string

// The states of protocol 5.1. Unresolved and Stopped are never listed: a biz
// in them is not registered.
const (
	Unresolved  State = "UNRESOLVED"
	Resolved    State = "RESOLVED"
	Activated   State = "ACTIVATED"
	Deactivated State = "DEACTIVATED"
	Broken      State = "BROKEN"
	Stopped     State = "STOPPED"
)

// Lower returns the spelling that Java's BizState.toString gives, which the
// HTTP tunnel and simpleBiz carry (protocol 4.3): the lower-case name.
func (s State) Lower() string { return strings.ToLower(string(s)) }

// Reason says why a state record was written, spelled as Java's enum constant.
type Reason string

// The reasons of protocol 4.3.
const (
	Created         Reason = "CREATED"
	Started         Reason = "STARTED"
	InstallFailed   Reason = "INSTALL_FAILED"
	UninstallFailed Reason = "UN_INSTALL_FAILED"
	Switched        Reason = "SWITCHED"
	Killing         Reason = "KILLING"
	Terminated      Reason = "STOPPED"
)

// Text returns the spelling that Java's StateChangeReason.toString gives,
// which the HTTP tunnel carries (protocol 4.3).
func (r Reason) Text() string {
	switch r {
	case Created:
		return "Created"
	case Started:
		return "Started"
	case InstallFailed:
		return "Install Failed"
	case UninstallFailed:
		return "Uninstall Failed"
	case Switched:
		return "Switched"
	case Killing:
		return "Killing"
	case Terminated:
		return "Stopped"
	default:
		return "Undefine"
	}
}

// Record is one entry of a biz's history.
type Record struct {
	ChangeTime time.Time `json:"changeTime"`
	State      State     `json:"state"`
	Reason     Reason    `json:"reason"`
	Message    string    `json:"message"`
}

// Spec is what a jar's manifest says about the biz in it.
type Spec struct {
	Name           string `json:"name"`
	Version        string `json:"version"`
	Priority       int    `json:"priority"`
	WebContextPath string `json:"webContextPath"`
	MainClass      string `json:"mainClass"`
	// URL is where the jar came from, as the request gave it.
	URL string `json:"url,omitempty"`
	// Metaspace is what the biz occupies while it is installed, in bytes.
	Metaspace int64 `json:"metaspace"`
}

// ID is the biz identity, name:version.
func (s Spec) ID() string { return ID(s.Name, s.Version) }

// ID joins a name and a version into a biz identity.
func ID(name, version string) string { return name + ":" + version }

// Biz is one installed module.
type Biz struct {
	Spec
	State   State    `json:"state"`
	Records []Record `json:"records"`
	// Origin says which of the three ways of deployment brought it.
	Origin Origin `json:"origin"`

	seq       uint64 // order of registration
	activated uint64 // order of activation; 0 = never
}

// Origin is how a biz came to be installed. Health treats them differently
// (protocol 8.4).
type Origin string

// The three ways a module is deployed.
const (
	// Hot is an install command to a running base.
	Hot Origin = "hot"
	// Static is a module that the base carries and starts with itself.
	Static Origin = "static"
	// Replay is a module from the baseline that a starting base asked for.
	Replay Origin = "replay"
)

// Activation is the rule for a version that starts while another version of
// the same name is active (protocol 5.3).
type Activation int

const (
	// ActivateDefault leaves the old version active; the new one becomes
	// deactivated. It is what a real base does without further flags.
	ActivateDefault Activation = iota
	// ActivateNewModule makes the new version active and deactivates the old
	// one, like -Dactivate.new.module=true.
	ActivateNewModule
	// ActivateMulti makes every version active, like
	// -Dsofa.ark.activate.multi.biz.version.enable=true.
	ActivateMulti
)

// Change is one step of one biz. The changes of one transition (a switch
// changes two biz) carry the same time: there is no instant between them.
type Change struct {
	Name, Version string
	From, To      State
	Reason        Reason
	Message       string
	Time          time.Time
}

// Errors that a container answers with; test with errors.Is.
var (
	// ErrRegistered: a biz of this identity is already registered.
	ErrRegistered = errors.New("has been installed or registered")
	// ErrNotFound: no biz of this identity is registered.
	ErrNotFound = errors.New("not found")
	// ErrState: the biz is in a state that does not allow the step.
	ErrState = errors.New("illegal state")
)
