package plan

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Memory is the state of a module on a base that the module list does not show. Next returns an updated Memory. The
// caller records the results of commands and probes in it.
type Memory struct {
	// Installed are the versions that were installed for Pods. The controller does not uninstall other versions.
	Installed map[string]InstalledVersion
	// Failed are the last failures of commands.
	Failed map[Attempt]Failure
	// Replacing is the replacement of a jar that is in progress; nil if there is none.
	Replacing *Replacement
}

// NewMemory returns an empty Memory.
func NewMemory() Memory {
	return Memory{Installed: map[string]InstalledVersion{}, Failed: map[Attempt]Failure{}}
}

// clone returns a copy whose maps are independent of m. The copy shares Replacing, which is never modified.
func (m Memory) clone() Memory {
	m.Installed, m.Failed = maps.Clone(m.Installed), maps.Clone(m.Failed)
	return m
}

// InstalledVersion is a version of a module that was installed for a Pod.
type InstalledVersion struct {
	// URL is the URL of the installed jar; empty if it is unknown.
	URL string
	// Unhealthy is set after the liveness probe has failed: the version must be installed again.
	Unhealthy bool
	// InDoubtUntil is until when the base may still execute an unanswered install; zero if a list has shown the result.
	InDoubtUntil time.Time
	// ExpectedUntil is until when a version of the base's baseline stays although no Pod requests it yet.
	ExpectedUntil time.Time
	// RequestedBy is the Pod that requested the version before its spec was changed; empty if there is none.
	RequestedBy types.UID

	// UnwantedSince is when the last Pod stopped requesting the version. IdleSince is when the version, in addition, no
	// longer had to wait for its successor. InactiveSince is when the base stopped sending requests to the version.
	// Each is zero while this is not the case.
	UnwantedSince, IdleSince, InactiveSince time.Time
}

// Replacement is the replacement of a jar by another jar of the same version.
type Replacement struct {
	Module arklet.Module
	// NotReady is when all Pods of the version had turned Not Ready; zero before.
	NotReady time.Time
}

// Attempt identifies a command for a module. Module.URL is set only for installs.
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
	Attempts int // the number of consecutive failures
	// At is when the last attempt failed. Next is when the next attempt is due.
	At, Next time.Time
	// FreeMetaspace is the free metaspace of the base in bytes if that was the cause of the failure; otherwise -1.
	FreeMetaspace int64
}

// Update calls change for the record of a version. It does nothing if the version was not installed for a Pod.
func (m Memory) Update(version string, change func(*InstalledVersion)) {
	if i, known := m.Installed[version]; known {
		change(&i)
		m.Installed[version] = i
	}
}
