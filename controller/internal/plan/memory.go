package plan

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// Memory is the part of the state of a module on a base that is not in the module list. Next returns an updated
// Memory, to which the caller adds the results of commands and probes.
type Memory struct {
	// Installed contains the versions that were installed for Pods. The controller uninstalls only these versions.
	Installed map[string]InstalledVersion
	// Failed contains the last failure of each command.
	Failed map[Attempt]Failure
	// Replacing is the replacement that is in progress, or nil if there is none.
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

// InstalledVersion is the record of a module version that was installed for a Pod.
type InstalledVersion struct {
	// URL is the URL of the installed jar; empty if the URL is unknown.
	URL string
	// Unhealthy is true if the liveness probe has failed, so that the version must be installed again.
	Unhealthy bool
	// InDoubtUntil is the time until which the base may still be executing an unanswered install. It is zero if a
	// module list has shown the result.
	InDoubtUntil time.Time
	// ExpectedUntil is the time until which a version from the baseline of the base stays installed although no Pod
	// requests the version yet.
	ExpectedUntil time.Time
	// RequestedBy is the UID of the Pod that requested the version before the Pod spec was changed; empty if there is
	// no such Pod.
	RequestedBy types.UID

	// UnwantedSince is the time when the last Pod stopped requesting the version. IdleSince is the time when the
	// unwanted version no longer had to wait for its successor; its drain starts then. InactiveSince is the time when
	// the base stopped sending requests to the version. Each time is zero while its condition is not met.
	UnwantedSince, IdleSince, InactiveSince time.Time
}

// Replacement is the replacement of a jar by another jar of the same version, or of all versions by a new version.
type Replacement struct {
	Module arklet.Module
	// UninstallFirst is true if the base uninstalls all versions, and false if only the version of Module is replaced.
	UninstallFirst bool
	// NotReady is the time when the last Pod of the replaced versions became Not Ready. It is zero while a Pod is
	// Ready.
	NotReady time.Time
}

// Replaces reports whether the replacement uninstalls a version. r can be nil.
func (r *Replacement) Replaces(version string) bool {
	return r != nil && (r.UninstallFirst || r.Module.Version == version)
}

// Attempt identifies a command for a module. Module.URL is set only for install commands.
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
	// Err is the error, with an error code; nil means no failure.
	Err      error
	Attempts int // number of consecutive failures
	// At is the time of the last failure. Next is the time when the next attempt is due.
	At, Next time.Time
	// FreeMetaspace is the free metaspace of the base in bytes if too little metaspace caused the failure. Otherwise,
	// it is -1.
	FreeMetaspace int64
}

// Update calls change with the record of a version, and stores the changed record. It does nothing if the version was
// not installed for a Pod.
func (m Memory) Update(version string, change func(*InstalledVersion)) {
	if i, known := m.Installed[version]; known {
		change(&i)
		m.Installed[version] = i
	}
}
