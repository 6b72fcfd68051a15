// Package handover says in which order the Pods of one module on one base turn Not Ready and Ready,
// so that a rolling update loses no request (Module Controller V2 document 5.1, "module release",
// steps 4 and 5). It is pure: no I/O, no time of its own.
package handover

import (
	"slices"
	"time"
)

// Pod is one Pod of a module on a base, as it is and as it is to be.
type Pod struct {
	// Key names the Pod to the caller.
	Key string
	// IsReady is what the API server says now; Ready is what it should say.
	IsReady, Ready bool
	// Yields says that the Pod turns Not Ready only because another one serves in its place.
	Yields bool
	// Version is the requested version. Active reports whether the base lists it as active.
	Version string
	Active  bool
	// Outdated is set if the workload of the Pod requests another module now.
	Outdated bool
	// ReadySince is when this controller wrote that the Pod is Ready; zero if it did not.
	ReadySince time.Time
}

// YieldAfter is how long a Pod stays Ready next to the Pod that serves in its place. Usually its workload deletes it within
// that time, and its status is written only once. If a release comes at that moment, the workload deletes the newer Pod
// instead. If the older Pod were Not Ready then, kube-proxy would take that for the state of the base, because both Pods
// have the same address. The time does not depend on the time scale, because it is that of the workload's controller.
const YieldAfter = time.Second

// Admit returns the Pods whose status may be written now, and when to call it again for the others; 0 means not before the
// next change. While a Pod of another version stays Ready, a Pod does not turn Ready if its workload does not request
// it any more, or if the base does not list its version as active. A Pod that yields stays Ready for YieldAfter.
func Admit(pods []Pod, now time.Time) (admitted []Pod, again time.Duration) {
	var readySince time.Time // of the last Pod that stays Ready
	for _, p := range pods {
		if p.IsReady && p.Ready && p.ReadySince.After(readySince) {
			readySince = p.ReadySince
		}
	}
	for _, p := range pods {
		up, down := !p.IsReady && p.Ready, p.IsReady && !p.Ready
		left := readySince.Add(YieldAfter).Sub(now)
		switch {
		case up && slices.ContainsFunc(pods, func(other Pod) bool {
			return other.IsReady && other.Ready && other.Version != p.Version && (p.Outdated && !other.Outdated || !p.Active)
		}):
		case down && p.Yields && left > 0:
			again = left
		default:
			admitted = append(admitted, p)
		}
	}
	return admitted, again
}

// Step is one write. Steps are made one after the other, each acknowledged by the API server before
// the next begins.
type Step struct {
	Key string
	// PreferDeletion asks to mark the Pod as the one to delete first, before another one turns
	// Ready while it still is. The status is not written then.
	PreferDeletion bool
}

// Order returns the writes for the Pods of one module on one base, which come oldest first: the last
// one's version is the one that serves.
//
// Pods that turn Not Ready come first, oldest first, so that the Deployment, which deletes Not
// Ready Pods before others, takes the old Pod of this base and not one that still serves elsewhere;
// then come the Pods that turn Ready.
//
// served says whether another base has a Ready Pod of the module; it is asked only when both kinds
// are there. If none has, the Service would have no endpoint between the two writes. The new Pod
// then turns Ready first, and the old one is marked for deletion beforehand to keep the preference.
// Requests reach the same base through either Pod, so the overlap is harmless, and an old Pod that only
// yields is left out: its workload deletes it now, or, if the next release comes, the new one, and then
// the old one is the Service's endpoint. The caller asks again if it is still there after a while.
//
// Pods whose readiness stays come last, since the order does not matter to them.
func Order(pods []Pod, served func() bool) []Step {
	var down, up, same []Step
	stays := false
	for _, p := range pods {
		switch {
		case p.IsReady && !p.Ready:
			down = append(down, Step{Key: p.Key})
		case !p.IsReady && p.Ready:
			up = append(up, Step{Key: p.Key})
		default:
			stays = stays || p.Ready
			same = append(same, Step{Key: p.Key})
		}
	}
	if stays || len(down) == 0 || len(up) == 0 || served() {
		return slices.Concat(down, up, same)
	}
	steps := make([]Step, 0, len(pods)+len(down))
	for _, d := range down {
		steps = append(steps, Step{Key: d.Key, PreferDeletion: true})
	}
	down = slices.DeleteFunc(down, func(d Step) bool {
		return slices.ContainsFunc(pods, func(p Pod) bool { return p.Key == d.Key && p.Yields })
	})
	return slices.Concat(steps, up, down, same)
}
