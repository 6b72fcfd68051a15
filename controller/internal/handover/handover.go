// Package handover decides in which order the Pods of a module on a base turn Not Ready and Ready, so that a rolling update
// loses no request (Module Controller V2 document 5.1, "module release", steps 4 and 5). It is pure.
package handover

import (
	"slices"
	"time"
)

// Pod is a Pod of a module on a base.
type Pod struct {
	// Key identifies the Pod for the caller.
	Key string
	// IsReady is its readiness in the API server. Ready is its next readiness.
	IsReady, Ready bool
	// Superseded is set if the Pod turns Not Ready only because another one serves in its place.
	Superseded bool
	// Version is the requested version. Active reports whether the base lists it as active.
	Version string
	Active  bool
	// Outdated is set if the workload of the Pod requests another module now.
	Outdated bool
	// ReadySince is when this controller wrote that the Pod is Ready; zero if it did not.
	ReadySince time.Time
}

// SupersedeDelay is how long a Pod stays Ready next to the Pod that serves in its place. Usually its workload deletes it within
// that time, and its status is written only once. If a release comes at that moment, the workload deletes the newer Pod
// instead. If the older Pod were Not Ready then, kube-proxy would take that for the state of the base, because both Pods
// have the same address. The time does not depend on the time scale, because it is that of the workload's controller.
const SupersedeDelay = time.Second

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
		left := readySince.Add(SupersedeDelay).Sub(now)
		switch {
		case up && slices.ContainsFunc(pods, func(other Pod) bool {
			return other.IsReady && other.Ready && other.Version != p.Version &&
				(p.Outdated && !other.Outdated || !p.Active)
		}):
		case down && p.Superseded && left > 0:
			again = left
		default:
			admitted = append(admitted, p)
		}
	}
	return admitted, again
}

// Write is a write. A step begins after the API server has acknowledged the step before.
type Write struct {
	Key string
	// PreferDeletion marks the Pod as the first one to delete, instead of writing its status.
	PreferDeletion bool
}

// Order returns the writes for the Pods of a module on a base. The Pods are sorted, the oldest first.
//
// The Pods that turn Not Ready come first. A Deployment deletes Not Ready Pods before others, so it deletes the old Pod of this
// base, not a Pod that still serves on another one. Then the Pods turn Ready whose version serves now.
//
// served reports whether another base has a Ready Pod of the module. It is called only if Pods turn Not Ready and others turn
// Ready. If it returns false, the Service would have no endpoint between the writes: the new Pod turns Ready first, and the
// old one is marked for deletion before. Both Pods have the address of the same base, so the overlap is harmless. An old Pod
// that only yields is omitted: its workload deletes it now, or, if there is another release, deletes the new Pod, and the old
// one is the endpoint of the Service. The caller tries again after a while if the old Pod still exists.
//
// The Pods whose readiness does not change come last.
func Order(pods []Pod, served func() bool) []Write {
	var down, up, same []Write
	stays := false
	for _, p := range pods {
		switch {
		case p.IsReady && !p.Ready:
			down = append(down, Write{Key: p.Key})
		case !p.IsReady && p.Ready:
			up = append(up, Write{Key: p.Key})
		default:
			stays = stays || p.Ready
			same = append(same, Write{Key: p.Key})
		}
	}
	if stays || len(down) == 0 || len(up) == 0 || served() {
		return slices.Concat(down, up, same)
	}
	steps := make([]Write, 0, len(pods)+len(down))
	for _, d := range down {
		steps = append(steps, Write{Key: d.Key, PreferDeletion: true})
	}
	down = slices.DeleteFunc(down, func(d Write) bool {
		return slices.ContainsFunc(pods, func(p Pod) bool { return p.Key == d.Key && p.Superseded })
	})
	return slices.Concat(steps, up, down, same)
}
