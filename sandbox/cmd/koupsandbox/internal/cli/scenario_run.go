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
		Usage:     "run scenarios and judge them",
		ArgsUsage: "PATH...",
		Description: `Exit status: 0 all have passed, 1 one has not, 2 a scenario cannot be run: then
every mistake is told with its line, and nothing was started. Ctrl-C ends the
runs, cleans up what they made, and writes the reports; a second one ends at once.
Whatever ends the command, components are as they were, and the sandbox of --up goes.`,
		Flags: slices.Concat([]cli.Flag{
			theName(),
			selector(),
			&cli.StringSliceFlag{Name: "var", Usage: "`NAME=VALUE` overrides a variable; may be repeated"},
			&cli.IntFlag{Name: "repeat", Usage: "run each `N` times", Value: 1},
			&cli.IntFlag{Name: "parallel", Usage: "up to `N` runs at once", Value: 1},
			&cli.Uint64Flag{Name: "seed", Usage: "`SEED` of an earlier call, to repeat what was random",
				DefaultText: "drawn"},
			&cli.StringFlag{Name: "from-step",
				Usage: "skip the steps before `NAME`; bases and namespace are new all the same, without what those " +
					"would have made"},
			&cli.BoolFlag{Name: "fail-fast", Usage: "begin no further run after one that has not passed"},
			&cli.BoolFlag{Name: "keep", Usage: "leave what the runs have made, to look at it"},
			&cli.BoolFlag{Name: "dry-run", Usage: "read and check everything, run nothing"},
			&cli.StringFlag{Name: "html", Usage: "`FILE` for a report with a timeline"},
			&cli.StringFlag{Name: "junit", Usage: "`FILE` for a report in JUnit's XML"},
			&cli.StringFlag{Name: "json", Usage: "`FILE` for the whole report"},
			&cli.StringFlag{Name: "report-dir",
				Usage: "`FOLDER` for all three, and a summary: report.html, junit.xml, report.json, summary.md"},
			annotate(),
			&cli.StringFlag{Name: "ledger", Usage: "`FILE` for every single request, as lines of JSON"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"},
				Usage: "show the steps and checks of runs that have passed too"},
			output(formatJSON),
			&cli.BoolFlag{Name: "up",
				Usage: "bring the sandbox up if it is not, and then down again; what follows is for this one, as for " +
					"the command up"},
		}, flagsOfSettings(settings())),
		Action: taking(1, -1, "scenario files and folders", s.runScenarios),
	}
}

func (s *commands) runScenarios(c *cli.Context, paths []string) error {
	format := c.String(outputFlag)
	for _, flag := range []string{"repeat", "parallel"} {
		if c.Int(flag) < 1 {
			return usageError{fmt.Errorf("--%s must be 1 or more", flag)}
		}
	}
	choose, err := selected(c)
	if err != nil {
		return err
	}
	vars, err := pairs(c.StringSlice("var"))
	if err != nil {
		return err
	}
	scenarios, err := load(paths, source.Options{Vars: vars, Select: choose})
	if err != nil {
		return errors.Join(err, s.annotate(c, annotationsOf(asFindings(err))))
	}
	if from := c.String("from-step"); from != "" && !slices.Contains(stepsOf(scenarios), from) {
		return usageError{fmt.Errorf("no scenario has a step %q; there are: %s", from,
			strings.Join(stepsOf(scenarios), ", "))}
	}
	if err := s.needsUp(c); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return s.tellPlan(scenarios, c.Int("repeat"))
	}
	klog.SetLogger(logr.Discard()) // what Kubernetes' own library tells of broken watches
	up, down, err := s.sandboxFor(c, scenarios)
	if err != nil {
		return err
	}
	defer up.Close()
	r, err := s.execute(c, up, scenarios, format)
	err = errors.Join(err, s.report(c, r, format), down())
	if err == nil && r.Verdict() != scenario.Passed {
		return errFailed
	}
	return err
}

func (s *commands) tellPlan(scenarios []*source.Scenario, repeat int) error {
	for _, sc := range scenarios {
		for _, cell := range sc.Cells {
			say(s.Out, "%s\n", strings.TrimSpace(sc.Scenario.Metadata.Name+" "+cell.Name))
		}
	}
	say(s.Out, "\n%s of %s; all can be run.\n", plain.Count(cellsOf(scenarios)*repeat, "run"),
		plain.Count(len(scenarios), "scenario"))
	return nil
}

// needsUp refuses the settings of a sandbox that is not brought up here. What the environment says
// is for the command up, too.
func (s *commands) needsUp(c *cli.Context) error {
	for _, flag := range flagsOfSettings(settings()) {
		if name := flag.Names()[0]; s.given(name) && !c.Bool("up") {
			return usageError{
				fmt.Errorf("--%s is for the sandbox that --up brings up: add --up, or leave it out", name)}
		}
	}
	return nil
}

// sandboxFor returns the sandbox to run in, and what ends it if it was brought up
// for this.
func (s *commands) sandboxFor(c *cli.Context, scenarios []*source.Scenario) (*sandbox.Sandbox, func() error, error) {
	nothing := func() error { return nil }
	if !c.Bool("up") {
		up, err := open(c)
		if errors.Is(err, sandbox.ErrNotUp) {
			err = usageError{fmt.Errorf("%w; or let run do it: --up", err)}
		}
		return up, nothing, err
	}
	config, defaultBases, err := configFrom(c, c.String("config"), nil)
	if err != nil {
		return nil, nil, err
	}
	if err := speedFor(c, config, scenarios); err != nil {
		return nil, nil, err
	}
	folder, err := home(c)
	if err != nil {
		return nil, nil, err
	}
	name := config.Metadata.Name
	if up, err := sandbox.Open(c.Context, folder, name); err == nil {
		if err := s.asWanted(c, up, config); err != nil {
			up.Close()
			return nil, nil, err
		}
		return up, nothing, nil
	}
	if defaultBases {
		one := 1
		config.Spec.Bases.Count = &one // scenarios bring their own bases
	}
	up, err := s.startSandbox(c, sandbox.Options{Home: folder, Config: config, DownOnClose: !c.Bool("keep")})
	if err != nil {
		return nil, nil, err
	}
	return up, func() error {
		if c.Bool("keep") {
			return nil
		}
		// Ctrl-C has ended the command's own context.
		_, err := sandbox.Down(context.WithoutCancel(c.Context), sandbox.DownOptions{Home: folder, Name: name})
		return err
	}, nil
}

// upFlags are the flags that bring the sandbox of runs up again as it is; none for one that was to be up.
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

// speedFor gives a sandbox the speed that scenarios need, unless the user has set one.
func speedFor(c *cli.Context, config *v1alpha1.Sandbox, scenarios []*source.Scenario) error {
	need := 0
	for _, s := range scenarios {
		switch want := s.Scenario.Spec.Speed; {
		case want == 0 || want == need:
		case need != 0:
			return usageError{
				fmt.Errorf("scenarios need sandboxes of speed %d and of speed %d: run them one after the other", need,
					want)}
		default:
			need = want
		}
	}
	if need != 0 && config.Spec.Speed == 1 && !c.IsSet("speed") {
		config.Spec.Speed = need
	}
	return nil
}

// asWanted says of a sandbox that was up already that it may have other settings, and refuses one
// with another provider: what runs show on one need not hold on the other.
func (s *commands) asWanted(c *cli.Context, up *sandbox.Sandbox, config *v1alpha1.Sandbox) error {
	status, err := up.Status(c.Context, false)
	if err != nil {
		return err
	}
	if want := config.Spec.Provider; want != v1alpha1.ProviderAuto && want != status.Provider {
		return usageError{fmt.Errorf(
			"sandbox %q is up already, with the provider %s and not %s: take it down first, or choose another --name",
			up.Name, status.Provider, want)}
	}
	if slices.ContainsFunc(flagsOfSettings(settings()), func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }) {
		say(s.Err, "Sandbox %q was up already, and keeps the settings that it has.\n", up.Name)
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
		Progress: func(e scenario.Event) {
			line.event(e)
			switch {
			case e.Kind == scenario.RunEnded && format == formatText:
				_ = report.WriteRun(s.Out, e.Run, style) // as in say
			case e.Kind == scenario.RunPostponed:
				say(s.Err, "%s: %s. It is run once more after the others.\n", report.Name(e.Run), e.Run.Failure)
			case e.Kind == scenario.Cleaned && e.Message != "":
				say(s.Err, "%s\n", e.Message)
			}
		},
	}
	if file := c.String("ledger"); file != "" {
		l, err := newLedger(file)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, l.close()) }()
		o.Ledger = l.add
	}
	r, err = scenario.Execute(c.Context, o)
	line.clear()
	if err == nil && format == formatText {
		err = report.WriteSummary(s.Out, r, style)
	}
	return r, err
}

// report writes the reports that were asked for, those of stopped runs too.
func (s *commands) report(c *cli.Context, r *scenario.Report, format string) error {
	if r == nil {
		return nil
	}
	var failed error
	if format == formatJSON {
		failed = report.WriteJSON(s.Out, r)
	}
	failed = errors.Join(failed, s.annotate(c, report.Annotations(r)))
	folder := c.String("report-dir")
	for _, form := range []struct {
		flag, name string
		write      func(io.Writer, *scenario.Report) error
	}{{"html", "report.html", report.WriteHTML}, {"junit", "junit.xml", report.WriteJUnit},
		{"json", "report.json", report.WriteJSON}, {"", "summary.md", report.WriteMarkdown}} {
		for _, path := range []string{c.String(form.flag), filepath.Join(folder, form.name)} {
			if path == "" || path == form.name && folder == "" {
				continue
			}
			failed = errors.Join(failed, report.Save(path, r, form.write))
		}
	}
	return failed
}

type ledger struct {
	file *os.File
	w    *bufio.Writer
	err  error
}

func newLedger(path string) (*ledger, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("making the ledger: %w", err)
	}
	return &ledger{file: f, w: bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *ledger) add(run *scenario.Run, stream string, record traffic.Record) {
	if l.err == nil {
		l.err = json.NewEncoder(l.w).Encode(struct {
			Run    string `json:"run"`
			Stream string `json:"stream"`
			traffic.Record
		}{run.Namespace, stream, record})
	}
}

func (l *ledger) close() error {
	if err := errors.Join(l.err, l.w.Flush(), l.file.Close()); err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	return nil
}

// statusLine is one line on a terminal that says what goes on. On anything else
// there is none.
type statusLine struct {
	w     io.Writer
	on    bool
	width int
	ended int
	steps map[string]string // by run: its last step
}

func (l *statusLine) event(e scenario.Event) {
	if !l.on {
		return
	}
	l.clear()
	if l.steps == nil {
		l.steps = map[string]string{}
	}
	switch e.Kind {
	case scenario.RunBegan:
		l.steps[e.Run.Namespace] = "begins"
	case scenario.StepEnded:
		l.steps[e.Run.Namespace] = e.Step.Name
	case scenario.RunPostponed:
		delete(l.steps, e.Run.Namespace)
		return
	case scenario.RunEnded:
		l.ended++
		delete(l.steps, e.Run.Namespace)
		return // its lines come next
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
