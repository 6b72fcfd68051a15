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
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
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
		Usage:     "measure service levels, as clusterloader2 does: Pod startup, scheduling, endpoints, API requests",
		ArgsUsage: "[PATH...]",
		Description: `PATH are scenario files and folders; without one a module is started on every base.
Exit status: 0 all runs have passed and nothing is worse than in the baseline, 1 else,
2 it cannot be measured as told. Ctrl-C keeps what was measured.`,
		Flags: slices.Concat([]cli.Flag{
			theName(),
			&cli.StringFlag{Name: basesFlag, Usage: "measure with each of these `NUMBERS` of bases, such as 100,1000: the variable bases of the scenarios",
				DefaultText: "as the scenarios say"},
			&cli.IntFlag{Name: runsFlag, Usage: "run everything `N` times; a comparison needs 3", Value: bench.LeastRuns},
			&cli.StringSliceFlag{Name: "var", Usage: "`NAME=VALUE` overrides a variable; may be repeated"},
			&cli.StringFlag{Name: baselineFlag, Usage: "`FILE` with the JSON of an earlier result: exit with 1 if something is worse beyond noise"},
			&cli.DurationFlag{Name: watchFlag, Usage: "run nothing, and measure what others do in the sandbox, for so `LONG` or until Ctrl-C"},
			&cli.StringFlag{Name: "html", Usage: "`FILE` for a page that plots the measures against the number of bases"},
			&cli.StringFlag{Name: "json", Usage: "`FILE` for the result, which a later --baseline reads"},
			output(formatJSON),
			&cli.BoolFlag{Name: "up", Usage: "bring the sandbox up if it is not, and then down again; what follows is for this one, as for the command up"},
		}, flagsOfSettings(settings())),
		Action: taking(0, -1, "scenario files and folders", s.runBench),
	}
}

func (s *commands) runBench(c *cli.Context, paths []string) (err error) {
	if err := s.needsUp(c); err != nil {
		return err
	}
	klog.SetLogger(logr.Discard()) // what Kubernetes' own library tells of broken watches
	if c.IsSet(watchFlag) {
		return s.watchBench(c, paths)
	}
	if c.Int(runsFlag) < 1 {
		return usageError{errors.New("--runs must be 1 or more")}
	}
	o := bench.Options{Runs: c.Int(runsFlag)}
	if file := c.String(baselineFlag); file != "" {
		if o.Runs < bench.LeastRuns {
			return usageError{fmt.Errorf("--baseline needs --runs %d or more: of fewer nobody knows the noise", bench.LeastRuns)}
		}
		if o.Baseline, err = bench.Read(file); err != nil {
			return usageError{err}
		}
	}
	if len(paths) == 0 {
		folder, err := os.MkdirTemp("", "koupsandbox-bench-")
		if err != nil {
			return fmt.Errorf("making a folder for the scenario: %w", err)
		}
		defer func() { _ = os.RemoveAll(folder) }() // a folder for temporary files
		if err := os.CopyFS(folder, scenarios.Files); err != nil {
			return fmt.Errorf("writing the scenario: %w", err)
		}
		paths = []string{filepath.Join(folder, scenarios.Startup)}
	}
	if o.Sizes, err = benchSizes(c, paths); err != nil {
		return err
	}
	up, down, err := s.sandboxFor(c, slices.Concat(o.Sizes...))
	if err != nil {
		return err
	}
	defer up.Close()
	defer func() { err = errors.Join(err, down()) }()
	if o.API, err = apiOf(up); err != nil {
		return err
	}
	o.Sandbox = up
	s.benchProgress(&o)
	r, err := bench.Execute(c.Context, o)
	return s.tellBench(c, r, err)
}

// benchSizes loads the scenarios, once for each number of bases, before anything begins.
func benchSizes(c *cli.Context, paths []string) (sizes [][]*source.Scenario, err error) {
	vars, err := pairs(c.StringSlice("var"))
	if err != nil {
		return nil, err
	}
	counts, err := benchCounts(c.String(basesFlag))
	if err != nil {
		return nil, err
	}
	asWritten, err := load(paths, source.Options{Vars: vars})
	if len(counts) == 0 || err != nil {
		return [][]*source.Scenario{asWritten}, err
	}
	if _, twice := vars[basesFlag]; twice {
		return nil, usageError{errors.New("--bases sets the variable bases, and so does --var: leave one out")}
	}
	for _, sc := range asWritten {
		if _, has := sc.Scenario.Spec.Vars[basesFlag]; !has {
			return nil, usageError{fmt.Errorf("%s has no variable bases, which --bases sets: give it one (vars: {bases: 4}), and under bases count: ${{ vars.bases }}", sc.File)}
		}
	}
	for _, n := range counts {
		vars[basesFlag] = n
		size, err := load(paths, source.Options{Vars: vars})
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// benchCounts reads numbers of bases, the smallest first; none if the text is empty.
func benchCounts(text string) (counts []int, err error) {
	if text == "" {
		return nil, nil
	}
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			return nil, usageError{fmt.Errorf("--bases takes numbers of bases such as 100,1000, and %q is none", word)}
		}
		counts = append(counts, n)
	}
	slices.Sort(counts)
	if len(slices.Compact(slices.Clone(counts))) < len(counts) {
		return nil, usageError{fmt.Errorf("--bases %s names a number twice", text)}
	}
	return counts, nil
}

// benchProgress tells of each run when it was measured.
func (s *commands) benchProgress(o *bench.Options) {
	all := 0
	for _, size := range o.Sizes {
		all += cellsOf(size)
	}
	all *= o.Runs
	line, done := &statusLine{w: s.Err, on: s.Terminal, width: s.Width}, 0
	o.Progress = func(e scenario.Event) {
		line.event(e)
		if e.Kind == scenario.Cleaned && e.Message != "" {
			say(s.Err, "%s\n", e.Message)
		}
	}
	o.Measured = func(run bench.Run) {
		done++
		line.clear()
		say(s.Err, "run %d of %d: %s, %s: %s after %.1fs%s\n", done, all, strings.TrimSpace(run.Scenario+" "+run.Cell), plain.Count(run.Bases, "base"), run.Verdict,
			run.Elapsed.Seconds(), startupOf(run))
	}
	say(s.Err, "Measuring in %s\n", plain.Count(all, "run"))
}

// startupOf says how fast Pods were, or why nobody knows.
func startupOf(run bench.Run) string {
	for _, item := range run.Items {
		if item.Name() == "pod_startup" {
			return fmt.Sprintf("; Pods Ready p50 %.0f ms, p99 %.0f ms", item.Data[bench.Perc50], item.Data[bench.Perc99])
		}
	}
	if run.Failure != "" {
		return ": " + run.Failure
	}
	return ""
}

// watchBench measures what others do.
func (s *commands) watchBench(c *cli.Context, paths []string) error {
	for _, flag := range []string{basesFlag, runsFlag, baselineFlag, "var", "up"} {
		if c.IsSet(flag) {
			return usageError{fmt.Errorf("--%s is for runs of scenarios, and --watch runs none", flag)}
		}
	}
	if len(paths) > 0 {
		return usageError{errors.New("--watch runs no scenarios: leave the files out")}
	}
	if c.Duration(watchFlag) < time.Second {
		return usageError{errors.New("--watch must be a second or more")}
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error {
		api, err := apiOf(up)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context, c.Duration(watchFlag))
		defer cancel()
		say(s.Err, "Measuring what happens in sandbox %q for %s; Ctrl-C ends it sooner\n", up.Name, c.Duration(watchFlag))
		r, err := bench.Observe(ctx, up, api, func(ctx context.Context, sink func(timeline.Event) error) error {
			return watch.Follow(ctx, watch.Options{Source: up.Client, API: api}, sink)
		})
		return s.tellBench(c, r, err)
	})
}

// tellBench writes what was measured, all of it also when something went wrong.
func (s *commands) tellBench(c *cli.Context, r *bench.Result, err error) error {
	if r == nil {
		return err
	}
	if c.String(outputFlag) == formatJSON {
		err = errors.Join(err, bench.WriteJSON(s.Out, r))
	} else {
		err = errors.Join(err, bench.WriteText(s.Out, r))
	}
	if file := c.String("json"); file != "" {
		err = errors.Join(err, report.Save(file, r, bench.WriteJSON))
	}
	if file := c.String("html"); file != "" {
		err = errors.Join(err, report.Save(file, r, bench.WriteHTML))
	}
	if err == nil && !r.OK() {
		return errFailed
	}
	return err
}
