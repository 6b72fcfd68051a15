package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fuzz"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func (s *commands) fuzz() *cli.Command {
	return &cli.Command{
		Name:  "fuzz",
		Usage: "run random releases with random faults, and shrink each failure to a minimal scenario",
		Description: describe(
			`Creates its own sandboxes and deletes them afterwards. Each schedule is a random scenario of
bases, workloads and actions. A schedule fails if requests are lost, if a scenario check fails,
or if the final state is wrong. Failures are repeated, minimized and written to --corpus as
scenarios. After Ctrl-C, the corpus contains all failures found so far.
Exit status: 0 if no schedule failed, 1 otherwise.

With --compare, the same schedules run with two configurations, and the results of both are
printed. The exit status is 0 unless the comparison could not be completed.`,
			"koupsandbox fuzz --for 30m", "koupsandbox fuzz --count 20 --only release"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME`: name prefix of the sandboxes", Value: "fuzz",
				Category: sandboxCategory},
			&cli.DurationFlag{Name: "for",
				Usage:       "`DURATION`: time during which new schedules start",
				DefaultText: "10m without --count", Category: runsCategory},
			&cli.IntFlag{Name: "count", Usage: "`N`: maximum number of schedules to run", DefaultText: "no limit",
				Category: runsCategory},
			&cli.Uint64Flag{Name: "seed",
				Usage:       "`SEED`: random seed; pass the seed of an earlier command to repeat its schedules",
				DefaultText: "random", Category: runsCategory},
			&cli.Uint64Flag{Name: "replay", Usage: "`SEED`: run only the schedule with this random seed",
				DefaultText: "none", Category: runsCategory},
			&cli.StringSliceFlag{Name: "only",
				Usage:    "`NAME`: use only this action, for example release; repeatable",
				Category: runsCategory},
			&cli.BoolFlag{Name: "beyond-contract", Category: runsCategory,
				Usage: "also use faults that an API server never causes"},
			&cli.IntFlag{Name: "parallel",
				Usage: "`N`: number of sandboxes to use in parallel; --compare uses half of them per configuration",
				Value: 3, Category: runsCategory},
			&cli.IntFlag{Name: "speed", Category: sandboxCategory,
				Usage: "`N`: time scale, 1 to 10: divides all timeouts and intervals by N", Value: fuzz.Speed},
			&cli.StringFlag{Name: "corpus", Usage: "`DIR`: write failures and results to this directory", Value: "fuzz-corpus",
				Category: outputCategory},
			&cli.DurationFlag{Name: "shrink",
				Usage: "`DURATION`: maximum time to minimize a failure; 0 disables minimization",
				Value: 5 * time.Minute, Category: runsCategory},
			newConfigFlag(),
			&cli.StringFlag{Name: "compare", Category: sandboxCategory,
				Usage: "`FILE`: configuration file to compare with the file from --config"},
			newOutputFlag(formatJSON),
		},
		Action: noArgs(s.runFuzz),
	}
}

func (s *commands) runFuzz(c *cli.Context) error {
	options, err := s.fuzzOptions(c)
	if err != nil {
		return err
	}
	if c.IsSet("compare") {
		return s.compareFuzz(c, options)
	}
	klog.SetLogger(logr.Discard()) // client-go logs interrupted watches
	printf(s.Err, "Fuzzing with seed %d; sandboxes: %d\n", options.Seed, options.Parallel)
	r, err := fuzz.Run(c.Context, options)
	if r == nil {
		return err
	}
	if err := errors.Join(err, s.printResult(c, r, func(bool) { s.printFuzz(r, options.Corpus) })); err != nil {
		return err
	}
	if len(r.Failures) > 0 {
		return errFailed
	}
	return nil
}

// fuzzProgress returns a function that prints each failure immediately, and the progress every 10 seconds.
func (s *commands) fuzzProgress() func(fuzz.Progress) {
	lastPrinted, failures := time.Now(), 0
	return func(p fuzz.Progress) {
		switch {
		case p.Failure != nil:
			failures++
			printf(s.Err, "failure after %s: %s (seed %d)\n", p.Elapsed.Round(time.Second), p.Failure.Seen,
				p.Failure.Seed)
		case p.Shrinking > 0:
			printf(s.Err, "minimized to %s\n", plain.Count(p.Shrinking, "action"))
		case time.Since(lastPrinted) >= 10*time.Second:
			lastPrinted = time.Now()
			printf(s.Err, "%s: %s (%.0f per hour, %d repeated because they were inconclusive), %s so far\n",
				p.Elapsed.Round(time.Second),
				plain.Count(p.Schedules, "schedule"), float64(p.Schedules)/p.Elapsed.Hours(), p.Inconclusive,
				plain.Count(failures, "failure"))
		}
	}
}

func (s *commands) fuzzOptions(c *cli.Context) (fuzz.Options, error) {
	o := fuzz.Options{
		Name: c.String(nameFlag), Seed: c.Uint64("seed"), Count: c.Int("count"), For: c.Duration("for"),
		Parallel: c.Int("parallel"),
		Only:     c.StringSlice("only"), Beyond: c.Bool("beyond-contract"), ShrinkFor: c.Duration("shrink"),
		Binaries: sandbox.FindBinaries(s.Executable, c.String(binFlag)), Progress: s.fuzzProgress(),
	}
	if o.Parallel < 1 || o.Count < 0 || o.For < 0 || o.ShrinkFor < 0 {
		return o, usageError{errors.New(
			"--parallel must be 1 or more, and --count, --for and --shrink must not be negative")}
	}
	if speed := c.Int("speed"); speed < 1 || speed > fuzz.MaxSpeed {
		return o, usageError{fmt.Errorf("invalid --speed %d; use 1 to %d", speed, fuzz.MaxSpeed)}
	}
	for _, name := range o.Only {
		if !slices.Contains(fuzz.ActionNames(), name) {
			return o, usageError{
				fmt.Errorf("unknown action %q; use one of: %s", name, strings.Join(fuzz.ActionNames(), ", "))}
		}
	}
	if c.IsSet("replay") {
		o.Seed, o.Count = c.Uint64("replay"), 1
	}
	if o.Count == 0 && o.For == 0 {
		o.For = 10 * time.Minute
	}
	if o.ShrinkFor == 0 {
		o.ShrinkFor = -1
	}
	var err error
	o.Corpus, err = filepath.Abs(c.String("corpus"))
	if err != nil {
		return o, fmt.Errorf("resolving --corpus: %w", err)
	}
	o.Home, err = homeDir(c)
	if err != nil {
		return o, err
	}
	o.Config, err = fuzzConfig(c, c.String("config"))
	if err != nil {
		return o, err
	}
	return o.Complete(), nil
}

// fuzzConfig reads the sandbox configuration from a file, or uses the default configuration if the file name is
// empty. It sets the time scale from --speed, and the number of bases to one, because fuzz schedules define their own
// bases.
func fuzzConfig(c *cli.Context, file string) (*v1alpha1.Sandbox, error) {
	config, _, err := configFrom(c, file, nil)
	if err != nil {
		return nil, err
	}
	config.Spec.Bases, config.Spec.Speed = v1alpha1.OneBase(), c.Int("speed") // schedules define their own bases
	return config, nil
}

// printFuzz prints the result of a fuzz run.
func (s *commands) printFuzz(r *fuzz.Result, corpus string) {
	printf(s.Out, "%s with %s in %s, %.0f per hour; seed %d\n", plain.Count(r.Schedules, "schedule"),
		plain.Count(r.Actions, "action"),
		r.Elapsed.Round(time.Second), r.PerHour(), r.Seed)
	if len(r.Failures) == 0 {
		printf(s.Out, "no schedule failed\n")
	}
	for _, f := range r.Failures {
		printf(s.Out, "\n%s\n  %s\n  actions: %s\n  failed in %d of %d repetitions, seed %d, occurred in %s\n  %s\n",
			f.Invariant, f.Seen, f.Smallest, f.Failed,
			f.Repeated, f.Seed, plain.Count(f.Times, "schedule"), filepath.Join(corpus, f.File))
	}
	printf(s.Out, "\n%s\n", filepath.Join(corpus, fuzz.ResultFile))
}
