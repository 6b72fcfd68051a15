package fuzz

import (
	"fmt"
	"io"
	"slices"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// WriteJUnit writes JUnit XML as that of scenarios: a testcase for each failure of r, with the
// evidence of a run, or one that has passed. What has kept the fuzzer from going on is an error.
func WriteJUnit(w io.Writer, r *Result) error {
	const name = "fuzz"
	all := &scenario.Report{Seed: r.Seed, Started: r.Started, Elapsed: r.Elapsed}
	for _, f := range r.Failures {
		run := &scenario.Run{Started: r.Started, Seed: f.Seed, File: f.File}
		if f.Report != nil && len(f.Report.Runs) > 0 {
			run = f.runs()[0]
		}
		run.Scenario, run.Cell = name, map[string]any{f.Invariant: f.moves()}
		run.Verdict, run.Failure = scenario.Failed, f.Seen
		run.Details = slices.Insert(slices.Clone(run.Details), 0, scenario.Detail{Title: "Found", Text: fmt.Sprintf(
			"by seed %d, in %d schedules; failed in %d of %d repetitions\nmoves: %s", f.Seed, f.Times, f.Failed, f.Repeated, f.Smallest)})
		all.Runs = append(all.Runs, run)
	}
	last := &scenario.Run{
		Scenario: name, Started: r.Started, Elapsed: r.Elapsed, Seed: r.Seed, Verdict: scenario.Passed,
		Description: fmt.Sprintf("%d schedules with %d moves, %d pairs of moves: nothing has failed", r.Schedules, r.Moves, r.Pairs),
	}
	switch {
	case r.Error != "":
		last.Verdict, last.Failure = scenario.Errored, r.Error
	case r.Schedules == 0:
		last.Verdict, last.Failure = scenario.Skipped, "no schedule has ended"
	}
	if len(r.Failures) == 0 || r.Error != "" {
		all.Runs = append(all.Runs, last)
	}
	return report.WriteJUnit(w, all)
}
