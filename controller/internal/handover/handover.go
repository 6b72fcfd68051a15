// Package handover decides in which order the Pods of a module on a base turn Not Ready and Ready, so that a rolling
// update loses no requests (Module Controller V2 document 5.1, "module release", steps 4 and 5). It has no side
// effects.
package handover

import (
	"slices"
	"time"
)

// Pod is a module Pod on a base.
type Pod struct {
	// Key identifies the Pod to the caller.
	Key string
	// IsReady is true if the Pod is Ready in the API server. ShouldBeReady is true if the Pod should be Ready.
	IsReady, ShouldBeReady bool
	// Superseded is true if the Pod becomes Not Ready only because a newer Pod replaces it.
	Superseded bool
	// Version is the version that the Pod requests. Active reports whether the module list of the base shows the
	// version as active.
	Version string
	Active  bool
	// Outdated is true if the workload of the Pod now requests another module version.
	Outdated bool
	// ReadySince is the time when this controller wrote that the Pod is Ready; zero if this controller did not write
	// it.
	ReadySince time.Time
}

// SupersedeDelay is how long a superseded Pod stays Ready after the new Pod became Ready. The workload usually
// deletes the superseded Pod within that time, which saves a status write. However, if another release begins at that
// moment, the workload deletes the new Pod instead. If the superseded Pod were already Not Ready, kube-proxy would
// treat the base as not ready, because both Pods have the same address. The delay is independent of the time scale,
// because it depends on the reaction time of the workload controller.
const SupersedeDelay = time.Second

// Admit returns the Pods whose status may be written now, and the delay before Admit must be called again for the
// other Pods; 0 means that Admit need not be called before the next change. While a Pod of another version is Ready,
// a Pod must not become Ready if it is outdated, or if its version is not active in the module list of the base. A
// superseded Pod stays Ready for SupersedeDelay.
func Admit(pods []Pod, now time.Time) (admitted []Pod, recheckAfter time.Duration) {
	var readySince time.Time // of the last Pod that stays Ready
	for _, p := range pods {
		if p.IsReady && p.ShouldBeReady && p.ReadySince.After(readySince) {
			readySince = p.ReadySince
		}
	}
	for _, p := range pods {
		up, down := !p.IsReady && p.ShouldBeReady, p.IsReady && !p.ShouldBeReady
		left := readySince.Add(SupersedeDelay).Sub(now)
		switch {
		case up && slices.ContainsFunc(pods, func(other Pod) bool {
			return other.IsReady && other.ShouldBeReady && other.Version != p.Version &&
				(p.Outdated && !other.Outdated || !p.Active)
		}):
		case down && p.Superseded && left > 0:
			recheckAfter = left
		default:
			admitted = append(admitted, p)
		}
	}
	return admitted, recheckAfter
}

// Write is a write to a Pod. It must begin after the API server has acknowledged the previous write.
type Write struct {
	Key string
	// PreferDeletion is true if the write sets a low deletion cost on the Pod instead of writing its status.
	PreferDeletion bool
}

// Order returns the writes for the Pods of a module on a base, in the order in which they must be made. pods must be
// sorted, the oldest first.
//
// Pods turn Not Ready first. A Deployment deletes Not Ready Pods before others, so it deletes the old Pod of this
// base instead of a Pod that still serves on another base. Then the Pods whose version is now active turn Ready. The
// Pods whose readiness does not change come last.
//
// isServedElsewhere reports whether another base has a Ready Pod of the module. It is called only if some Pods turn Not
// Ready and others turn Ready. If it returns false, this order would leave the Service without an endpoint between the
// writes. Then the old Pods get a low deletion cost, and the new Pods turn Ready before the old Pods turn Not Ready.
// All of them have the address of the same base, so the overlap is harmless. Superseded Pods stay Ready: the workload
// usually deletes them now. If another release begins, the workload deletes the new Pod, and the old Pod remains the
// endpoint of the Service. The caller calls Order again after SupersedeDelay if the old Pod still exists.
func Order(pods []Pod, isServedElsewhere func() bool) []Write {
	var turnNotReady, turnReady, keepReady []Write
	stays := false
	for _, p := range pods {
		switch {
		case p.IsReady && !p.ShouldBeReady:
			turnNotReady = append(turnNotReady, Write{Key: p.Key})
		case !p.IsReady && p.ShouldBeReady:
			turnReady = append(turnReady, Write{Key: p.Key})
		default:
			stays = stays || p.ShouldBeReady
			keepReady = append(keepReady, Write{Key: p.Key})
		}
	}
	if stays || len(turnNotReady) == 0 || len(turnReady) == 0 || isServedElsewhere() {
		return slices.Concat(turnNotReady, turnReady, keepReady)
	}
	steps := make([]Write, 0, len(pods)+len(turnNotReady))
	for _, d := range turnNotReady {
		steps = append(steps, Write{Key: d.Key, PreferDeletion: true})
	}
	turnNotReady = slices.DeleteFunc(turnNotReady, func(d Write) bool {
		return slices.ContainsFunc(pods, func(p Pod) bool { return p.Key == d.Key && p.Superseded })
	})
	return slices.Concat(steps, turnReady, turnNotReady, keepReady)
}
