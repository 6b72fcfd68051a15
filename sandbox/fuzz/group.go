package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// Failure is a kind of failure, with the smallest schedule that causes it.
type Failure struct {
	// Invariant is the name of the check that failed, "requests" if requests were lost, or "at rest" if the final
	// state was wrong.
	Invariant string `json:"invariant"`
	// Seed of the first schedule that failed. Smallest is the shrunk schedule.
	Seed     uint64   `json:"seed"`
	Smallest Schedule `json:"smallest"`
	// Seen describes the failure in a sentence.
	Seen string `json:"seen"`
	// Failed of Repeated runs of Smallest had the same failure.
	Failed   int `json:"failed"`
	Repeated int `json:"repeated"`
	// Times is the number of schedules with this failure.
	Times int `json:"times"`
	// File is the name of the scenario in the corpus. The report has the same name, with the extension .html.
	File string `json:"file"`
	// Report of a run with this failure; may be nil.
	Report *scenario.Report `json:"-"`
	// Log is the end of the controllers' logs after that run. It also has lines of schedules that ran concurrently.
	// It may be empty.
	Log string `json:"-"`
	// Shrinking is the duration of shrinking.
	Shrinking time.Duration `json:"shrinking"`
}

type runResult struct {
	invariant string // empty = passed
	seen      string
	// inconclusive reports whether the run was inconclusive.
	inconclusive bool
	// log is the end of the controllers' logs, if the run failed.
	log string
}

func evaluate(r *scenario.Report) runResult {
	for _, run := range r.Runs {
		switch run.Verdict {
		case scenario.Passed, scenario.Skipped:
			continue
		case scenario.Errored:
			return runResult{inconclusive: true, seen: run.Failure}
		}
		o := runResult{invariant: "at rest", seen: run.Failure}
		for _, t := range run.Traffic {
			if t.Verdict == scenario.Failed {
				o.invariant = "requests"
				o.seen = fmt.Sprintf("stream %s: %d of %d requests were lost", t.Name, t.Summary.Lost, t.Sent)
			}
		}
		for _, c := range run.Checks { // a check explains more than lost requests do
			if c.Verdict == scenario.Failed {
				o.invariant, o.seen = c.Name, c.Name+": "+c.Summary
				if len(c.Violations) > 0 {
					o.seen += "; " + c.Violations[0].Message
				}
				break
			}
		}
		if o.invariant == "requests" {
			if why := takenTooSoon(run); why != "" {
				return runResult{inconclusive: true, seen: why + ": " + o.seen}
			}
		}
		return o
	}
	return runResult{}
}

// shape returns the invariant and the moves of the smallest schedule, sorted. Failures of the same shape are merged.
func (f *Failure) shape() string { return f.Invariant + ": " + f.actionNames() }

// actionNames returns the names of the moves, sorted, without duplicates.
func (f *Failure) actionNames() string {
	var names []string
	for _, m := range f.Smallest.Actions {
		names = append(names, m.Do)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// findSameShape returns the failure in a list that has the same shape as f, or nil.
func findSameShape(list []*Failure, f *Failure) *Failure {
	i := slices.IndexFunc(list, func(known *Failure) bool { return known.shape() == f.shape() })
	if i < 0 {
		return nil
	}
	return list[i]
}
