// Package plan decides what to do next for one module on one base. It is pure.
package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// Input is everything that decides what to do next. Next does not change it.
type Input struct {
	Now  time.Time
	Name string // of the module
	// Wanted are the modules that Pods request that are not being deleted, the newest Pod first, without duplicates.
	Wanted []arklet.Module
	// Requested are the modules that Pods request, also those that are being deleted.
	Requested []arklet.Module
	// Terminating are the versions of Pods that are being deleted.
	Terminating map[string]Terminating
	// Kept are the versions that were requested by a Pod before its spec was changed, if the Pod is not being deleted.
	// They stay until the version that the Pod requests now is active.
	Kept map[string]bool
	// Listed are the versions that the base lists.
	Listed map[string]arklet.Biz
	Memory Memory
	// ReplacedEndpoints are the endpoints of the Pods of the version in Memory.Replacing.
	ReplacedEndpoints Endpoints
	CanSwitch         bool // the tunnel has switchBiz
	KeepSameVersion   bool // a version is never replaced by another jar of the same version
	// Drain is how long requests are still sent to a Pod after it has turned Not Ready.
	Drain time.Duration
	// EndpointLag is how long the endpoints of Services may be out of date at least; 0 means that they are up to date.
	EndpointLag time.Duration
	TimeScale   pace.TimeScale
}

// Terminating is a version of Pods that are being deleted.
type Terminating struct {
	// Since is when the last Pod turned Not Ready, or when its deletion began.
	Since time.Time
	// Until is how long the version may stay until its successor is active; zero means not at all.
	Until time.Time
	// SuccessorComes is set if an unscheduled Pod of the same workload may be bound to this base.
	SuccessorComes bool
	// WasReady is set if one of the Pods was Ready.
	WasReady bool
	// PreStop is how long the module must serve after Since.
	PreStop   time.Duration
	Endpoints Endpoints
}

// ActionKind is what to do for a module.
type ActionKind int

// The actions.
const (
	NoAction    ActionKind = iota
	DoInstall              // Action.Module
	DoSwitch               // to Action.Module
	DoUninstall            // Action.Module
	// uninstall Action.Conflicting, which is deactivated, then Step.Module. Then Conflicting is installed again
	UninstallConflicting
	AcquireReplacePermit // before the jar of Action.Module is replaced
	RequestList          // ask the base for its list of modules, and wait for it
)

// Action is what to do next.
type Action struct {
	Kind        ActionKind
	Module      arklet.Module
	Conflicting arklet.Module
	// Wait is when to call Next again, with NoAction; 0 means after the next change.
	Wait time.Duration
	// NeedsList is set if the list of the base must be requested before: the base is installing the module.
	NeedsList bool
	// Retry is set if an install has failed before: the base may have installed the module in the meantime.
	Retry bool
}

const (
	// ExpectedFor is how long a version that no Pod requests stays until its successor is active: the default grace
	// period of Pods without LastMoment.
	ExpectedFor = 25 * time.Second
	// LastMoment is the part of a grace period that is kept for the uninstall.
	LastMoment = 5 * time.Second
	// RecheckAfter is when to call Next again while a change cannot be observed.
	RecheckAfter = time.Second
	// replaceAgain is the delay before a jar is replaced again that an older Pod has restored. Each attempt uninstalls the
	// module for the time of two installs.
	replaceAgain = 5 * time.Minute
)

// Decision is the result of Next.
type Decision struct {
	Action
	// Memory is the Memory for the next Input.
	Memory Memory
	// ReplacesJar reports whether the jar of the newest Pod must replace another jar of its version, or has failed to.
	ReplacesJar bool
}

// planner computes a Decision.
type planner struct {
	Input               // Memory is a copy
	wait  time.Duration // until the next call; 0 means none
	look  bool
}

// Next returns what to do next and what to remember. It follows these rules:
//
//   - The version of the newest Pod becomes active. While that is impossible, the next older version does.
//   - An active version is not uninstalled while another requested version is being installed. The base switches from
//     one to the other directly.
//   - Versions that were installed for Pods and that no Pod requests are drained and uninstalled. The version that
//     receives the requests is uninstalled when all terminating Pods are drained. A version that became active next
//     to the newest one when its Pod was already terminating is uninstalled immediately.
//   - A version from which the base has switched is uninstalled after the drain time, in which it processes the
//     requests that it has received before.
//   - Versions that were never requested by a Pod are left alone.
func Next(in Input) Decision {
	in.Memory = in.Memory.clone()
	p := &planner{Input: in}
	p.update()
	do := p.step()
	if do.Kind == NoAction {
		do.Wait, do.NeedsList = p.wait, p.look
	}
	replaces := len(p.Wanted) > 0 && (p.differs(p.Wanted[0]) || p.Memory.Failed[InstallAttempt(p.Wanted[0])].Err != nil)
	return Decision{do, p.Memory, replaces}
}

// update brings the memory up to date with the list of the base and the Pods.
func (p *planner) update() {
	for _, m := range p.Requested {
		_, listed := p.Listed[m.Version]
		if _, known := p.Memory.Installed[m.Version]; listed && !known { // a Pod requests what was there before
			p.Memory.Installed[m.Version] = Installed{}
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
	if r := p.Memory.Replacing; r != nil && (len(p.Wanted) == 0 || p.Wanted[0] != r.Module || p.has(r.Module)) {
		p.Memory.Replacing = nil
	}
}

// step returns the next step without Wait and Look.
func (p *planner) step() Action {
	serving := ""
wanted:
	for i, w := range p.Wanted {
		if p.superseded(i) {
			continue
		}
		biz, listed := p.Listed[w.Version]
		active := listed && biz.State == arklet.StateActivated
		if p.has(w) || i > 0 && active {
			if p.has(w) {
				delete(p.Memory.Failed, InstallAttempt(w))
				delete(p.Memory.Failed, UninstallAttempt(w))
			}
			serving = w.Version
			break
		}
		if listed && biz.Installing() {
			p.waitFor(p.TimeScale.Of(RecheckAfter))
			p.look = true
			continue
		}
		if left := p.retryIn(w); left > 0 {
			p.waitFor(left)
			if active { // with another jar
				serving = w.Version
				break
			}
			continue
		}
		switch {
		case !listed:
			return Action{Kind: DoInstall, Module: w, Retry: p.Memory.Failed[InstallAttempt(w)].Err != nil}
		case active: // with another jar
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
		case biz.State == arklet.StateDeactivated && !p.differs(w) && p.CanSwitch:
			return Action{Kind: DoSwitch, Module: w}
		case biz.State == arklet.StateDeactivated && !p.differs(w) && !p.installActivates(biz):
			continue
		}
		// Another jar, a broken module, or one that only a fresh install activates: the base refuses to install over it.
		if left := p.drainRemaining(biz); left > 0 {
			p.waitFor(left)
			break
		}
		return Action{Kind: DoUninstall, Module: w}
	}
	for _, version := range slices.Sorted(maps.Keys(p.Memory.Installed)) {
		if do := p.unwanted(version, serving); do.Kind != NoAction {
			return do
		}
	}
	return Action{}
}

// waitFor reduces the time until the next call.
func (p *planner) waitFor(d time.Duration) {
	d = max(d, time.Millisecond)
	if p.wait == 0 || d < p.wait {
		p.wait = d
	}
}

// superseded reports whether a newer Pod requests the same version from another jar that has not failed.
func (p *planner) superseded(i int) bool {
	return slices.ContainsFunc(p.Wanted[:i], func(newer arklet.Module) bool {
		return newer.Version == p.Wanted[i].Version && p.Memory.Failed[InstallAttempt(newer)].Err == nil
	})
}

// differs reports whether the base must install a listed version again: the version is known to have another jar, or is
// unhealthy.
func (p *planner) differs(w arklet.Module) bool {
	i := p.Memory.Installed[w.Version]
	return i.Unhealthy || !p.KeepSameVersion && i.URL != "" && i.URL != w.URL
}

// has reports whether a module is active and need not be installed again. A base that restarts during a replacement may
// install the new jar by itself.
func (p *planner) has(w arklet.Module) bool {
	biz, listed := p.Listed[w.Version]
	return listed && biz.State == arklet.StateActivated && !p.differs(w)
}

// retryIn returns how long to wait before a failed module is tried again.
func (p *planner) retryIn(w arklet.Module) time.Duration {
	failed := p.Memory.Failed[InstallAttempt(w)]
	next := failed.Next
	if _, listed := p.Listed[w.Version]; listed && failed.Err != nil && p.differs(w) {
		next = failed.At.Add(p.TimeScale.Of(replaceAgain))
	}
	if f := p.Memory.Failed[UninstallAttempt(w)]; f.Next.After(next) {
		next = f.Next
	}
	return next.Sub(p.Now)
}

// installActivates reports whether a fresh install activates a deactivated version. This is the case if the base has
// switched away from it, or if no other version is active. Otherwise the base does not activate new versions
// (protocol 5.3, mode 3), and further attempts would not end.
func (p *planner) installActivates(biz arklet.Biz) bool {
	return biz.Latest.Reason == arklet.ReasonSwitched || !p.activeBeside(biz.Version)
}

// activeBeside reports whether another version is active.
func (p *planner) activeBeside(version string) bool {
	for v, biz := range p.Listed {
		if v != version && biz.State == arklet.StateActivated {
			return true
		}
	}
	return false
}

// IsWanted reports whether a Pod that is not being deleted requests a version.
func (in Input) IsWanted(version string) bool {
	return slices.ContainsFunc(in.Wanted, func(w arklet.Module) bool { return w.Version == version })
}

// unwanted returns what to do with one version that was installed for a Pod. serving is the requested version that is
// active; empty if there is none.
func (p *planner) unwanted(version, serving string) Action {
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
	if biz.Installing() { // it cannot be uninstalled yet
		p.waitFor(p.TimeScale.Of(RecheckAfter))
		return Action{}
	}
	t, terminating := p.Terminating[version]
	if left := p.retainFor(biz, serving, i); left > 0 {
		i.IdleSince = time.Time{}
		p.waitFor(min(left, p.TimeScale.Of(RecheckAfter)))
		return Action{}
	}
	if p.EndpointLag > 0 && biz.State == arklet.StateActivated {
		p.waitFor(min(p.EndpointLag, p.TimeScale.Of(RecheckAfter)))
		return Action{}
	}
	if i.IdleSince.IsZero() {
		i.IdleSince = p.Now
	}
	left := i.IdleSince.Add(p.Drain).Sub(p.Now)
	if terminating {
		left = p.terminatingDrain(t)
	}
	if p.receivesRequests(biz) { // also the requests that are sent to the Pods of other versions
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

// isExtraActive reports whether a version receives requests next to the newest requested version, on a base that keeps
// all versions active. It processes them until it is uninstalled, so it is uninstalled early.
func (p *planner) isExtraActive(biz arklet.Biz, serving string) bool {
	newest := p.Listed[serving]
	return len(p.Wanted) > 0 && serving == p.Wanted[0].Version && p.receivesRequests(biz) &&
		newest.State == arklet.StateActivated && !p.receivesRequests(newest)
}

// retainFor returns how long an active version that no Pod requests stays because its successor is not active yet. A
// Deployment with maxUnavailable deletes old Pods before the new ones are scheduled; their bases must not be without the
// module in the meantime. The version is uninstalled before the grace period of its Pods ends, because the Pods are
// deleted from the API then.
func (p *planner) retainFor(biz arklet.Biz, serving string, i Installed) time.Duration {
	t, terminating := p.Terminating[biz.Version]
	switch other := serving != "" || p.activeBeside(biz.Version); {
	case biz.State != arklet.StateActivated:
		return 0
	case other && p.receivesRequests(biz) && p.newerComes(serving):
	case other:
		return 0
	}
	if p.Kept[biz.Version] {
		return p.TimeScale.Of(RecheckAfter)
	}
	if len(p.Wanted) == 0 {
		switch {
		case terminating && t.SuccessorComes:
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
	return max(drain, i.UnwantedSince.Add(ExpectedFor).Sub(p.Now))
}

// newerComes reports whether a newer version than serving is requested and has not failed.
func (p *planner) newerComes(serving string) bool {
	return len(p.Wanted) > 0 && p.Wanted[0].Version != serving && p.Memory.Failed[InstallAttempt(p.Wanted[0])].Err == nil
}

// deactivatedSuccessor returns the requested version that the base keeps deactivated while it has the given version, which
// is to be uninstalled. Over MQTT only a fresh install activates the successor. It is uninstalled while the given version
// is still active, so the base is without the module only for the time of one install.
func (p *planner) deactivatedSuccessor(biz arklet.Biz) (arklet.Module, bool) {
	if p.CanSwitch || biz.State != arklet.StateActivated || p.activeBeside(biz.Version) {
		return arklet.Module{}, false
	}
	for _, w := range p.Wanted {
		if p.Listed[w.Version].State == arklet.StateDeactivated {
			return w, true
		}
	}
	return arklet.Module{}, false
}
