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
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fuzz"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func (s *commands) fuzz() *cli.Command {
	return &cli.Command{
		Name:  "fuzz",
		Usage: "run random releases with random faults, and shrink failures to scenarios",
		Description: `Creates its own sandboxes and deletes them afterwards. Each schedule is a random
scenario of bases, workloads and moves. Requests, the checks of scenarios and the final
state decide whether it passes. A failure is repeated, shrunk and written to --corpus as
a scenario. Exit status: 0 if no schedule failed, 1 otherwise. After Ctrl-C, the corpus
has all failures that were found.

With --compare, the same schedules run with two configurations, and the results of both
are printed. The exit status is 0 unless the comparison could not be completed.

   koupsandbox fuzz --for 30m
   koupsandbox scenario run --up fuzz-corpus/requests-20224.yaml`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "prefix `NAME` of the sandboxes' names", Value: "fuzz"},
			&cli.DurationFlag{Name: "for",
				Usage:       "`DURATION` in which schedules are started; shrinking comes after that",
				DefaultText: "10m without --count"},
			&cli.IntFlag{Name: "count", Usage: "number `N` of schedules", DefaultText: "until --for is over"},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of an earlier run, to repeat its schedules",
				DefaultText: "random"},
			&cli.Uint64Flag{Name: "replay", Usage: "run only the schedule with this `SEED`"},
			&cli.StringSliceFlag{Name: "only", Usage: "use only the move `NAME`, for example release; repeatable"},
			&cli.BoolFlag{Name: "beyond-contract",
				Usage: "also use faults that an API server never causes: lost, duplicate and reordered watch events"},
			&cli.IntFlag{Name: "parallel", Usage: "number `N` of sandboxes; with --compare, half of them for each side",
				Value: 3},
			&cli.IntFlag{Name: "speed",
				Usage: "time scale `N` of the sandboxes, 1 to 10: their periods are divided by it", Value: fuzz.Speed},
			&cli.StringFlag{Name: "corpus", Usage: "`DIRECTORY` for failures and the result", Value: "fuzz-corpus"},
			&cli.DurationFlag{Name: "shrink", Usage: "maximum `DURATION` for shrinking a failure; 0 disables shrinking",
				Value: 5 * time.Minute},
			&cli.StringFlag{Name: "config", Usage: "`FILE` with settings, kind: Sandbox",
				EnvVars: []string{"KOUPSANDBOX_CONFIG"}},
			&cli.StringFlag{Name: "compare",
				Usage: "sandbox configuration `FILE` to compare with the one from --config, for example with " +
					"another controller"},
			output(formatJSON),
		},
		Action: alone(s.runFuzz),
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
	klog.SetLogger(logr.Discard()) // what Kubernetes' own library tells of broken watches
	say(s.Err, "Fuzzing with seed %d in up to %d sandboxes\n", options.Seed, options.Parallel)
	r, err := fuzz.Run(c.Context, options)
	if r == nil {
		return err
	}
	if err := errors.Join(err, s.show(c, r, func(bool) { s.tellFuzz(r, options.Corpus) })); err != nil {
		return err
	}
	if len(r.Failures) > 0 {
		return errFailed
	}
	return nil
}

// fuzzProgress tells what is found at once, and how far it is from time to time.
func (s *commands) fuzzProgress() func(fuzz.Progress) {
	told, failures := time.Now(), 0
	return func(p fuzz.Progress) {
		switch {
		case p.Failure != nil:
			failures++
			say(s.Err, "failure after %s: %s (seed %d)\n", p.Elapsed.Round(time.Second), p.Failure.Seen, p.Failure.Seed)
		case p.Shrinking > 0:
			say(s.Err, "shrunk to %s\n", plain.Count(p.Shrinking, "move"))
		case time.Since(told) >= 10*time.Second:
			told = time.Now()
			say(s.Err, "%s: %s, %.0f per hour, %d were inconclusive at first, %s so far\n",
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
		Binaries: sandbox.FindBinaries(s.Self, c.String(binFlag)), Progress: s.fuzzProgress(),
	}
	if o.Parallel < 1 || o.Count < 0 || o.For < 0 || o.ShrinkFor < 0 {
		return o, usageError{errors.New("--parallel must be 1 or more, and --count, --for and --shrink not negative")}
	}
	if speed := c.Int("speed"); speed < 1 || speed > fuzz.MaxSpeed {
		return o, usageError{fmt.Errorf("--speed is %d: use 1 to %d", speed, fuzz.MaxSpeed)}
	}
	for _, name := range o.Only {
		if !slices.Contains(fuzz.ActionNames(), name) {
			return o, usageError{fmt.Errorf("unknown move %q; use one of: %s", name, strings.Join(fuzz.ActionNames(), ", "))}
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
	o.Home, err = home(c)
	if err != nil {
		return o, err
	}
	o.Config, err = fuzzConfig(c, c.String("config"))
	if err != nil {
		return o, err
	}
	return o.Complete(), nil
}

// fuzzConfig reads the settings of sandboxes from a file; empty = none.
func fuzzConfig(c *cli.Context, file string) (*v1alpha1.Sandbox, error) {
	config, _, err := configFrom(c, file, nil)
	if err != nil {
		return nil, err
	}
	config.Spec.Bases.Count, config.Spec.Speed = ptr.To(1), c.Int("speed") // schedules bring their own bases
	return config, nil
}

// tellFuzz says what was found.
func (s *commands) tellFuzz(r *fuzz.Result, corpus string) {
	say(s.Out, "%s with %s in %s, %.0f per hour; seed %d\n", plain.Count(r.Schedules, "schedule"),
		plain.Count(r.Actions, "move"),
		r.Elapsed.Round(time.Second), r.PerHour(), r.Seed)
	if len(r.Failures) == 0 {
		say(s.Out, "no schedule failed\n")
	}
	for _, f := range r.Failures {
		say(s.Out, "\n%s\n  %s\n  moves: %s\n  failed in %d of %d repetitions, seed %d, seen in %s\n  %s\n",
			f.Invariant, f.Seen, f.Smallest, f.Failed,
			f.Repeated, f.Seed, plain.Count(f.Times, "schedule"), filepath.Join(corpus, f.File))
	}
	say(s.Out, "\n%s\n", filepath.Join(corpus, fuzz.ResultFile))
}
