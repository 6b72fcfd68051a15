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

// compareFuzz runs the same schedules with two settings.
func (s *commands) compareFuzz(c *cli.Context, options fuzz.Options) error {
	if c.IsSet("shrink") {
		return usageError{errors.New(
			"--shrink and --compare are mutually exclusive: a comparison does not shrink failures")}
	}
	if options.Parallel < 2 {
		return usageError{errors.New("--compare needs --parallel 2 or more: a sandbox for each side")}
	}
	other, err := fuzzConfig(c, c.String("compare"))
	if err != nil {
		return err
	}
	klog.SetLogger(logr.Discard()) // as in runFuzz
	say(s.Err, "Comparing with seed %d in up to %d sandboxes per side\n", options.Seed, options.Parallel/2)
	r, err := fuzz.Compare(c.Context, options,
		fuzz.Contender{Name: cmp.Or(c.String("config"), "default settings"), Config: options.Config},
		fuzz.Contender{Name: c.String("compare"), Config: other})
	if r == nil {
		return err
	}
	return errors.Join(err, s.show(c, r, func(bool) { s.tellComparison(r, options.Corpus) }))
}

// tellComparison says what became of the schedules on both sides.
func (s *commands) tellComparison(r *fuzz.Comparison, corpus string) {
	say(s.Out, "%s on each side in %s; seed %d\n\n", plain.Count(r.Schedules, "schedule"), r.Elapsed.Round(time.Second),
		r.Seed)
	rows := [][]string{{"", "a: " + r.A.Name, "b: " + r.B.Name}}
	row := func(name string, a, b int) { rows = append(rows, []string{name, strconv.Itoa(a), strconv.Itoa(b)}) }
	row("schedules", r.Schedules, r.Schedules)
	row("passed", r.A.Passed, r.B.Passed)
	row("failed", r.A.Failed, r.B.Failed)
	broken := map[string]bool{}
	for _, side := range []fuzz.Side{r.A, r.B} {
		for name := range side.Invariants {
			broken[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		row("  "+name, r.A.Invariants[name], r.B.Invariants[name])
	}
	row("unclear", r.A.Inconclusive, r.B.Inconclusive)
	table(s.Out, rows)
	for _, side := range []struct {
		name, other string
		fuzz.Side
	}{{"a", "b", r.A}, {"b", "a", r.B}} {
		say(s.Out, "\nfails on %s only: %d\n", side.name, len(side.OneSided))
		for _, f := range side.OneSided {
			beside := ""
			if f.Inconclusive {
				beside = " (unclear on " + side.other + ")"
			}
			say(s.Out, "  seed %d%s: %s\n", f.Seed, beside, f.Seen)
		}
	}
	say(s.Out, "\n%s\n", filepath.Join(corpus, fuzz.ComparisonFile))
}
