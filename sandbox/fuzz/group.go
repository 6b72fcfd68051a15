package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// Failure is one kind of failure, with the smallest schedule found that reproduces it.
type Failure struct {
	// Invariant is the name of the check that failed, "requests" if requests were lost, or "final state" if the final
	// state was wrong.
	Invariant string `json:"invariant"`
	// Seed is the seed of the first schedule with this failure. Smallest is the shrunk schedule.
	Seed     uint64   `json:"seed"`
	Smallest Schedule `json:"smallest"`
	// Seen describes the failure in a sentence.
	Seen string `json:"seen"`
	// Repeated is how often Smallest was run after shrinking. Failed is how often it had the same failure.
	Failed   int `json:"failed"`
	Repeated int `json:"repeated"`
	// Times is the number of schedules that had this failure.
	Times int `json:"times"`
	// File is the file name of the scenario in the corpus. The report has the same name with the extension .html.
	File string `json:"file"`
	// Report is the report of a run with this failure; may be nil.
	Report *scenario.Report `json:"-"`
	// Log is the end of the controller logs after the run of Report. It also contains log lines of schedules that ran
	// concurrently. It may be empty.
	Log string `json:"-"`
	// Shrinking is how long shrinking took.
	Shrinking time.Duration `json:"shrinking"`
}

type runResult struct {
	invariant string // name of the failed check; empty if the run passed
	seen      string
	// inconclusive reports whether the run was inconclusive.
	inconclusive bool
	// log is the end of the controller logs if the run failed.
	log string
}

func evaluate(r *scenario.Report) runResult {
	for _, run := range r.Runs {
		switch run.Result {
		case scenario.Passed, scenario.Skipped:
			continue
		case scenario.Errored:
			return runResult{inconclusive: true, seen: run.Failure}
		}
		o := runResult{invariant: "final state", seen: run.Failure}
		for _, t := range run.Traffic {
			if t.Result == scenario.Failed {
				o.invariant = "requests"
				o.seen = fmt.Sprintf("stream %s: %d of %d requests were lost", t.Name, t.Summary.Lost, t.Sent)
			}
		}
		for _, c := range run.Checks { // checks explain more than lost requests
			if c.Result == scenario.Failed {
				o.invariant, o.seen = c.Name, c.Name+": "+c.Summary
				if len(c.Violations) > 0 {
					o.seen += "; " + c.Violations[0].Message
				}
				break
			}
		}
		if o.invariant == "requests" {
			if reason := deletedLastReadyPod(run); reason != "" {
				return runResult{inconclusive: true, seen: reason + ": " + o.seen}
			}
		}
		return o
	}
	return runResult{}
}

// shape returns the invariant and the sorted actions of the smallest schedule. Failures with the same shape are
// merged.
func (f *Failure) shape() string { return f.Invariant + ": " + f.actionNames() }

// actionNames returns the names of the actions in sorted order, without duplicates.
func (f *Failure) actionNames() string {
	var names []string
	for _, m := range f.Smallest.Actions {
		names = append(names, m.Do)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// findSameShape returns the first failure in the list that has the same shape as f, or nil.
func findSameShape(list []*Failure, f *Failure) *Failure {
	i := slices.IndexFunc(list, func(known *Failure) bool { return known.shape() == f.shape() })
	if i < 0 {
		return nil
	}
	return list[i]
}
