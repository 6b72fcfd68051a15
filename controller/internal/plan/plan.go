// Package plan decides the next action for one module on one base. It has no side effects.
package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// Input is the input of Next. Next does not modify it.
type Input struct {
	Now  time.Time
	Name string // name of the module
	// Wanted contains the modules of the Pods that are not being deleted, those of the newest Pod first, without
	// duplicates.
	Wanted []arklet.Module
	// UninstallFirst is true if the newest Pod in Wanted has the install strategy uninstallThenInstall.
	UninstallFirst bool
	// Requested contains the modules of all Pods, including Pods that are being deleted.
	Requested []arklet.Module
	// Terminating contains the versions of the Pods that are being deleted.
	Terminating map[string]TerminatingVersion
	// Kept is true for a version that a Pod requested before its spec was changed, if the Pod is not being deleted. The
	// version stays until the version that the Pod now requests is active.
	Kept map[string]bool
	// Listed contains the versions in the module list of the base.
	Listed map[string]arklet.Biz
	Memory Memory
	// ReplacedEndpoints are the endpoints of the Pods whose version Memory.Replacing uninstalls.
	ReplacedEndpoints Endpoints
	CanSwitch         bool // whether the tunnel supports switchBiz
	KeepSameVersion   bool // whether replacing the jar of a version is disabled
	// Drain is how long a Pod may still receive requests after it became Not Ready. 0 or less means no drain.
	Drain time.Duration
	// EndpointLag is how long the endpoints of Services may still be outdated; 0 means that they are up to date.
	EndpointLag time.Duration
	TimeScale   pace.TimeScale
}

// TerminatingVersion describes the Pods that request a version and are being deleted.
type TerminatingVersion struct {
	// Since is the time when the last of the Pods stopped being Ready. A Pod stops being Ready when its status becomes
	// Not Ready or its deletion begins, whichever is first.
	Since time.Time
	// Until is the time until which the version may wait for its successor to become active. Zero means that it must
	// not wait.
	Until time.Time
	// SuccessorExpected is true if an unscheduled Pod of the same workload may be bound to this base.
	SuccessorExpected bool
	// WasReady is true if at least one of the Pods was Ready.
	WasReady bool
	// PreStop is how long the module must continue to serve after Since.
	PreStop   time.Duration
	Endpoints Endpoints
}

// ActionKind is the kind of an Action.
type ActionKind int

// Kinds of actions.
const (
	NoAction    ActionKind = iota
	DoInstall              // install Action.Module
	DoSwitch               // switch to Action.Module
	DoUninstall            // uninstall Action.Module
	// UninstallConflicting uninstalls Action.Conflicting, which is deactivated, and then Action.Module. After this
	// action, Next reinstalls Action.Conflicting.
	UninstallConflicting
	AcquireReplacePermit // acquire the permit to replace installed versions with Action.Module
	RequestList          // request the module list of the base, and wait for it
)

// Action is the next action for a module. The zero value means that no action is needed until the next change.
type Action struct {
	Kind        ActionKind
	Module      arklet.Module
	Conflicting arklet.Module
	// Wait is the delay before the next call of Next if Kind is NoAction; 0 means that no call is needed before the
	// next change.
	Wait time.Duration
	// NeedsList is true if the base is installing the module, so a module list must be requested before the next call
	// of Next.
	NeedsList bool
	// Retry is true if an earlier install failed. The base may have installed the module in the meantime.
	Retry bool
	// UninstallFirst is true if the base must uninstall all versions of the module before it installs Module.
	UninstallFirst bool
}

const (
	// MaxRetain is how long a version that no Pod requests may wait for its successor to become active. It is the
	// default grace period of Pods minus UninstallReserve.
	MaxRetain = 25 * time.Second
	// UninstallReserve is the part at the end of a grace period that is reserved for the uninstall.
	UninstallReserve = 5 * time.Second
	// RecheckInterval is the delay before the next call of Next while Next waits for a change that does not trigger a
	// call.
	RecheckInterval = time.Second
	// replaceRetryDelay is the delay before the next attempt to replace a jar, if the previous attempt failed and the
	// jar of an older Pod was restored. During each attempt, the base lacks the module for the duration of two
	// installs.
	replaceRetryDelay = 5 * time.Minute
)

// Decision is the result of Next.
type Decision struct {
	Action
	// Memory is the Memory to pass in the next Input.
	Memory Memory
	// ReplacesJar is true if the jar of the newest Pod must replace another jar of the same version, or if its
	// install failed.
	ReplacesJar bool
}

// planner computes one Decision.
type planner struct {
	Input                   // Memory is a copy
	wait      time.Duration // see Action.Wait
	needsList bool
}

// Next returns the next action and the new Memory. It follows these rules:
//
//   - The version of the newest Pod becomes active. If that is impossible, the version of the next older Pod does.
//   - An active version is not uninstalled while another requested version is being installed, so that the base
//     switches directly from one version to the other.
//   - Versions that were installed for Pods, but that no Pod requests any more, are drained and uninstalled. The
//     version that receives the requests is uninstalled when all terminating Pods are drained. A version that became
//     active in addition to the newest one while its Pod was already terminating is uninstalled immediately.
//   - A version from which the base has switched away is uninstalled after the drain. Until then, it may still process
//     earlier requests.
//   - Versions that no Pod has ever requested stay.
//   - With the install strategy uninstallThenInstall, the base uninstalls all versions. Their Pods are drained first,
//     on one base at a time. The versions of older Pods are not installed again, even if the newest version fails.
func Next(in Input) Decision {
	in.Memory = in.Memory.clone()
	p := &planner{Input: in}
	p.updateMemory()
	action := p.nextAction()
	if action.Kind == NoAction {
		action.Wait, action.NeedsList = p.wait, p.needsList
	}
	replaces := len(p.Wanted) > 0 &&
		(p.needsReinstall(p.Wanted[0]) || p.Memory.Failed[InstallAttempt(p.Wanted[0])].Err != nil)
	return Decision{action, p.Memory, replaces}
}

// updateMemory updates Memory to match the module list of the base and the modules that Pods request.
func (p *planner) updateMemory() {
	for _, m := range p.Requested {
		_, listed := p.Listed[m.Version]
		// the version was installed before the Pod existed
		if _, known := p.Memory.Installed[m.Version]; listed && !known {
			p.Memory.Installed[m.Version] = InstalledVersion{}
		}
	}
	for version, i := range p.Memory.Installed {
		biz, listed := p.Listed[version]
		switch {
		case listed:
			i.InDoubtUntil = time.Time{}
		case p.Now.After(i.InDoubtUntil) && p.Now.After(i.ExpectedUntil):
			delete(p.Memory.Installed, version)
			continue
		}
		switch {
		case !listed || p.receivesRequests(biz) || biz.Installing():
			i.InactiveSince = time.Time{}
		case i.InactiveSince.IsZero():
			i.InactiveSince = p.Now
		}
		p.Memory.Installed[version] = i
	}
	maps.DeleteFunc(p.Memory.Failed, func(a Attempt, _ Failure) bool {
		_, listed := p.Listed[a.Module.Version]
		return (a.Command == arklet.CommandInstallBiz || !listed) &&
			!slices.ContainsFunc(p.Requested, func(m arklet.Module) bool {
				return a == InstallAttempt(m) || a == UninstallAttempt(m)
			})
	})
	if r := p.Memory.Replacing; r != nil && (len(p.Wanted) == 0 || p.Wanted[0] != r.Module ||
		p.isUpToDate(r.Module) || r.UninstallFirst && !p.UninstallFirst) {
		p.Memory.Replacing = nil
	}
}

// nextAction returns the next action. It does not set Wait and NeedsList.
func (p *planner) nextAction() Action {
	serving := ""
wanted:
	for i, w := range p.Wanted {
		if p.superseded(i) {
			continue
		}
		biz, listed := p.Listed[w.Version]
		active := listed && biz.State == arklet.StateActivated
		if p.isUpToDate(w) || i > 0 && active {
			if p.isUpToDate(w) {
				delete(p.Memory.Failed, InstallAttempt(w))
				delete(p.Memory.Failed, UninstallAttempt(w))
			}
			serving = w.Version
			break
		}
		if listed && biz.Installing() {
			p.waitFor(p.TimeScale.Of(RecheckInterval))
			p.needsList = true
			continue
		}
		if left := p.retryDelay(w); left > 0 {
			p.waitFor(left)
			if active { // from another jar
				serving = w.Version
				break
			}
			continue
		}
		switch {
		case !listed && p.UninstallFirst && i > 0: // the base has uninstalled it for the newest Pod
			continue
		case !listed:
			r := p.Memory.Replacing // if only the jar of w is replaced, the other versions stay
			action := Action{Kind: DoInstall, Module: w, Retry: p.Memory.Failed[InstallAttempt(w)].Err != nil,
				UninstallFirst: p.UninstallFirst && (r == nil || r.UninstallFirst)}
			if action.UninstallFirst {
				serves, leaving := p.activeVersions()
				switch left, drained := p.replacementDrain(w); {
				case serves && r == nil:
					action.Kind = AcquireReplacePermit
				case serves && !drained:
					if left > 0 {
						p.waitFor(left)
					}
					continue
				case !serves && leaving:
					continue
				}
			}
			return action
		case active: // from another jar
			switch left, drained := p.replacementDrain(w); {
			case p.Memory.Replacing == nil:
				return Action{Kind: AcquireReplacePermit, Module: w}
			case drained:
				return Action{Kind: DoUninstall, Module: w}
			case left > 0:
				p.waitFor(left)
			}
			serving = w.Version
			break wanted
		case biz.State == arklet.StateDeactivated && !p.needsReinstall(w) && p.CanSwitch:
			return Action{Kind: DoSwitch, Module: w}
		case biz.State == arklet.StateDeactivated && !p.needsReinstall(w) && !p.installActivates(biz):
			continue
		}
		// The version has another jar, is broken, or only a fresh install activates it. The base refuses to install a
		// version that it lists, so it is uninstalled first.
		if left := p.drainRemaining(biz); left > 0 {
			p.waitFor(left)
			break
		}
		return Action{Kind: DoUninstall, Module: w}
	}
	for _, version := range slices.Sorted(maps.Keys(p.Memory.Installed)) {
		if action := p.uninstallAction(version, serving); action.Kind != NoAction {
			return action
		}
	}
	return Action{}
}

// waitFor limits the delay before the next call of Next to at most d.
func (p *planner) waitFor(d time.Duration) {
	d = max(d, time.Millisecond)
	if p.wait == 0 || d < p.wait {
		p.wait = d
	}
}

// superseded reports whether a newer Pod requests the version of Wanted[i] with another jar whose install has not
// failed.
func (p *planner) superseded(i int) bool {
	return slices.ContainsFunc(p.Wanted[:i], func(newer arklet.Module) bool {
		return newer.Version == p.Wanted[i].Version && p.Memory.Failed[InstallAttempt(newer)].Err == nil
	})
}

// needsReinstall reports whether a listed version must be installed again, because it is from another jar or is
// unhealthy.
func (p *planner) needsReinstall(w arklet.Module) bool {
	i := p.Memory.Installed[w.Version]
	return i.Unhealthy || !p.KeepSameVersion && i.URL != "" && i.URL != w.URL
}

// isUpToDate reports whether a module is active and does not need to be installed again. This can happen during a
// replacement if the base restarts, because the base then installs the new jar as part of its baseline.
func (p *planner) isUpToDate(w arklet.Module) bool {
	biz, listed := p.Listed[w.Version]
	return listed && biz.State == arklet.StateActivated && !p.needsReinstall(w)
}

// retryDelay returns the delay before the next attempt to install a module whose install failed. The result is zero
// or negative if an attempt is due, or if no install failed.
func (p *planner) retryDelay(w arklet.Module) time.Duration {
	failed := p.Memory.Failed[InstallAttempt(w)]
	next := failed.Next
	if _, listed := p.Listed[w.Version]; listed && failed.Err != nil && p.needsReinstall(w) {
		next = failed.At.Add(p.TimeScale.Of(replaceRetryDelay))
	}
	if f := p.Memory.Failed[UninstallAttempt(w)]; f.Next.After(next) {
		next = f.Next
	}
	return next.Sub(p.Now)
}

// installActivates reports whether a fresh install activates a deactivated version. This is the case if the base has
// switched away from the version, or if no other version is active. In other cases, the base does not activate new
// versions (protocol 5.3), and the controller would reinstall the version repeatedly.
func (p *planner) installActivates(biz arklet.Biz) bool {
	return biz.Latest.Reason == arklet.ReasonSwitched || !p.isOtherActive(biz.Version)
}

// isOtherActive reports whether a version other than the given one is active.
func (p *planner) isOtherActive(version string) bool {
	for v, biz := range p.Listed {
		if v != version && biz.State == arklet.StateActivated {
			return true
		}
	}
	return false
}

// activeVersions reports whether an active version has Pods that are not being deleted (serves), and whether an active
// version that was installed for a Pod has no such Pod and will be uninstalled (leaving).
func (p *planner) activeVersions() (serves, leaving bool) {
	for version, biz := range p.Listed {
		if biz.State == arklet.StateActivated {
			_, installed := p.Memory.Installed[version]
			serves = serves || p.IsWanted(version) || p.Kept[version]
			leaving = leaving || installed
		}
	}
	return serves, leaving
}

// IsWanted reports whether any Pod that is not being deleted requests a version.
func (in Input) IsWanted(version string) bool {
	return slices.ContainsFunc(in.Wanted, func(w arklet.Module) bool { return w.Version == version })
}

// uninstallAction returns the action for one version that was installed for a Pod. The version is uninstalled if no
// Pod requests it and it is drained. serving is the requested version that is active; empty if no requested version
// is active.
func (p *planner) uninstallAction(version, serving string) Action {
	i := p.Memory.Installed[version]
	defer func() { p.Memory.Installed[version] = i }()
	biz, listed := p.Listed[version]
	if !listed || p.IsWanted(version) {
		i.UnwantedSince, i.IdleSince = time.Time{}, time.Time{}
		return Action{}
	}
	if i.UnwantedSince.IsZero() {
		i.UnwantedSince = p.Now
	}
	if biz.Installing() { // the base cannot uninstall it yet
		p.waitFor(p.TimeScale.Of(RecheckInterval))
		return Action{}
	}
	t, terminating := p.Terminating[version]
	if left := p.retainFor(biz, serving, i); left > 0 {
		i.IdleSince = time.Time{}
		p.waitFor(min(left, p.TimeScale.Of(RecheckInterval)))
		return Action{}
	}
	if p.EndpointLag > 0 && biz.State == arklet.StateActivated {
		p.waitFor(min(p.EndpointLag, p.TimeScale.Of(RecheckInterval)))
		return Action{}
	}
	if i.IdleSince.IsZero() {
		i.IdleSince = p.Now
	}
	left := i.IdleSince.Add(p.Drain).Sub(p.Now)
	if terminating {
		left = p.terminatingDrain(t)
	}
	if p.receivesRequests(biz) { // including requests that are sent to the Pods of other versions
		for _, other := range p.Terminating {
			if other.WasReady {
				left = max(left, p.terminatingDrain(other))
			}
		}
	}
	conflicting, conflicts := p.deactivatedSuccessor(biz)
	left = max(left, p.drainRemaining(biz))
	if conflicts {
		left = max(left, p.drainRemaining(p.Listed[conflicting.Version]))
	}
	if late := terminating && !t.WasReady && p.isExtraActive(biz, serving); left > 0 && !late {
		p.waitFor(left)
		return Action{}
	}
	m := arklet.Module{Name: p.Name, Version: version}
	failed := p.Memory.Failed[UninstallAttempt(m)]
	if left := failed.Next.Sub(p.Now); failed.Err != nil && left > 0 {
		p.waitFor(left)
		return Action{}
	}
	if conflicts && failed.Err == nil { // the conflicting version is uninstalled once
		return Action{Kind: UninstallConflicting, Module: m, Conflicting: conflicting}
	}
	return Action{Kind: DoUninstall, Module: m}
}

// isExtraActive reports whether a version receives the requests instead of the newest requested version, although both
// are active. This happens on a base that keeps all versions active. The version receives the requests until it is
// uninstalled, so it is uninstalled without a drain.
func (p *planner) isExtraActive(biz arklet.Biz, serving string) bool {
	newest := p.Listed[serving]
	return len(p.Wanted) > 0 && serving == p.Wanted[0].Version && p.receivesRequests(biz) &&
		newest.State == arklet.StateActivated && !p.receivesRequests(newest)
}

// retainFor returns how long an active version that no Pod requests must stay because its successor is not active yet.
// A Deployment with maxUnavailable deletes old Pods before the new Pods are scheduled; in the meantime, the bases must
// keep an active version. The version is uninstalled before the grace period of its Pods ends, because the Pods are
// then deleted from the API.
func (p *planner) retainFor(biz arklet.Biz, serving string, i InstalledVersion) time.Duration {
	t, terminating := p.Terminating[biz.Version]
	switch other := serving != "" || p.isOtherActive(biz.Version); {
	case biz.State != arklet.StateActivated:
		return 0
	case other && p.receivesRequests(biz) && p.newerRequested(serving):
	case other:
		return 0
	}
	if p.Kept[biz.Version] {
		return p.TimeScale.Of(RecheckInterval)
	}
	if p.UninstallFirst { // the successor is installed after this version was uninstalled
		return 0
	}
	if len(p.Wanted) == 0 {
		switch {
		case terminating && t.SuccessorExpected:
			return t.Until.Sub(p.Now)
		case !terminating:
			return i.ExpectedUntil.Sub(p.Now)
		}
		return 0
	}
	next, listed := p.Listed[p.Wanted[0].Version]
	if listed && next.State == arklet.StateDeactivated && !p.CanSwitch && !p.installActivates(next) {
		return 0 // next becomes active only after this version was uninstalled
	}
	drain := p.drainRemaining(next) // before another jar of next is installed
	if terminating {
		return max(drain, t.Until.Sub(p.Now))
	}
	return max(drain, i.UnwantedSince.Add(MaxRetain).Sub(p.Now))
}

// newerRequested reports whether the newest Pod requests a version other than serving, and the install of that
// version has not failed.
func (p *planner) newerRequested(serving string) bool {
	return len(p.Wanted) > 0 && p.Wanted[0].Version != serving &&
		p.Memory.Failed[InstallAttempt(p.Wanted[0])].Err == nil
}

// deactivatedSuccessor returns a requested version, if there is one, that the base keeps deactivated because the
// given version, which must be uninstalled, is active. Over MQTT, only a fresh install activates this successor. The
// successor is uninstalled while the given version is still active. Therefore, the base lacks an active version only
// for the duration of one install.
func (p *planner) deactivatedSuccessor(biz arklet.Biz) (arklet.Module, bool) {
	if p.CanSwitch || biz.State != arklet.StateActivated || p.isOtherActive(biz.Version) {
		return arklet.Module{}, false
	}
	for _, w := range p.Wanted {
		if p.Listed[w.Version].State == arklet.StateDeactivated {
			return w, true
		}
	}
	return arklet.Module{}, false
}
