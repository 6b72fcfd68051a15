package vpod

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// situation is everything that decides what is to be done next for one module name on one base.
type situation struct {
	now  time.Time
	name string
	// wants are what the Pods that stay ask for, the newest first; each once.
	wants []arklet.Module
	// leaving are the versions of Pods that are being deleted.
	leaving map[string]departure
	// placed are the versions that Pods had put on the base. Those that no Pod ever asked for are
	// nobody's business here.
	placed map[string]*placement
	list   map[string]arklet.Biz // what the base lists, by version
	failed map[attempt]failure
	// replacing is the version that is being replaced by another jar of the same version.
	replacing *replacement
	canSwitch bool // the tunnel has switchBiz
	neverSame bool // a version that is there is never replaced by another jar of that version
	drain     time.Duration
	// unsettled is how long requests may still go to Pods that are Not Ready or gone, at least.
	unsettled time.Duration
	speed     pace.Speed
}

// departure is a version of Pods that are being deleted.
type departure struct {
	since time.Time // when the last of them turned Not Ready, or began to be deleted
	until time.Time // how long it may stay for what comes instead; zero = not at all
	comes bool      // a Pod that waits for a Node may come instead
	// served says that one of them was Ready once.
	served bool
	// preStop is how long the module is to go on serving since then.
	preStop time.Duration
	quiet   quiet // its Pods
}

// quiet is since when no Service sends requests to some Pods any more.
type quiet struct {
	since time.Time
	not   bool // to one of them it does, or that is not known yet
}

// with counts in a Pod more; zero means that it is not quiet.
func (q quiet) with(since time.Time) quiet {
	q.not = q.not || since.IsZero()
	if since.After(q.since) {
		q.since = since
	}
	return q
}

// placement is a version of a module that a Pod had put on a base.
type placement struct {
	// url is the jar that was installed; empty if that is not known.
	url string
	// unfit: its liveness probe failed, so it is to be installed anew.
	unfit bool
	// unsettled is until when a command without an answer may still put it there; zero means that a
	// list has shown what is so.
	unsettled time.Time
	// unwanted is since when no Pod wants it, and idle since when nothing waits for what comes
	// instead either; zero while that is not so.
	unwanted, idle time.Time
	// ceased is when the base was found to have it and not to serve it; zero while it serves it.
	ceased time.Time
	// expected is until when a Pod may come for it: the base was told to install it at its start.
	expected time.Time
	// by is the Pod that asked for it before it was changed in place, and held says that this Pod
	// stays: it goes when what the Pod asks for now is active.
	by   types.UID
	held bool
}

// replacement is a jar that takes the place of another one of the same version.
type replacement struct {
	module arklet.Module
	// notReady is when every Pod of the version had been written Not Ready; zero before.
	notReady time.Time
	quiet    quiet // they, since then
}

// attempt is what failed: a command for a module. URL is empty but for installs.
type attempt struct {
	command arklet.Command
	module  arklet.Module
}

func install(m arklet.Module) attempt { return attempt{arklet.CommandInstallBiz, m} }

func uninstall(m arklet.Module) attempt {
	return attempt{arklet.CommandUninstallBiz, arklet.Module{Name: m.Name, Version: m.Version}}
}

// action is what a worker does.
type action int

const (
	rest         action = iota
	doInstall           // module
	doSwitch            // to module
	doUninstall         // module
	makeWay             // uninstall the deactivated way, then module: way is installed again after that
	beginReplace        // ask for the turn to replace the jar of module's version
	ask                 // the base what it has, and wait for the answer
)

// step is the next thing to do.
type step struct {
	do     action
	module arklet.Module
	way    arklet.Module
	// wait is when to look again, with rest; zero means not before something changes.
	wait time.Duration
	// look asks the base for its list before that: somebody else is at work there.
	look bool
	// again says that an install has failed before, so the base may have done it since.
	again bool
}

// expectedFor is how long a version that no Pod holds any more stays for one that is on its way:
// the grace period that Kubernetes gives a Pod by default, less lastMoment.
const expectedFor = 25 * time.Second

// sameAgain is the pause between attempts to replace a jar that an older Pod has back meanwhile:
// each one takes the module away for the time of two installs.
const sameAgain = 5 * time.Minute

// next says what is to be done next. It keeps these rules:
//
//   - The newest Pod's version is made active, or, while that can't be had, the next older one's.
//   - An active version is not uninstalled while another one that a Pod wants is on its way: it is
//     switched, or installed, first. The base goes from one to the other directly.
//   - What Pods had put there and none wants any more is uninstalled once it is drained; the version that
//     requests come to, once all Pods that leave are. What came when they were leaving already, beside the
//     version that serves, goes at once.
//   - What requests have gone from to another version is uninstalled once those that it works on have had the time of
//     a drain.
//   - What no Pod ever asked for is left alone.
//
// It notes in placed since when a version is unwanted, idle, and not served.
func (s *situation) next() step {
	var wait soonest
	look := false
	serves := ""
	s.noteCeased()
wanted:
	for i, w := range s.wants {
		if s.overruled(i) {
			continue
		}
		biz, there := s.list[w.Version]
		if has := s.has(w); has || i > 0 && there && biz.State == arklet.StateActivated {
			if has {
				delete(s.failed, install(w)) // whatever went wrong before
				delete(s.failed, uninstall(w))
			}
			serves = w.Version
			break
		}
		if there && biz.Installing() {
			wait.within(s.speed.Of(recheckAfter))
			look = true
			continue
		}
		if left := s.pause(w); left > 0 {
			wait.within(left)
			if there && biz.State == arklet.StateActivated {
				serves = w.Version // with the jar that it had
				break
			}
			continue
		}
		switch {
		case !there:
			return step{do: doInstall, module: w, again: s.failed[install(w)].err != nil}
		case biz.State == arklet.StateActivated: // with another jar
			switch left, ready := s.drainedForReplacement(w); {
			case s.replacing == nil:
				return step{do: beginReplace, module: w}
			case ready:
				return step{do: doUninstall, module: w}
			case left > 0:
				wait.within(left)
			}
			serves = w.Version
		case biz.State == arklet.StateDeactivated && !s.differs(w) && s.canSwitch:
			return step{do: doSwitch, module: w}
		case biz.State == arklet.StateDeactivated && !s.differs(w) && !s.mayReinstall(biz):
			continue
		default: // another jar, broken, or to be activated by a fresh install: the base refuses to install over it
			if left := s.worksFor(biz); left > 0 {
				wait.within(left)
				break wanted
			}
			return step{do: doUninstall, module: w}
		}
		if serves != "" {
			break
		}
	}
	for _, version := range slices.Sorted(maps.Keys(s.placed)) {
		if do := s.unwanted(version, serves, &wait); do.do != rest {
			return do
		}
	}
	return step{wait: wait.d, look: look}
}

// overruled says whether a newer Pod wants the same version from another jar, which can be had.
func (s *situation) overruled(i int) bool {
	return slices.ContainsFunc(s.wants[:i], func(newer arklet.Module) bool {
		return newer.Version == s.wants[i].Version && s.failed[install(newer)].err == nil
	})
}

// differs says whether what the base has under the version that is wanted is to be installed anew:
// it is another jar, as far as that is known, or does not live.
func (s *situation) differs(w arklet.Module) bool {
	p := s.placed[w.Version]
	return p != nil && (p.unfit || !s.neverSame && p.url != "" && p.url != w.URL)
}

// has says whether a module that is wanted is active, and need not be installed anew: a base that crashed in
// the middle of a replacement may have installed the new jar at its start.
func (s *situation) has(w arklet.Module) bool {
	biz, there := s.list[w.Version]
	return there && biz.State == arklet.StateActivated && !s.differs(w)
}

// replaces says whether the newest Pod's jar is to take the place of another one of its version, or
// was to and failed.
func (s *situation) replaces() bool {
	if len(s.wants) == 0 {
		return false
	}
	w := s.wants[0]
	return s.differs(w) || s.failed[install(w)].err != nil
}

// pause is how long to wait before a version is tried again.
func (s *situation) pause(w arklet.Module) time.Duration {
	failed := s.failed[install(w)]
	next := failed.next
	if _, there := s.list[w.Version]; there && failed.err != nil && s.differs(w) {
		next = failed.at.Add(s.speed.Of(sameAgain))
	}
	if f := s.failed[uninstall(w)]; f.next.After(next) {
		next = f.next
	}
	return next.Sub(s.now)
}

// drainedForReplacement says whether requests have ceased to go to a version that is replaced, or
// when they will have.
func (s *situation) drainedForReplacement(w arklet.Module) (left time.Duration, ready bool) {
	if s.replacing == nil || s.replacing.module != w || s.replacing.notReady.IsZero() {
		return 0, false
	}
	since := s.replacing.notReady
	left = max(s.unsettled, s.drains(since, s.drain, s.replacing.quiet, since.Add(expectedFor)))
	return left, left <= 0
}

// drains is for how long requests may yet come to what ceased to be Ready at since: for the time of the
// drain, and for half of MODULE_DRAIN after endpoints were seen without it. Until says how long these
// count.
func (s *situation) drains(since time.Time, drain time.Duration, q quiet, until time.Time) time.Duration {
	left := since.Add(drain).Sub(s.now)
	if s.drain <= 0 || !s.now.Before(until) {
		return left
	}
	if q.not { // it hears when they have been looked at
		look := since.Add(s.drain / 2).Sub(s.now)
		if look <= 0 {
			look = s.speed.Of(recheckAfter)
		}
		return min(look, until.Sub(s.now))
	}
	return max(left, min(q.since.Add(s.drain/2).Sub(s.now), until.Sub(s.now)))
}

// answers says whether a version is the one that requests come to: it is active, and no other has become active
// after it, as on a base that keeps all active.
func (s *situation) answers(biz arklet.Biz) bool {
	if biz.State != arklet.StateActivated {
		return false
	}
	for _, other := range s.list {
		if other.State == arklet.StateActivated && other.Latest.At.After(biz.Latest.At) {
			return false
		}
	}
	return true
}

// noteCeased notes since when the base does not serve any more what it has.
func (s *situation) noteCeased() {
	for version, p := range s.placed {
		switch biz, there := s.list[version]; {
		case !there || s.answers(biz) || biz.Installing():
			p.ceased = time.Time{}
		case p.ceased.IsZero():
			p.ceased = s.now
		}
	}
}

// worksFor is for how long a version from which requests have gone to another may yet work on those that
// came before.
func (s *situation) worksFor(biz arklet.Biz) time.Duration {
	p := s.placed[biz.Version]
	switched := biz.State == arklet.StateDeactivated && biz.Latest.Reason == reasonSwitched
	if p == nil || p.ceased.IsZero() || !switched && biz.State != arklet.StateActivated {
		return 0
	}
	return p.ceased.Add(s.drain).Sub(s.now)
}

// mayReinstall says whether a fresh install activates a version that the base keeps deactivated. It
// does so when the version had served before (the base switched away from it, and will switch
// back), or when no other version serves. Otherwise the base does not activate new versions
// (protocol 5.3, mode 3), and trying would loop.
func (s *situation) mayReinstall(biz arklet.Biz) bool {
	return biz.Latest.Reason == reasonSwitched || !s.activeBeside(biz.Version)
}

// reasonSwitched is that of a version from which the base switched to another (protocol 5.2).
const reasonSwitched = "SWITCHED"

// activeBeside says whether a version other than this one is active.
func (s *situation) activeBeside(version string) bool {
	for v, biz := range s.list {
		if v != version && biz.State == arklet.StateActivated {
			return true
		}
	}
	return false
}

// unwanted says what is to be done with one version that Pods had put on the base; serves is the
// one that is wanted and active, if any.
func (s *situation) unwanted(version, serves string, wait *soonest) step {
	p := s.placed[version]
	biz, there := s.list[version]
	if !there || s.wanted(version) {
		p.unwanted, p.idle = time.Time{}, time.Time{}
		return step{}
	}
	if p.unwanted.IsZero() {
		p.unwanted = s.now
	}
	if biz.Installing() { // can't be uninstalled yet
		wait.within(s.speed.Of(recheckAfter))
		return step{}
	}
	l, leaves := s.leaving[version]
	if left := s.staysFor(biz, serves, p, l, leaves); left > 0 {
		p.idle = time.Time{}
		wait.within(min(left, s.speed.Of(recheckAfter)))
		return step{}
	}
	if s.unsettled > 0 && biz.State == arklet.StateActivated {
		wait.within(min(s.unsettled, s.speed.Of(recheckAfter)))
		return step{}
	}
	if p.idle.IsZero() {
		p.idle = s.now
	}
	left := p.idle.Add(s.drain).Sub(s.now)
	if leaves {
		left = s.leavesIn(l)
	}
	if s.answers(biz) { // also those that come by the Pods of other versions
		for _, other := range s.leaving {
			if other.served {
				left = max(left, s.leavesIn(other))
			}
		}
	}
	way, kept := s.deactivatedSuccessor(biz)
	left = max(left, s.worksFor(biz))
	if kept {
		left = max(left, s.worksFor(s.list[way.Version]))
	}
	if late := leaves && !l.served && s.intrudes(biz, serves); left > 0 && !late {
		wait.within(left)
		return step{}
	}
	m := arklet.Module{Name: s.name, Version: version}
	failed := s.failed[uninstall(m)]
	if left := failed.next.Sub(s.now); failed.err != nil && left > 0 {
		wait.within(left)
		return step{}
	}
	if kept && failed.err == nil { // it makes way once
		return step{do: makeWay, module: m, way: way}
	}
	return step{do: doUninstall, module: m}
}

// leavesIn is for how long requests may yet come by Pods that are being deleted.
func (s *situation) leavesIn(l departure) time.Duration {
	return s.drains(l.since, max(s.drain, l.preStop), l.quiet, l.until)
}

// intrudes says whether requests come to a version beside the newest one that is wanted and active, on a base that
// keeps all active. They are in its hands until it goes, and the longer it waits, the more.
func (s *situation) intrudes(biz arklet.Biz, serves string) bool {
	kept := s.list[serves]
	return len(s.wants) > 0 && serves == s.wants[0].Version && s.answers(biz) && kept.State == arklet.StateActivated && !s.answers(kept)
}

func (s *situation) wanted(version string) bool {
	return slices.ContainsFunc(s.wants, func(w arklet.Module) bool { return w.Version == version })
}

// staysFor is how long an active version that nobody wants stays, since what comes instead is not
// active yet. A Deployment that may make Pods unavailable deletes old ones without knowing where
// new ones will be: without this, their bases would have no version of the module meanwhile. It
// goes in time for the grace period of its Pods, at whose end PodController takes them out of the
// API whatever the base says.
func (s *situation) staysFor(biz arklet.Biz, serves string, p *placement, l departure, leaves bool) time.Duration {
	switch beside := serves != "" || s.activeBeside(biz.Version); {
	case biz.State != arklet.StateActivated:
		return 0
	case beside && s.answers(biz) && s.onItsWay(serves): // and answers until that is there
	case beside:
		return 0
	}
	if p.held {
		return s.speed.Of(recheckAfter)
	}
	if len(s.wants) == 0 {
		switch {
		case leaves && l.comes:
			return l.until.Sub(s.now)
		case !leaves:
			return p.expected.Sub(s.now)
		}
		return 0
	}
	next, there := s.list[s.wants[0].Version]
	if there && next.State == arklet.StateDeactivated && !s.canSwitch && !s.mayReinstall(next) {
		return 0 // which is active only after this one
	}
	works := s.worksFor(next) // another jar of it is uninstalled first
	if leaves {
		return max(works, l.until.Sub(s.now))
	}
	return max(works, p.unwanted.Add(expectedFor).Sub(s.now))
}

// onItsWay says whether a newer version than the one that serves is on its way.
func (s *situation) onItsWay(serves string) bool {
	return len(s.wants) > 0 && s.wants[0].Version != serves && s.failed[install(s.wants[0])].err == nil
}

// deactivatedSuccessor finds the version that the base keeps deactivated for the one that is to go.
// Over MQTT only a fresh install activates it, so it is uninstalled while the other one still
// serves: the base is without the module for the time of an install, and no longer.
func (s *situation) deactivatedSuccessor(going arklet.Biz) (arklet.Module, bool) {
	if s.canSwitch || going.State != arklet.StateActivated || s.activeBeside(going.Version) {
		return arklet.Module{}, false
	}
	for _, w := range s.wants {
		if s.list[w.Version].State == arklet.StateDeactivated {
			return w, true
		}
	}
	return arklet.Module{}, false
}

// soonest is the shortest of several waits; zero means none.
type soonest struct{ d time.Duration }

func (s *soonest) within(d time.Duration) {
	if d <= 0 {
		d = time.Millisecond
	}
	if s.d == 0 || d < s.d {
		s.d = d
	}
}

// recheckAfter is how soon a worker looks again at what changes without a word to it.
const recheckAfter = time.Second

// lastMoment is how much of a grace period is left for the uninstall.
const lastMoment = 5 * time.Second
