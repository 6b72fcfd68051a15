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
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

func (s *commands) fuzz() *cli.Command {
	return &cli.Command{
		Name:  "fuzz",
		Usage: "run random releases under random disturbances, and reduce what fails to a scenario",
		Description: `Brings sandboxes of its own up and takes them down afterwards. Each schedule is a
scenario that was drawn: bases, workloads, and moves. It is judged by requests, by the
checks of scenarios, and by what must be so in the end. A failure is repeated, reduced,
and written to --corpus as a scenario: koupsandbox scenario run --up FILE. Exit status:
0 nothing has failed, 1 something has. Ctrl-C keeps what was found.

With --compare the same schedules run with two settings, and what became of them on
each side is told. That is no judgement: the exit status is 0, whatever has failed,
unless the comparison itself could not go on.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME` that the names of the sandboxes begin with", Value: "fuzz"},
			&cli.DurationFlag{Name: "for", Usage: "how `LONG` schedules are drawn; reducing comes after that", DefaultText: "10m without --count"},
			&cli.IntFlag{Name: "count", Usage: "run `N` schedules", DefaultText: "until --for is over"},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of an earlier run, to draw the same schedules", DefaultText: "drawn"},
			&cli.Uint64Flag{Name: "replay", Usage: "run the one schedule of a `SEED`"},
			&cli.StringSliceFlag{Name: "only", Usage: "draw only moves of this `NAME`, such as release; may be repeated"},
			&cli.BoolFlag{Name: "beyond-contract", Usage: "draw moves too that no API server does: events lost, twice, out of order"},
			&cli.IntFlag{Name: "parallel", Usage: "use `N` sandboxes; with --compare half of them for each side", Value: 3},
			&cli.IntFlag{Name: "speed", Usage: "`SPEED` of the sandboxes, 1 to 10: their periods are divided by it", Value: fuzz.Speed},
			&cli.StringFlag{Name: "corpus", Usage: "`FOLDER` for failures and the result", Value: "fuzz-corpus"},
			&cli.DurationFlag{Name: "shrink", Usage: "how `LONG` a failure is reduced; 0 = not at all", Value: 5 * time.Minute},
			&cli.StringFlag{Name: "config", Usage: "`FILE` with settings, kind: Sandbox", EnvVars: []string{"KOUPSANDBOX_CONFIG"}},
			&cli.StringFlag{Name: "compare", Usage: "`FILE` with other settings, such as another controller: compare those of --config with them"},
			&cli.StringFlag{Name: "junit", Usage: "`FILE` for a report in JUnit's XML"},
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
	say(s.Err, "Fuzzing with seed %d; up to %d sandboxes come up\n", options.Seed, options.Parallel)
	r, err := fuzz.Run(c.Context, options)
	if r == nil {
		return err
	}
	if file := c.String("junit"); file != "" {
		err = errors.Join(err, report.Save(file, r, fuzz.WriteJUnit))
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
			say(s.Err, "found after %s: %s (seed %d)\n", p.Elapsed.Round(time.Second), p.Failure.Seen, p.Failure.Seed)
		case p.Shrinking > 0:
			say(s.Err, "reduced to %s\n", plain.Count(p.Shrinking, "move"))
		case time.Since(told) >= 10*time.Second:
			told = time.Now()
			pairs := ""
			if p.Pairs > 0 { // a comparison does not count them
				pairs = fmt.Sprintf(" %d pairs of moves, %d features,", p.Pairs, p.Features)
			}
			say(s.Err, "%s: %s, %.0f an hour,%s %d were inconclusive at first, %s so far\n", p.Elapsed.Round(time.Second),
				plain.Count(p.Schedules, "schedule"), float64(p.Schedules)/p.Elapsed.Hours(), pairs, p.Unclear, plain.Count(failures, "failure"))
		}
	}
}

func (s *commands) fuzzOptions(c *cli.Context) (fuzz.Options, error) {
	o := fuzz.Options{
		Name: c.String(nameFlag), Seed: c.Uint64("seed"), Count: c.Int("count"), For: c.Duration("for"), Parallel: c.Int("parallel"),
		Only: c.StringSlice("only"), Beyond: c.Bool("beyond-contract"), ShrinkFor: c.Duration("shrink"), Programs: sandbox.FindPrograms(s.Self, c.String(binFlag)), Progress: s.fuzzProgress(),
	}
	if o.Parallel < 1 || o.Count < 0 || o.For < 0 || o.ShrinkFor < 0 {
		return o, usageError{errors.New("--parallel must be 1 or more, and --count, --for and --shrink not negative")}
	}
	if speed := c.Int("speed"); speed < 1 || speed > fuzz.MaxSpeed {
		return o, usageError{fmt.Errorf("--speed is %d: use 1 to %d; faster ones take pauses for the end of a Node", speed, fuzz.MaxSpeed)}
	}
	for _, name := range o.Only {
		if !slices.Contains(fuzz.Names(), name) {
			return o, usageError{fmt.Errorf("there is no move %q; they are: %s", name, strings.Join(fuzz.Names(), ", "))}
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
	if o.Corpus, err = filepath.Abs(c.String("corpus")); err != nil {
		return o, fmt.Errorf("naming the corpus: %w", err)
	}
	if o.Home, err = home(c); err != nil {
		return o, err
	}
	if o.Config, err = fuzzConfig(c, c.String("config")); err != nil {
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
	say(s.Out, "%s with %s in %s, %.0f an hour; %d pairs of moves, %d features; seed %d\n", plain.Count(r.Schedules, "schedule"), plain.Count(r.Moves, "move"),
		r.Elapsed.Round(time.Second), r.AnHour(), r.Pairs, r.Features, r.Seed)
	if len(r.Failures) == 0 {
		say(s.Out, "nothing has failed\n")
	}
	for _, f := range r.Failures {
		say(s.Out, "\n%s\n  %s\n  moves: %s\n  failed in %d of %d repetitions, seed %d, seen in %s\n  %s\n", f.Invariant, f.Seen, f.Smallest, f.Failed,
			f.Repeated, f.Seed, plain.Count(f.Times, "schedule"), filepath.Join(corpus, f.File))
	}
	say(s.Out, "\n%s\n", filepath.Join(corpus, fuzz.PageFile))
}
