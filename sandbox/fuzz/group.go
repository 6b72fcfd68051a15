package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// Failure is one way to fail, and the smallest schedule that was found for it.
type Failure struct {
	// Invariant that was broken: the name of a check, "requests" if some were lost, or "at rest" if
	// something was not as it should be in the end.
	Invariant string `json:"invariant"`
	// Seed that found it first; Smallest is what it was reduced to.
	Seed     uint64   `json:"seed"`
	Smallest Schedule `json:"smallest"`
	// Seen says what was seen, in a sentence.
	Seen string `json:"seen"`
	// Failed of Repeated repetitions of Smallest have failed alike.
	Failed   int `json:"failed"`
	Repeated int `json:"repeated"`
	// Times is how many schedules have failed like this.
	Times int `json:"times"`
	// File is the scenario, in the corpus. The report is beside it.
	File string `json:"file"`
	// Report of a run that has failed like this; nil = there is none.
	Report *scenario.Report `json:"-"`
	// Log has the last lines of the controllers after that run; empty = there are none. Schedules beside it
	// are in it too.
	Log string `json:"-"`
	// Shrinking is how long it took to reduce.
	Shrinking time.Duration `json:"shrinking"`
}

// outcome of one run of a schedule.
type outcome struct {
	invariant string // empty = it passed
	seen      string
	// unclear says that nobody can judge the run.
	unclear bool
	// features are the kinds of what happened.
	features []string
	// log has the last lines of the controllers, if it failed.
	log string
}

// judge says how a run ended.
func judge(r *scenario.Report) outcome {
	for _, run := range r.Runs {
		switch run.Verdict {
		case scenario.Passed, scenario.Skipped:
			continue
		case scenario.Errored:
			return outcome{unclear: true, seen: run.Failure}
		}
		o := outcome{invariant: "at rest", seen: run.Failure}
		for _, t := range run.Traffic {
			if t.Verdict == scenario.Failed {
				o.invariant = "requests"
				o.seen = fmt.Sprintf("stream %s: %d of %d requests were lost", t.Name, t.Summary.Lost, t.Sent)
			}
		}
		for _, c := range run.Checks { // a check tells more than lost requests do
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
				return outcome{unclear: true, seen: why + ": " + o.seen}
			}
		}
		return o
	}
	return outcome{}
}

// shape groups failures: the invariant and the moves of the smallest schedule, without their
// order.
func (f *Failure) shape() string { return f.Invariant + ": " + f.moves() }

// moves are the names of the moves, each once, without their order.
func (f *Failure) moves() string {
	var names []string
	for _, m := range f.Smallest.Moves {
		names = append(names, m.Do)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// alike returns the failure of a list that is of the same kind as f, or nil.
func alike(list []*Failure, f *Failure) *Failure {
	i := slices.IndexFunc(list, func(known *Failure) bool { return known.shape() == f.shape() })
	if i < 0 {
		return nil
	}
	return list[i]
}
