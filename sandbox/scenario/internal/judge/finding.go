package judge

import (
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// FindingKind is the kind of a finding.
type FindingKind string

// The kinds of findings.
const (
	NoActiveVersion       FindingKind = "NoActiveVersion"       // a base has no active version of a requested module
	PodWithoutModule      FindingKind = "PodWithoutModule"      // a Pod is Ready without its modules
	EndpointWithoutModule FindingKind = "EndpointWithoutModule" // an endpoint is ready without the modules of its Pod
	ReadyBeforeOld        FindingKind = "ReadyBeforeOld"        // a Pod was Ready before the older Pod was Not Ready
	InstalledAgain        FindingKind = "InstalledAgain"        // a base received a second command to install a module
	ResolvedAgain         FindingKind = "ResolvedAgain"         // a base resolved a module twice
	ModuleLeft            FindingKind = "ModuleLeft"            // no Pod requests a module of a base
	TooManyWrites         FindingKind = "TooManyWrites"         // a Pod was written too often
	TooManyCommands       FindingKind = "TooManyCommands"       // a base received the same command too often
)

// Finding is a violation of a check, or a mismatch that is excused or doubtful. Kind determines which fields are set.
type Finding struct {
	Kind FindingKind
	// Time is the start of the finding. Length is its duration, or 0 if the finding is a single point in time.
	Time   time.Time
	Length time.Duration
	// Base is the base that the finding concerns, and Pod is the Pod. They are empty if the finding concerns no base
	// or no Pod.
	Base, Pod string
	// Modules are the missing modules, or the module that the finding concerns. The versions are empty if Kind is
	// NoActiveVersion.
	Modules []events.ModuleRef

	// Open reports whether a gap lasted until the end of the run. ProcessEnded reports whether the process of the
	// base ended during the gap.
	Open, ProcessEnded bool
	// Allowed is the part of Length that lies within tolerance windows of outages or installations.
	Allowed time.Duration
	// Service is the Service of the endpoint that the finding concerns.
	Service string
	// Replaced reports whether another version of the missing modules was active during the whole finding.
	Replaced bool
	// FailedRequests is the number of requests that failed because the modules were missing.
	FailedRequests int
	// KnownWithin is the maximum time after Time until the controller could detect the mismatch.
	KnownWithin time.Duration
	// OldPod is the older Pod of a handover. OldVersion is the module version of OldPod.
	OldPod, OldVersion string
	// After is the time between the first and the second installation.
	After time.Duration
	// Command is the name of a command. Code is the error code of its response; empty means success.
	Command, Code string
	// ResponseLost reports whether the controller may not have received the response to the first command.
	ResponseLost bool
	// State is the state of a remaining module. Foreign lists the Pods outside the run that request this module.
	State   events.ModuleState
	Foreign []string
	// Count is the number of writes or commands. Limit is the allowed maximum.
	Count, Limit int
	// Delay is the value of Options.Delay, if it is the reason why the finding is doubtful.
	Delay time.Duration
}

// String describes the finding in a sentence.
func (f Finding) String() string {
	var s strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&s, format, args...) }
	var names []string
	for _, m := range f.Modules {
		names = append(names, m.String())
	}
	modules := strings.Join(names, " and ")
	switch f.Kind {
	case NoActiveVersion:
		add("%s had no active version of %s for %v", f.Base, modules, roundDuration(f.Length))
		if f.Open {
			add(", until the end of the run")
		}
		if f.ProcessEnded {
			add(", after its process ended (%v of it during an outage or an installation)", roundDuration(f.Allowed))
		}
	case PodWithoutModule, EndpointWithoutModule:
		if f.Kind == PodWithoutModule {
			add("Pod %s was Ready", f.Pod)
		} else {
			add("the endpoint of Pod %s in Service %s was ready", f.Pod, f.Service)
		}
		add(", but %s was not active on %s for %v", modules, f.Base, roundDuration(f.Length))
		if f.Allowed > 0 {
			add(" (%v of it during an outage)", roundDuration(f.Allowed))
		}
		if f.Replaced {
			add("; another version was active")
		}
		if f.FailedRequests > 0 {
			add("; %s failed", plain.Count(f.FailedRequests, "request"))
		}
		if f.KnownWithin > 0 {
			add("; the controller could detect this within %v", roundDuration(f.KnownWithin))
		}
	case ReadyBeforeOld:
		add("Pod %s with %s turned Ready on %s before Pod %s with version %s turned Not Ready",
			f.Pod, modules, f.Base, f.OldPod, f.OldVersion)
	case InstalledAgain:
		code := "success"
		if f.Code != "" {
			code = f.Code
		}
		add("%s was installed again after %v; response: %s", modules, roundDuration(f.After), code)
	case ResolvedAgain:
		add("%s entered the state RESOLVED again after %v", modules, roundDuration(f.After))
	case ModuleLeft:
		add("%s remains on %s in state %s, but no Pod of the run on this base requests it", modules, f.Base, f.State)
		for _, pod := range f.Foreign {
			add("; Pod %s, which is not part of the run, requests it", pod)
		}
	case TooManyWrites:
		add("Pod %s was written %s; the limit is %d", f.Pod, plain.Count(f.Count, "time"), f.Limit)
	case TooManyCommands:
		add("%s of %s was sent %s; the limit is %d", f.Command, modules, plain.Count(f.Count, "time"), f.Limit)
	}
	if f.ResponseLost {
		add(" (the first response may have been lost)")
	}
	if f.Delay > 0 {
		add("; events arrived up to %v late, and with their earliest possible times this is not a violation",
			roundDuration(f.Delay))
	}
	return s.String()
}

// Summary describes the result of the check in a sentence.
func (r *Result) Summary() string {
	var s strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&s, format, args...) }
	violations := len(r.Violations)
	switch r.Name {
	case ActiveVersion:
		add("%s on bases", plain.Count(r.Compared, "module"))
		if r.Handovers > 0 {
			add(", %s, shortest overlap %v", plain.Count(r.Handovers, "handover"), roundDuration(r.ShortestOverlap))
		}
		if violations == 0 {
			add(", no gap while a Pod requests a module")
		} else {
			add(", %s, the longest %v", plain.Count(violations, "gap"), roundDuration(longest(r.Violations)))
		}
		if n := len(r.Excused); n > 0 {
			add("; %s after a process ended, the longest %v", plain.Count(n, "tolerated gap"),
				roundDuration(longest(r.Excused)))
		}
	case Truth:
		add("%s to Ready", plain.Count(r.Compared, "change"))
		if n := violations + len(r.Doubtful) + len(r.Excused); n == 0 {
			add(", always with an active module")
		} else {
			add("; Ready without an active module %s, for up to %v "+
				"(tolerated: %v after the controller can detect it, %v while another version is active)",
				plain.Count(n, "time"), roundDuration(longest(r.Violations, r.Doubtful, r.Excused)), readyTolerance,
				switchTolerance)
		}
		if len(r.Published) > 0 {
			add("; endpoints of Not Ready Pods are ignored, because publishNotReadyAddresses is set in Service %s",
				strings.Join(r.Published, ", "))
		}
	case Order:
		add("%s", plain.Count(r.Compared, "handover"))
		if r.OnlyReady > 0 {
			add(", %d of the only Ready Pod of a module", r.OnlyReady)
		}
		if violations > 0 {
			add(", %d in the wrong order", violations)
		}
	case InstalledOnce:
		add("%s", plain.Count(r.Compared, "installation"))
		if violations == 0 {
			add(", none twice")
		} else {
			add(", %d repeated", violations)
		}
		if n := len(r.Excused); n > 0 {
			add("; %d more repeated after a disruption", n)
		}
	case NothingLeft:
		add("%s", plain.Count(r.Compared, "base"))
		if violations == 0 {
			add(", no module left")
		} else {
			add(", %s left", plain.Count(violations, "module"))
		}
	case MaxPodWrites:
		mean := float64(r.Writes) / float64(max(1, r.Compared))
		add("%s, written at most %s each, %.1f on average",
			plain.Count(r.Compared, "Pod"), plain.Count(r.Highest, "time"), mean)
	case MaxCommands:
		add("%s, each sent at most %s", plain.Count(r.Compared, "command"), plain.Count(r.Highest, "time"))
	}
	return s.String()
}

// longest returns the Length of the longest finding.
func longest(lists ...[]Finding) (d time.Duration) {
	for _, all := range lists {
		for _, f := range all {
			d = max(d, f.Length)
		}
	}
	return d
}

// roundDuration rounds a duration for display.
func roundDuration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
