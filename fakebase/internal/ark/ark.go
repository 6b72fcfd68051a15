// Package ark keeps the modules of a base: their states, their histories, and the active version of each module. It
// implements the rules of sofa-ark (protocol 5). The functions do no I/O, get the time as an argument, and never block.
package ark

import (
	"errors"
	"strings"
	"time"
)

// State is the state of a biz (module). The values are the constant names of the Java enum BizState (protocol 5.1).
// The zero value is not a state.
type State string

// The states of protocol 5.1. A biz in the state Unresolved or Stopped is not registered, so it never appears in a
// list.
const (
	Unresolved  State = "UNRESOLVED"
	Resolved    State = "RESOLVED"
	Activated   State = "ACTIVATED"
	Deactivated State = "DEACTIVATED"
	Broken      State = "BROKEN"
	Stopped     State = "STOPPED"
)

// Lower returns the state name in lower case, like BizState.toString in Java. The HTTP tunnel and simpleBiz messages
// use this form (protocol 4.3).
func (s State) Lower() string { return strings.ToLower(string(s)) }

// Reason is the reason for a state change. The values are the constant names of the Java enum StateChangeReason.
type Reason string

// The reasons for a state change (protocol 4.3).
const (
	Created         Reason = "CREATED"
	Started         Reason = "STARTED"
	InstallFailed   Reason = "INSTALL_FAILED"
	UninstallFailed Reason = "UN_INSTALL_FAILED"
	Switched        Reason = "SWITCHED"
	Killing         Reason = "KILLING"
	Terminated      Reason = "STOPPED"
)

// Text returns the text of the reason, like StateChangeReason.toString in Java. The HTTP tunnel uses it (protocol
// 4.3).
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

// Record is an entry in the state history of a biz.
type Record struct {
	ChangeTime time.Time `json:"changeTime"`
	State      State     `json:"state"`
	Reason     Reason    `json:"reason"`
	Message    string    `json:"message"`
}

// Spec contains the properties of a biz that the manifest of its jar defines.
type Spec struct {
	Name           string `json:"name"`
	Version        string `json:"version"`
	Priority       int    `json:"priority"`
	WebContextPath string `json:"webContextPath"`
	MainClass      string `json:"mainClass"`
	// URL is the URL of the jar, as in the install request.
	URL string `json:"url,omitempty"`
	// Metaspace is the number of bytes that the installed biz uses.
	Metaspace int64 `json:"metaspace"`
}

// ID returns the identity of the biz in the form name:version.
func (s Spec) ID() string { return ID(s.Name, s.Version) }

// ID returns the biz identity for a name and a version, in the form name:version.
func ID(name, version string) string { return name + ":" + version }

// Biz is an installed biz (module).
type Biz struct {
	Spec
	State   State    `json:"state"`
	Records []Record `json:"records"`
	// Origin is the way in which the biz was deployed.
	Origin Origin `json:"origin"`

	seq       uint64 // position in the order of registration
	activated uint64 // position in the order of activation; 0 means never activated
}

// Origin is the way in which a biz was deployed. The health of a base depends on it (protocol 8).
type Origin string

// The possible origins of a module.
const (
	// Hot is the origin of a module that a command installed on a running base.
	Hot Origin = "hot"
	// Static is the origin of a module that is part of the base and starts together with it.
	Static Origin = "static"
	// Replay is the origin of a baseline module that the base requested when it started.
	Replay Origin = "replay"
)

// Activation is the rule that applies when a version starts while another version of the same module is active
// (protocol 5.3).
type Activation int

const (
	// ActivateDefault keeps the old version active and deactivates the new version. It is the default of a real base.
	ActivateDefault Activation = iota
	// ActivateNewModule activates the new version and deactivates the old version, like -Dactivate.new.module=true.
	ActivateNewModule
	// ActivateMulti keeps all versions active, like -Dsofa.ark.activate.multi.biz.version.enable=true.
	ActivateMulti
)

// StateChange is a change of the state of a biz. Changes that happen together, such as the two changes of a switch,
// have the same time.
type StateChange struct {
	Name, Version string
	From, To      State
	Reason        Reason
	Message       string
	Time          time.Time
}

// The errors that the methods of a Container wrap.
var (
	// ErrRegistered means that a biz with this identity is already registered.
	ErrRegistered = errors.New("has been installed or registered")
	// ErrNotFound means that no biz with this identity is registered.
	ErrNotFound = errors.New("not found")
	// ErrState means that the state of the biz does not allow the operation.
	ErrState = errors.New("illegal state")
)
