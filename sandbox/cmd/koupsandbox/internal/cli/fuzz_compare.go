package cli

import (
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/sandbox/fuzz"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// compareFuzz runs the same fuzz schedules with two sandbox configurations and compares the results.
func (s *commands) compareFuzz(c *cli.Context, options fuzz.Options) error {
	if c.IsSet("shrink") {
		return usageError{errors.New(
			"--shrink cannot be used with --compare, which does not shrink failures")}
	}
	if options.Parallel < 2 {
		return usageError{errors.New("--compare requires --parallel 2 or more: one sandbox per configuration")}
	}
	other, err := fuzzConfig(c, c.String("compare"))
	if err != nil {
		return err
	}
	klog.SetLogger(logr.Discard()) // see runFuzz
	printf(s.Err, "Comparing with seed %d; sandboxes per configuration: %d\n", options.Seed, options.Parallel/2)
	r, err := fuzz.Compare(c.Context, options,
		fuzz.Contender{Name: cmp.Or(c.String("config"), "default configuration"), Config: options.Config},
		fuzz.Contender{Name: c.String("compare"), Config: other})
	if r == nil {
		return err
	}
	return errors.Join(err, s.printResult(c, r, func(bool) { s.printComparison(r, options.Corpus) }))
}

// printComparison prints the results of each fuzz schedule with both configurations.
func (s *commands) printComparison(r *fuzz.Comparison, corpus string) {
	printf(s.Out, "%s with each configuration in %s; seed %d\n\n", plain.Count(r.Schedules, "schedule"),
		r.Elapsed.Round(time.Second),
		r.Seed)
	rows := [][]string{{"", "a: " + r.A.Name, "b: " + r.B.Name}}
	row := func(name string, a, b int) { rows = append(rows, []string{name, strconv.Itoa(a), strconv.Itoa(b)}) }
	row("schedules", r.Schedules, r.Schedules)
	row("passed", r.A.Passed, r.B.Passed)
	row("failed", r.A.Failed, r.B.Failed)
	violated := map[string]bool{}
	for _, side := range []fuzz.Side{r.A, r.B} {
		for name := range side.Invariants {
			violated[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(violated)) {
		row("  "+name, r.A.Invariants[name], r.B.Invariants[name])
	}
	row("inconclusive", r.A.Inconclusive, r.B.Inconclusive)
	table(s.Out, rows)
	for _, side := range []struct {
		name, other string
		fuzz.Side
	}{{"a", "b", r.A}, {"b", "a", r.B}} {
		printf(s.Out, "\nfailed with %s only: %d\n", side.name, len(side.OneSided))
		for _, f := range side.OneSided {
			note := ""
			if f.Inconclusive {
				note = " (inconclusive with " + side.other + ")"
			}
			printf(s.Out, "  seed %d%s: %s\n", f.Seed, note, f.Seen)
		}
	}
	printf(s.Out, "\n%s\n", filepath.Join(corpus, fuzz.ComparisonFile))
}
