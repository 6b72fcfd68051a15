package demo

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/watch"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

const (
	// downTime is the timeout for stopping the sandbox. Ctrl-C does not interrupt the shutdown.
	downTime = 30 * time.Second
	// waitTime is the timeout of each step of the sandbox startup.
	waitTime = time.Minute
)

//go:embed scenarios
var files embed.FS

// Options are the options of Run.
type Options struct {
	// Home is the parent directory of the state directories of all sandboxes. Required.
	Home string
	// Name is the name of the demo sandbox. A sandbox with this name must not exist. Required.
	Name string
	// Binaries are the paths of the sandbox binaries. Required.
	Binaries sandbox.Binaries
	// Keep keeps the sandbox with its bases and Pods running after the demo. Default: Run stops the sandbox.
	Keep bool
	// Progress receives each step of the sandbox startup. Ready is called when the sandbox is ready. Default: no
	// progress output.
	Progress func(sandbox.Event)
	Ready    func()
	// Out receives the output of the demo. Required.
	Out io.Writer
	// Width is the width of Out in columns. Default: 100.
	Width int
	// Color enables terminal colours in the output.
	Color bool
	// Clock provides the current time. Default: the real clock.
	Clock clock.PassiveClock
}

// Run starts a sandbox, runs both demo scenarios concurrently, prints their events, and stops the sandbox. It blocks
// until the sandbox is stopped. When ctx ends, Run cleans up and returns the partial report and the cause of ctx.
func Run(ctx context.Context, o Options) (report *scenario.Report, err error) {
	scenarios, err := load()
	if err != nil {
		return nil, err
	}
	if _, err := sandbox.Inspect(ctx, o.Home, o.Name, false); !errors.Is(err, sandbox.ErrNotUp) {
		return nil, errors.Join(
			fmt.Errorf("sandbox %q already exists; stop it with koupsandbox down --name %s, or set another --name",
				o.Name, o.Name), err)
	}
	config := &v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: o.Name}}
	config.Spec.Bases = v1alpha1.OneBase() // the scenarios define their own bases
	config.Spec.Wait = &metav1.Duration{Duration: waitTime}
	if o.Binaries.ControlPlane != "" {
		config.Spec.Provider = v1alpha1.ProviderEmbedded // embedded starts faster than kind, which can be the default
	}
	if err := v1alpha1.Complete(config, &v1alpha1.Origins{}, nil); err != nil {
		return nil, err
	}
	up, err := sandbox.Up(ctx,
		sandbox.Options{Home: o.Home, Config: config, Binaries: o.Binaries, DownOnClose: !o.Keep, Progress: o.Progress})
	if o.Ready != nil {
		o.Ready()
	}
	if err != nil {
		return nil, err
	}
	defer up.Close()
	if !o.Keep {
		defer func() { err = errors.Join(err, down(ctx, o)) }()
	}
	return runScenarios(ctx, up, scenarios, o)
}

// down stops the sandbox. Ctrl-C does not interrupt it.
func down(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
	defer cancel()
	_, err := sandbox.Down(ctx, sandbox.DownOptions{Home: o.Home, Name: o.Name})
	return err
}

func runScenarios(ctx context.Context, up *sandbox.Sandbox, scenarios []*source.Scenario, o Options) (*scenario.Report,
	error) {
	t := newPrinter(o)
	t.printHeader()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- watch.Follow(watching, watch.Options{Source: up.Client},
			func(e events.Event) error { t.observe(e); return nil })
	}()
	report, err := scenario.Execute(ctx,
		scenario.Options{Sandbox: up, Scenarios: scenarios, Parallel: len(scenarios), Keep: o.Keep,
			Progress: t.progress})
	stop()
	if watchErr := <-watched; !errors.Is(watchErr, context.Canceled) {
		err = errors.Join(err, watchErr)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return report, err
	}
	for _, run := range report.Runs {
		run.RerunCommand = "koupsandbox demo" // the scenarios are embedded in the binary
	}
	if !errors.Is(CheckResult(report), errInconclusive) {
		t.printResults(report)
	}
	return report, nil
}

// load reads the embedded scenarios.
func load() (scenarios []*source.Scenario, err error) {
	dir, err := os.MkdirTemp("", "koupsandbox-demo-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory for the demo's scenarios: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	inner, err := fs.Sub(files, "scenarios")
	if err == nil {
		err = os.CopyFS(dir, inner)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the demo's scenarios: %w", err)
	}
	scenarios, err = source.Load([]string{dir}, source.Options{})
	if err != nil {
		return nil, fmt.Errorf("reading the demo's scenarios: %w", err)
	}
	for _, s := range scenarios {
		s.File, s.Dir = "demo/"+filepath.Base(s.File), "" // they need no other files
	}
	return scenarios, nil
}

var errInconclusive = errors.New("the demo is inconclusive")

// CheckResult returns an error if the demo results are unexpected. The run of the Deployment must lose no requests,
// and the run of the DaemonSet must fail because requests were lost. If a run is inconclusive and the
// other run has the expected result, the error states only why the run is inconclusive.
func CheckResult(r *scenario.Report) error {
	var errs []error
	cause := "" // of an inconclusive run
	for _, run := range r.Runs {
		lost, sent := 0, 0
		for _, t := range run.Traffic {
			lost, sent = lost+t.Summary.Lost, sent+t.Sent
		}
		switch {
		case run.Inconclusive():
			cause = run.InconclusiveCause()
		case run.Scenario == deployment && (run.Result != scenario.Passed || sent == 0):
			errs = append(errs, fmt.Errorf("the Deployment should lose no requests, but %s", runResult(run)))
		case run.Scenario == daemonSet && (run.Result != scenario.Failed || lost == 0):
			errs = append(errs,
				fmt.Errorf("the DaemonSet should fail because of lost requests, but %s", runResult(run)))
		}
	}
	if len(r.Runs) != 2 {
		errs = append(errs, fmt.Errorf("expected 2 runs, got %d", len(r.Runs)))
	}
	if len(errs) == 0 && cause != "" {
		return fmt.Errorf("%w: %s; close other programs, and run the demo again", errInconclusive, cause)
	}
	return errors.Join(errs...)
}

func runResult(run *scenario.Run) string {
	if run.Failure != "" {
		return "its run " + string(run.Result) + ": " + run.Failure
	}
	return "its run " + string(run.Result)
}
