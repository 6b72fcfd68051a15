package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/bench"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/watch"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
	"github.com/koupleless/koupsandbox/scenarios"
)

const (
	runsFlag     = "runs"
	watchFlag    = "watch"
	baselineFlag = "baseline"
)

func (s *commands) bench() *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "measure the latency of Pod startup, scheduling, endpoints and API requests",
		ArgsUsage: "[PATH...]",
		Description: describe(
			`PATH is a scenario file or a directory with scenarios. The default is a scenario that starts
a module on every base. The results are printed in the Go benchmark format, which benchstat
reads. Ctrl-C keeps the results so far.
Exit status: 0 if all runs passed and no result is worse than the baseline, 1 otherwise, 2
for invalid arguments.`,
			"koupsandbox bench --up > before.txt", "koupsandbox bench --up --baseline before.txt > after.txt"),
		Flags: slices.Concat([]cli.Flag{
			sandboxNameFlag(),
			&cli.StringFlag{Name: basesFlag,
				Usage:       "`NUMBERS`: comma-separated values of the variable \"bases\", for example 100,1000",
				DefaultText: "as in the scenarios", Category: runsCategory},
			&cli.IntFlag{Name: runsFlag, Value: bench.MinRuns, Category: runsCategory,
				Usage: "`N`: number of runs of each scenario; a comparison requires at least 4"},
			newVarFlag(),
			&cli.StringFlag{Name: baselineFlag, Category: runsCategory,
				Usage: "`FILE`: results of an earlier benchmark, for comparison; the exit status is 1 if a result is " +
					"significantly worse"},
			&cli.DurationFlag{Name: watchFlag, Category: runsCategory, DefaultText: "none",
				Usage: "`DURATION`: measure the activity in the sandbox for this duration instead of running " +
					"scenarios"},
			newUpFlag(),
		}, flagsOfSettings(settings())),
		Action: withArgs(0, -1, "scenario files and directories", s.runBench),
	}
}

func (s *commands) runBench(c *cli.Context, paths []string) (err error) {
	if err := s.checkNeedsUp(c); err != nil {
		return err
	}
	klog.SetLogger(logr.Discard()) // client-go logs watches that end
	if c.IsSet(watchFlag) {
		return s.watchBench(c, paths)
	}
	if c.Int(runsFlag) < 1 {
		return usageError{errors.New("--runs must be 1 or more")}
	}
	o := bench.Options{Runs: c.Int(runsFlag), Output: s.Out}
	if file := c.String(baselineFlag); file != "" {
		if o.Runs < bench.MinRuns {
			return usageError{
				fmt.Errorf("--baseline requires --runs %d or more, because fewer runs give no noise estimate",
					bench.MinRuns)}
		}
		o.Baseline, err = bench.Read(file)
		if err != nil {
			return usageError{err}
		}
	}
	if len(paths) == 0 {
		dir, err := os.MkdirTemp("", "koupsandbox-bench-")
		if err != nil {
			return fmt.Errorf("creating a directory for the scenario: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // the system cleans up temporary files
		if err := os.CopyFS(dir, scenarios.Files); err != nil {
			return fmt.Errorf("writing the scenario: %w", err)
		}
		paths = []string{filepath.Join(dir, scenarios.Startup)}
	}
	o.Sizes, err = benchSizes(c, paths)
	if err != nil {
		return err
	}
	up, down, err := s.sandboxFor(c, slices.Concat(o.Sizes...))
	if err != nil {
		return err
	}
	defer up.Close()
	defer func() { err = errors.Join(err, down()) }()
	o.API, err = apiOf(up)
	if err != nil {
		return err
	}
	o.Sandbox = up
	s.benchProgress(&o)
	r, err := bench.Execute(c.Context, o)
	return s.finishBench(r, err)
}

// benchSizes loads the benchmark scenarios once for each number of bases in --bases. Without --bases, it loads the
// scenarios once, unchanged.
func benchSizes(c *cli.Context, paths []string) (sizes [][]*source.Scenario, err error) {
	vars, err := parseVars(c.StringSlice("var"))
	if err != nil {
		return nil, err
	}
	counts, err := benchCounts(c.String(basesFlag))
	if err != nil {
		return nil, err
	}
	unchanged, err := loadScenarios(paths, source.Options{Vars: vars})
	if len(counts) == 0 || err != nil {
		return [][]*source.Scenario{unchanged}, err
	}
	if _, isSet := vars[basesFlag]; isSet {
		return nil, usageError{errors.New("--bases and --var both set the variable \"bases\"; use one of them")}
	}
	for _, sc := range unchanged {
		if _, has := sc.Scenario.Spec.Vars[basesFlag]; !has {
			return nil, usageError{
				fmt.Errorf("--bases requires the variable \"bases\", which %s does not define; add vars: {bases: 4}, "+
					"and set count: ${{ vars.bases }} in its bases", sc.File)}
		}
	}
	for _, n := range counts {
		vars[basesFlag] = n
		size, err := loadScenarios(paths, source.Options{Vars: vars})
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// benchCounts parses a comma-separated list of base counts and sorts the counts. It returns nil for an empty text.
func benchCounts(text string) (counts []int, err error) {
	if text == "" {
		return nil, nil
	}
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, usageError{
				fmt.Errorf("invalid number of bases %q in --bases; use positive integers, such as 100,1000", word)}
		}
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if len(slices.Compact(slices.Clone(counts))) < len(counts) {
		return nil, usageError{fmt.Errorf("--bases %s contains a number twice; use each number once", text)}
	}
	return counts, nil
}

// benchProgress sets the callbacks of o that print the progress of each run to standard error.
func (s *commands) benchProgress(o *bench.Options) {
	all := 0
	for _, size := range o.Sizes {
		all += countCells(size)
	}
	all *= o.Runs
	line, done := &statusLine{w: s.Err, on: s.Terminal, width: s.Width}, 0
	o.Progress = func(e scenario.ProgressEvent) {
		line.event(e)
		if e.Kind == scenario.Cleaned && e.Message != "" {
			printf(s.Err, "%s\n", e.Message)
		}
	}
	o.Measured = func(run bench.Run) {
		done++
		line.clear()
		printf(s.Err, "run %d of %d: %s: %s after %.1fs\n", done, all, run.Name, run.Verdict, run.Elapsed.Seconds())
		if run.Failure != "" {
			printf(s.Err, "  %s\n", run.Failure)
		}
		s.printBenchNotes(run)
	}
	printf(s.Err, "Measuring %s\n", plain.Count(all, "run"))
}

func (s *commands) printBenchNotes(run bench.Run) {
	for _, note := range run.Notes {
		printf(s.Err, "  note: %s\n", note)
	}
}

// watchBench runs bench --watch: it measures a running sandbox while other commands use it.
func (s *commands) watchBench(c *cli.Context, paths []string) error {
	for _, flag := range []string{basesFlag, runsFlag, baselineFlag, "var", "up"} {
		if c.IsSet(flag) {
			return usageError{fmt.Errorf("--%s cannot be used with --watch, which runs no scenario", flag)}
		}
	}
	if len(paths) > 0 {
		return usageError{errors.New("--watch runs no scenario; remove the files")}
	}
	if c.Duration(watchFlag) < time.Second {
		return usageError{errors.New("--watch must be 1s or more")}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		api, err := apiOf(up)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context, c.Duration(watchFlag))
		defer cancel()
		printf(s.Err, "Measuring sandbox %q for %s; press Ctrl-C to stop\n", up.Name, c.Duration(watchFlag))
		o := bench.Options{Sandbox: up, API: api, Output: s.Out, Measured: s.printBenchNotes}
		r, err := bench.Observe(ctx, o, func(ctx context.Context, sink func(events.Event) error) error {
			return watch.Follow(ctx, watch.Options{Source: up.Client, API: api}, sink)
		})
		return s.finishBench(r, err)
	})
}

// finishBench prints the comparison with the baseline and returns the error of the command. The results have already
// been printed to standard output.
func (s *commands) finishBench(r *bench.Report, err error) error {
	if r == nil {
		return err
	}
	if r.Stopped {
		printf(s.Err, "Stopped before the last run\n")
	}
	if r.Comparison != nil {
		err = errors.Join(err, r.Comparison.WriteText(s.Err))
	}
	if err == nil && !r.OK() {
		return errFailed
	}
	return err
}
