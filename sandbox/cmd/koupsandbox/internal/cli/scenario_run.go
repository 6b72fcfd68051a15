package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

func (s *commands) scenarioRun() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run scenarios and report whether they pass",
		ArgsUsage: "PATH...",
		Description: describe(
			`PATH is a scenario file or a directory with scenarios. Ctrl-C stops the runs, cleans up, and
writes the reports; a second Ctrl-C ends the command immediately. When the command ends, it
restores failed components and stops the sandbox of --up.
Exit status: 0 if all runs passed, 1 otherwise, 2 for invalid scenarios, which are reported
with line numbers before anything is started.`,
			"koupsandbox scenario run --up my-first.yaml",
			"koupsandbox scenario run --up --parallel 4 --report-dir reports my-first.yaml"),
		Flags: slices.Concat([]cli.Flag{
			sandboxNameFlag(),
			newSelectorFlag(),
			newVarFlag(),
			&cli.IntFlag{Name: "repeat", Usage: "`N`: number of runs of each scenario", Value: 1,
				Category: runsCategory},
			&cli.IntFlag{Name: "parallel", Usage: "`N`: maximum number of concurrent runs", Value: 1,
				Category: runsCategory},
			&cli.Uint64Flag{Name: "seed",
				Usage:       "`SEED`: random seed; pass the seed of an earlier command to repeat its random choices",
				DefaultText: "random", Category: runsCategory},
			&cli.StringFlag{Name: "from-step", Category: runsCategory,
				Usage: "`STEP`: first step to run; earlier steps are skipped, so their objects do not exist"},
			&cli.BoolFlag{Name: "fail-fast", Usage: "start no further runs after a run that did not pass",
				Category: runsCategory},
			&cli.BoolFlag{Name: "keep", Usage: "keep the bases and objects of the runs for inspection",
				Category: runsCategory},
			&cli.BoolFlag{Name: "dry-run", Usage: "validate the scenarios and list their runs, without running them",
				Category: runsCategory},
			&cli.StringFlag{Name: "html", Usage: "`FILE`: write an HTML report with a timeline to FILE",
				Category: outputCategory},
			&cli.StringFlag{Name: "junit", Usage: "`FILE`: write a JUnit XML report to FILE", Category: outputCategory},
			&cli.StringFlag{Name: "json", Usage: "`FILE`: write a JSON report to FILE", Category: outputCategory},
			&cli.StringFlag{Name: "report-dir", Category: outputCategory,
				Usage: "`DIR`: write report.html, junit.xml, report.json and summary.md to DIR"},
			newAnnotateFlag(),
			&cli.StringFlag{Name: "ledger", Usage: "`FILE`: write the request log to FILE, one JSON object per line",
				Category: outputCategory},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"},
				Usage: "also print the steps and checks of passed runs", Category: outputCategory},
			newOutputFlag(formatJSON),
			newUpFlag(),
		}, flagsOfSettings(settings())),
		Action: withArgs(1, -1, "at least one argument: a scenario file or directory", s.runScenarios),
	}
}

func newUpFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "up", Category: sandboxCategory,
		Usage: "create the sandbox if it is not running, and stop it afterwards; accepts the flags of " +
			"the command up"}
}

func (s *commands) runScenarios(c *cli.Context, paths []string) error {
	format := c.String(outputFlag)
	for _, flag := range []string{"repeat", "parallel"} {
		if c.Int(flag) < 1 {
			return usageError{fmt.Errorf("--%s must be 1 or more", flag)}
		}
	}
	filter, err := scenarioFilter(c)
	if err != nil {
		return err
	}
	vars, err := parseVars(c.StringSlice("var"))
	if err != nil {
		return err
	}
	scenarios, err := loadScenarios(paths, source.Options{Vars: vars, Select: filter})
	if err != nil {
		return errors.Join(err, s.annotate(c, annotationsOf(scenarioFindings(err))))
	}
	if from := c.String("from-step"); from != "" && !slices.Contains(stepNames(scenarios), from) {
		return usageError{fmt.Errorf("no scenario has the step %q; available: %s", from,
			strings.Join(stepNames(scenarios), ", "))}
	}
	if err := s.checkNeedsUp(c); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return s.printPlan(scenarios, c.Int("repeat"))
	}
	klog.SetLogger(logr.Discard()) // client-go logs interrupted watches
	up, down, err := s.sandboxFor(c, scenarios)
	if err != nil {
		return err
	}
	defer up.Close()
	r, err := s.execute(c, up, scenarios, format)
	err = errors.Join(err, s.report(c, r, format), down())
	if err == nil && r.Result() != scenario.Passed {
		return errFailed
	}
	return err
}

func (s *commands) printPlan(scenarios []*source.Scenario, repeat int) error {
	for _, sc := range scenarios {
		for _, cell := range sc.Cells {
			printf(s.Out, "%s\n", strings.TrimSpace(sc.Scenario.Metadata.Name+" "+cell.Name))
		}
	}
	printf(s.Out, "\n%s of %s; all are valid.\n", plain.Count(countCells(scenarios)*repeat, "run"),
		plain.Count(len(scenarios), "scenario"))
	return nil
}

// checkNeedsUp returns an error if the command line contains settings for a new sandbox but not --up. It ignores
// settings in environment variables, because the environment variables also apply to other commands.
func (s *commands) checkNeedsUp(c *cli.Context) error {
	for _, flag := range flagsOfSettings(settings()) {
		if name := flag.Names()[0]; s.onCommandLine(name) && !c.Bool("up") {
			return usageError{
				fmt.Errorf("--%s requires --up, which creates a sandbox", name)}
		}
	}
	return nil
}

// sandboxFor returns the sandbox in which the scenarios run: with --up, a running or a new sandbox, and otherwise a
// running sandbox. It also returns a function to call after the runs, which stops the sandbox if sandboxFor has
// created it and --keep is not set.
func (s *commands) sandboxFor(c *cli.Context, scenarios []*source.Scenario) (*sandbox.Sandbox, func() error, error) {
	keepRunning := func() error { return nil }
	if !c.Bool("up") {
		up, err := openSandbox(c)
		if errors.Is(err, sandbox.ErrNotUp) {
			err = usageError{fmt.Errorf("%w; or add --up", err)}
		}
		return up, keepRunning, err
	}
	config, defaultBases, err := configFrom(c, c.String("config"), nil)
	if err != nil {
		return nil, nil, err
	}
	if err := setSpeed(c, config, scenarios); err != nil {
		return nil, nil, err
	}
	home, err := homeDir(c)
	if err != nil {
		return nil, nil, err
	}
	name := config.Metadata.Name
	if up, err := sandbox.Open(c.Context, home, name); err == nil {
		if err := s.checkRunning(c, up, config); err != nil {
			up.Close()
			return nil, nil, err
		}
		return up, keepRunning, nil
	}
	if defaultBases {
		config.Spec.Bases = v1alpha1.OneBase() // scenarios define their own bases
	}
	up, err := s.startSandbox(c, sandbox.Options{Home: home, Config: config, DownOnClose: !c.Bool("keep")})
	if err != nil {
		return nil, nil, err
	}
	return up, func() error {
		if c.Bool("keep") {
			return nil
		}
		// After Ctrl-C, the context of the command is cancelled.
		_, err := sandbox.Down(context.WithoutCancel(c.Context), sandbox.DownOptions{Home: home, Name: name})
		return err
	}, nil
}

// upFlags returns the flags that make another command create the same sandbox. It returns nil if --up is not set.
func upFlags(c *cli.Context) []string {
	if !c.Bool("up") {
		return nil
	}
	words := []string{"--up"}
	for _, flag := range flagsOfSettings(settings()) {
		if name := flag.Names()[0]; c.IsSet(name) {
			words = append(words, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		}
	}
	return words
}

// setSpeed sets the time scale that the scenarios require, unless the user has set one. It returns an error if the
// scenarios require different time scales.
func setSpeed(c *cli.Context, config *v1alpha1.Sandbox, scenarios []*source.Scenario) error {
	required := 0
	for _, s := range scenarios {
		switch speed := s.Scenario.Spec.Speed; {
		case speed == 0 || speed == required:
		case required != 0:
			return usageError{
				fmt.Errorf("scenarios require different values of --speed, %d and %d; run them in separate commands",
					required, speed)}
		default:
			required = speed
		}
	}
	if required != 0 && config.Spec.Speed == 1 && !c.IsSet("speed") {
		config.Spec.Speed = required
	}
	return nil
}

// checkRunning checks whether a running sandbox fits the requested settings. It returns an error if the provider or the
// environment differs from the requested one: results can differ between providers, and Pods tolerate only bases of
// their environment. It prints a note if other settings are ignored.
func (s *commands) checkRunning(c *cli.Context, up *sandbox.Sandbox, config *v1alpha1.Sandbox) error {
	status, err := up.Status(c.Context, false)
	if err != nil {
		return err
	}
	other := func(setting string, got, want any) error {
		return usageError{fmt.Errorf("sandbox %q is already running with the %s %v, not %v; stop it with koupsandbox "+
			"down, or set another --name", up.Name, setting, got, want)}
	}
	if want := config.Spec.Provider; want != v1alpha1.ProviderAuto && want != status.Provider {
		return other("provider", status.Provider, want)
	}
	if want := config.Spec.Env; want != status.Env && (c.IsSet("env") || c.IsSet("config")) {
		return other("environment", status.Env, want)
	}
	if slices.ContainsFunc(flagsOfSettings(settings()), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
		printf(s.Err, "Sandbox %q is already running; its settings were not changed.\n", up.Name)
	}
	return nil
}

func (s *commands) execute(c *cli.Context, up *sandbox.Sandbox, scenarios []*source.Scenario,
	format string) (r *scenario.Report, err error) {
	style := report.TextOptions{Color: s.Color, Verbose: c.Bool("verbose")}
	line := &statusLine{w: s.Err, on: s.Terminal, width: s.Width}
	o := scenario.Options{
		Sandbox: up, Scenarios: scenarios, Flags: upFlags(c), Repeat: c.Int("repeat"), Seed: c.Uint64("seed"),
		FromStep: c.String("from-step"),
		Keep:     c.Bool("keep"), Parallel: c.Int("parallel"), FailFast: c.Bool("fail-fast"),
		Progress: func(e scenario.ProgressEvent) {
			line.event(e)
			switch {
			case e.Kind == scenario.RunEnded && format == formatText:
				_ = report.WriteRun(s.Out, e.Run, style) // see printf
			case e.Kind == scenario.RunPostponed:
				printf(s.Err, "%s: %s. The run will be repeated after the other runs.\n", report.Name(e.Run),
					e.Run.Failure)
			case e.Kind == scenario.Cleaned && e.Message != "":
				printf(s.Err, "%s\n", e.Message)
			}
		},
	}
	if file := c.String("ledger"); file != "" {
		log, err := newRequestLog(file)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, log.close()) }()
		o.RequestLog = log.add
	}
	r, err = scenario.Execute(c.Context, o)
	line.clear()
	if err == nil && format == formatText {
		err = report.WriteSummary(s.Out, r, style)
	}
	return r, err
}

// report writes all requested reports, even after Ctrl-C. If r is nil, it does nothing and returns nil.
func (s *commands) report(c *cli.Context, r *scenario.Report, format string) error {
	if r == nil {
		return nil
	}
	var errs error
	if format == formatJSON {
		errs = report.WriteJSON(s.Out, r)
	}
	errs = errors.Join(errs, s.annotate(c, report.Annotations(r)))
	dir := c.String("report-dir")
	for _, form := range []struct {
		flag, name string
		write      func(io.Writer, *scenario.Report) error
	}{{"html", "report.html", report.WriteHTML}, {"junit", "junit.xml", report.WriteJUnit},
		{"json", "report.json", report.WriteJSON}, {"", "summary.md", report.WriteMarkdown}} {
		for _, path := range []string{c.String(form.flag), filepath.Join(dir, form.name)} {
			if path == "" || path == form.name && dir == "" {
				continue
			}
			errs = errors.Join(errs, report.Save(path, r, form.write))
		}
	}
	return errs
}

// requestLog writes the requests of all runs to a file as JSON lines. After a write error, it ignores further
// requests, and close returns the error.
type requestLog struct {
	file *os.File
	w    *bufio.Writer
	err  error
}

func newRequestLog(path string) (*requestLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("creating the request log: %w", err)
	}
	return &requestLog{file: f, w: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *requestLog) add(run *scenario.Run, stream string, record traffic.Record) {
	if l.err == nil {
		l.err = json.NewEncoder(l.w).Encode(struct {
			Run    string `json:"run"`
			Stream string `json:"stream"`
			traffic.Record
		}{run.Namespace, stream, record})
	}
}

func (l *requestLog) close() error {
	if err := errors.Join(l.err, l.w.Flush(), l.file.Close()); err != nil {
		return fmt.Errorf("writing the request log: %w", err)
	}
	return nil
}

// statusLine shows the progress of runs in one line of a terminal. It prints nothing if on is false.
type statusLine struct {
	w     io.Writer
	on    bool
	width int
	ended int
	steps map[string]string // name of the last ended step of each run, or "started", by namespace
}

func (l *statusLine) event(e scenario.ProgressEvent) {
	if !l.on {
		return
	}
	l.clear()
	if l.steps == nil {
		l.steps = map[string]string{}
	}
	switch e.Kind {
	case scenario.RunStarted:
		l.steps[e.Run.Namespace] = "started"
	case scenario.StepEnded:
		l.steps[e.Run.Namespace] = e.Step.Name
	case scenario.RunPostponed:
		delete(l.steps, e.Run.Namespace)
		return
	case scenario.RunEnded:
		l.ended++
		delete(l.steps, e.Run.Namespace)
		return // the result of the run is printed next
	}
	var parts []string
	for run, step := range l.steps {
		parts = append(parts, plain.Text(run+": "+step))
	}
	if len(parts) == 0 {
		return
	}
	slices.Sort(parts)
	text := []rune(fmt.Sprintf("%d/%d  %s", l.ended, e.Total, strings.Join(parts, "   ")))
	if width := max(l.width, 40); len(text) >= width {
		text = append(text[:width-2], '…')
	}
	write(l.w, string(text))
}

func (l *statusLine) clear() {
	if l.on {
		write(l.w, "\r\x1b[K")
	}
}
