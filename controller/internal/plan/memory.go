package plan

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Memory is what is known of a module on a base besides the list of the base. Next returns a new Memory; other parts
// of the controller record there what they do and observe.
type Memory struct {
	// Installed are the versions that were installed for Pods. All other versions are left alone.
	Installed map[string]Installed
	// Failed are the last failures of commands.
	Failed map[Attempt]Failure
	// Replacing is the version that is being replaced by another jar of the same version; nil if there is none.
	Replacing *Replacing
}

// NewMemory returns an empty Memory.
func NewMemory() Memory {
	return Memory{Installed: map[string]Installed{}, Failed: map[Attempt]Failure{}}
}

// clone returns a copy that shares nothing with m.
func (m Memory) clone() Memory {
	m.Installed, m.Failed = maps.Clone(m.Installed), maps.Clone(m.Failed)
	return m
}

// Installed is a version of a module that was installed for a Pod.
type Installed struct {
	// URL is the URL of the installed jar; empty if it is not known.
	URL string
	// Unhealthy is set after a failed liveness probe: the version must be installed again.
	Unhealthy bool
	// InDoubtUntil is until when an unanswered command may still install the version; zero after a list that shows
	// the result.
	InDoubtUntil time.Time
	// ExpectedUntil is until when a Pod may request the version, because the base was told to install it at its start.
	ExpectedUntil time.Time
	// RequestedBy is the Pod that requested the version before its spec was changed.
	RequestedBy types.UID

	// UnwantedSince is since when no Pod requests the version. IdleSince is since when, in addition, it does not
	// have to serve until its successor is active. InactiveSince is since when the base has it and does not send
	// requests to it. All are zero while this is not the case.
	UnwantedSince, IdleSince, InactiveSince time.Time
}

// Replacing is the replacement of a jar by another jar of the same version.
type Replacing struct {
	Module arklet.Module
	// NotReady is when all Pods of the version were Not Ready; zero before.
	NotReady time.Time
}

// Attempt identifies a command for a module. The URL is only set for installs.
type Attempt struct {
	Command arklet.Command
	Module  arklet.Module
}

// InstallAttempt returns the Attempt to install a module.
func InstallAttempt(m arklet.Module) Attempt { return Attempt{arklet.CommandInstallBiz, m} }

// UninstallAttempt returns the Attempt to uninstall a module.
func UninstallAttempt(m arklet.Module) Attempt {
	return Attempt{arklet.CommandUninstallBiz, arklet.Module{Name: m.Name, Version: m.Version}}
}

// Failure is the last failure of an Attempt.
type Failure struct {
	// Err has an error code; nil means no failure.
	Err      error
	Attempts int // failures in a row
	// At is when it failed, Next is when to try again.
	At, Next time.Time
	// FreeMetaspace is the free metaspace of the base in bytes if it was too small; else -1.
	FreeMetaspace int64
}

// Update changes what is known of a version, if it was installed for a Pod.
func (m Memory) Update(version string, change func(*Installed)) {
	if i, known := m.Installed[version]; known {
		change(&i)
		m.Installed[version] = i
	}
}
