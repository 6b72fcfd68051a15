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
	NoActiveVersion       FindingKind = "NoActiveVersion"       // a base has no active version of a module that a Pod requests
	PodWithoutModule      FindingKind = "PodWithoutModule"      // a Pod is Ready without its modules
	EndpointWithoutModule FindingKind = "EndpointWithoutModule" // an endpoint is ready without the modules of its Pod
	ReadyBeforeOld        FindingKind = "ReadyBeforeOld"        // a Pod turned Ready before the older Pod turned Not Ready
	InstalledAgain        FindingKind = "InstalledAgain"        // a base received a second command to install a module
	ResolvedAgain         FindingKind = "ResolvedAgain"         // a base resolved a module twice
	ModuleLeft            FindingKind = "ModuleLeft"            // no Pod requests a module of a base
	TooManyWrites         FindingKind = "TooManyWrites"         // a Pod was written too often
	TooManyCommands       FindingKind = "TooManyCommands"       // a base received the same command too often
)

// Finding is a violation, or a time that looks like one and is excused or doubtful.
type Finding struct {
	Kind FindingKind
	// Time is the beginning, Length the duration. Length is 0 if the finding is an instant.
	Time   time.Time
	Length time.Duration
	// Base and Pod are empty if the finding does not concern one.
	Base, Pod string
	// Modules are the missing modules, or the module of the finding. NoActiveVersion does not set the version.
	Modules []events.ModuleRef

	// Open reports whether a gap lasts until the end of the run, ProcessEnded whether the process of the base ended in it.
	Open, ProcessEnded bool
	// Allowed is the part of Length that is in windows of outages or installations.
	Allowed time.Duration
	// Service is the Service of an endpoint.
	Service string
	// Replaced reports whether another version of the missing modules was active all the time.
	Replaced bool
	// FailedRequests is the number of requests that failed for lack of the modules.
	FailedRequests int
	// KnownWithin is the time until the controller could know of a mismatch at the latest.
	KnownWithin time.Duration
	// OldPod and OldVersion are the older Pod of a handover and its version of the module.
	OldPod, OldVersion string
	// After is the time between the first and the second installation.
	After time.Duration
	// Command is the name of a command, Code the error code of its response. An empty code means success.
	Command, Code string
	// ResponseLost reports whether the controller may not have received the first response.
	ResponseLost bool
	// State is the state of a module that is left, Foreign the Pods outside of the run that request it.
	State   events.ModuleState
	Foreign []string
	// Count is the number of writes or commands, Limit the highest number that is allowed.
	Count, Limit int
	// Delay is the Options.Delay that makes the finding doubtful.
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
		add("%s has no active version of %s for %v", f.Base, modules, roundDuration(f.Length))
		if f.Open {
			add(", until the end")
		}
		if f.ProcessEnded {
			add(", since its process ended, %v of it during an outage or an installation", roundDuration(f.Allowed))
		}
	case PodWithoutModule, EndpointWithoutModule:
		if f.Kind == PodWithoutModule {
			add("Pod %s is Ready", f.Pod)
		} else {
			add("the endpoint of Pod %s in Service %s is ready", f.Pod, f.Service)
		}
		add(", and %s has no active %s for %v", f.Base, modules, roundDuration(f.Length))
		if f.Replaced {
			add(", where another version serves")
		}
		if f.FailedRequests > 0 {
			add(", in which %s failed", plain.Count(f.FailedRequests, "request"))
		}
		if f.KnownWithin > 0 {
			add(" (the controller could know within %v)", roundDuration(f.KnownWithin))
		}
		if f.Allowed > 0 {
			add(", %v of it during an outage", roundDuration(f.Allowed))
		}
	case ReadyBeforeOld:
		add("Pod %s with %s turned Ready on %s before Pod %s with version %s had turned Not Ready",
			f.Pod, modules, f.Base, f.OldPod, f.OldVersion)
	case InstalledAgain:
		code := "success"
		if f.Code != "" {
			code = f.Code
		}
		add("%s was installed again after %v, and answered: %s", modules, roundDuration(f.After), code)
	case ResolvedAgain:
		add("%s was resolved again after %v", modules, roundDuration(f.After))
	case ModuleLeft:
		add("%s is left on %s, %s, and no Pod of the run on that base requests it", modules, f.Base, f.State)
		for _, pod := range f.Foreign {
			add("; Pod %s, which is not part of the run, requests it", pod)
		}
	case TooManyWrites:
		add("Pod %s was written %d times; at most %d were allowed", f.Pod, f.Count, f.Limit)
	case TooManyCommands:
		add("%s of %s came %d times; at most %d were allowed", f.Command, modules, f.Count, f.Limit)
	}
	if f.ResponseLost {
		add(" (the first answer may have been lost)")
	}
	if f.Delay > 0 {
		add("; events were up to %v late, and with their earliest times it is no violation", roundDuration(f.Delay))
	}
	return s.String()
}

// Summary describes the result in a sentence.
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
			add(", no gap")
		} else {
			add(", %s, the longest %v", plain.Count(violations, "gap"), roundDuration(longest(r.Violations)))
		}
		if n := len(r.Excused); n > 0 {
			add("; %d more where a process ended, the longest %v", n, roundDuration(longest(r.Excused)))
		}
	case Truth:
		add("%s something became Ready", plain.Count(r.Compared, "time"))
		if n := violations + len(r.Doubtful) + len(r.Excused); n == 0 {
			add(", always with its module")
		} else {
			add("; Ready without its module %s, the longest %v (allowed: %v once the controller can know, %v beside another version)",
				plain.Count(n, "time"), roundDuration(longest(r.Violations, r.Doubtful, r.Excused)), readyTolerance, switchTolerance)
		}
		if len(r.Published) > 0 {
			add("; endpoints of Pods that are not Ready are ignored, because publishNotReadyAddresses is set in Service %s",
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
			add("; %d more repeated after a disturbance", n)
		}
	case NothingLeft:
		add("%s", plain.Count(r.Compared, "base"))
		if violations == 0 {
			add(", nothing left")
		} else {
			add(", %s left", plain.Count(violations, "module"))
		}
	case MaxPodWrites:
		mean := float64(r.Writes) / float64(max(1, r.Compared))
		add("%s, written at most %s each, %.1f on average",
			plain.Count(r.Compared, "Pod"), plain.Count(r.Highest, "time"), mean)
	case MaxCommands:
		add("%s, each at most %s", plain.Count(r.Compared, "command"), plain.Count(r.Highest, "time"))
	}
	return s.String()
}

// longest returns the length of the longest finding.
func longest(lists ...[]Finding) (d time.Duration) {
	for _, all := range lists {
		for _, f := range all {
			d = max(d, f.Length)
		}
	}
	return d
}

// roundDuration rounds a duration for people.
func roundDuration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
