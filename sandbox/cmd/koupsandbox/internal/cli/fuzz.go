package cli

import (
	"encoding/json"
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
	"github.com/koupleless/koupsandbox/sandbox/fuzz"
)

func (s *commands) fuzz() *cli.Command {
	return &cli.Command{
		Name:  "fuzz",
		Usage: "run random releases under random disturbances, and reduce what fails to a scenario",
		Description: `Brings sandboxes of its own up and takes them down afterwards. Each schedule is a
scenario that was drawn: bases, workloads, and moves. It is judged by requests, by the
checks of scenarios, and by what must be so in the end. A failure is repeated, reduced,
and written to --corpus as a scenario: koupsandbox scenario run --up FILE. Exit status:
0 nothing has failed, 1 something has. Ctrl-C keeps what was found.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME` that the names of the sandboxes begin with", Value: "fuzz"},
			&cli.DurationFlag{Name: "for", Usage: "how `LONG` schedules are drawn; reducing comes after that", DefaultText: "10m without --count"},
			&cli.IntFlag{Name: "count", Usage: "run `N` schedules", DefaultText: "until --for is over"},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of an earlier run, to draw the same schedules", DefaultText: "drawn"},
			&cli.Uint64Flag{Name: "replay", Usage: "run the one schedule of a `SEED`"},
			&cli.StringSliceFlag{Name: "only", Usage: "draw only moves of this `NAME`, such as release; may be repeated"},
			&cli.IntFlag{Name: "parallel", Usage: "use `N` sandboxes", Value: 4},
			&cli.StringFlag{Name: "corpus", Usage: "`FOLDER` for failures and the result", Value: "fuzz-corpus"},
			&cli.DurationFlag{Name: "shrink", Usage: "how `LONG` a failure is reduced; 0 = not at all", Value: 5 * time.Minute},
			&cli.StringFlag{Name: "config", Usage: "`FILE` with settings, kind: Sandbox", EnvVars: []string{"KOUPSANDBOX_CONFIG"}},
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
	klog.SetLogger(logr.Discard()) // what Kubernetes' own library tells of broken watches
	say(s.Err, "Fuzzing with seed %d; %d sandboxes come up\n", options.Seed, options.Parallel)
	told := time.Now()
	options.Progress = func(p fuzz.Progress) {
		switch {
		case p.Failure != nil:
			say(s.Err, "found after %s: %s (seed %d)\n", p.Elapsed.Round(time.Second), p.Failure.Seen, p.Failure.Seed)
		case p.Shrinking > 0:
			say(s.Err, "reduced to %d moves\n", p.Shrinking)
		case time.Since(told) >= 10*time.Second:
			told = time.Now()
			say(s.Err, "%s: %d schedules, %.0f an hour, %d pairs of moves, %d could not be judged at first\n", p.Elapsed.Round(time.Second),
				p.Schedules, float64(p.Schedules)/p.Elapsed.Hours(), p.Pairs, p.Unclear)
		}
	}
	r, err := fuzz.Run(c.Context, options)
	if r == nil {
		return err
	}
	if err := errors.Join(err, s.tellFuzz(c, r, options.Corpus)); err != nil {
		return err
	}
	if len(r.Failures) > 0 {
		return errFailed
	}
	return nil
}

func (s *commands) fuzzOptions(c *cli.Context) (fuzz.Options, error) {
	o := fuzz.Options{
		Name: c.String(nameFlag), Seed: c.Uint64("seed"), Count: c.Int("count"), For: c.Duration("for"), Parallel: c.Int("parallel"),
		Only: c.StringSlice("only"), ShrinkFor: c.Duration("shrink"), Programs: sandbox.FindPrograms(s.Self, c.String(binFlag)),
	}
	if o.Parallel < 1 || o.Count < 0 || o.For < 0 || o.ShrinkFor < 0 {
		return o, usageError{errors.New("--parallel must be 1 or more, and --count, --for and --shrink not negative")}
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
	if o.Config, _, err = configOf(c); err != nil {
		return o, err
	}
	o.Config.Spec.Bases.Count, o.Config.Spec.Speed = ptr.To(1), fuzz.Speed // schedules bring their own bases
	return o.Complete(), nil
}

// tellFuzz says what was found.
func (s *commands) tellFuzz(c *cli.Context, r *fuzz.Result, corpus string) error {
	if c.String(outputFlag) == formatJSON {
		text, err := json.MarshalIndent(r, "", "  ")
		if err == nil {
			say(s.Out, "%s\n", text)
		}
		return err
	}
	say(s.Out, "%d schedules with %d moves in %s, %.0f an hour; %d pairs of moves; seed %d\n", r.Schedules, r.Moves,
		r.Elapsed.Round(time.Second), float64(r.Schedules)/r.Elapsed.Hours(), r.Pairs, r.Seed)
	if len(r.Failures) == 0 {
		say(s.Out, "nothing has failed\n")
		return nil
	}
	for _, f := range r.Failures {
		say(s.Out, "\n%s\n  %s\n  moves: %s\n  failed in %d of %d repetitions, seed %d, seen in %d schedules\n  %s\n", f.Invariant, f.Seen, f.Smallest, f.Failed,
			f.Repeated, f.Seed, f.Times, filepath.Join(corpus, f.File))
	}
	return nil
}
