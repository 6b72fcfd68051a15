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
	// downTime bounds the end of the sandbox, which must not hang on Ctrl-C.
	downTime = 30 * time.Second
	// waitTime bounds each step of its beginning.
	waitTime = time.Minute
)

//go:embed scenarios
var files embed.FS

// Options of Run.
type Options struct {
	// Home is the folder with the folders of all sandboxes. Required.
	Home string
	// Name of the demo's sandbox; there must be none of it. Required.
	Name string
	// Programs of the sandbox. Required.
	Binaries sandbox.Binaries
	// Keep leaves the sandbox up, with the bases and Pods of the demo. Default: it
	// is taken down.
	Keep bool
	// Progress gets the steps of the start. Ready is called when the sandbox is up. Default: nothing.
	Progress func(sandbox.Event)
	Ready    func()
	// Out gets the output. Required.
	Out io.Writer
	// Width of Out in columns. Default: 100.
	Width int
	// Color uses the terminal's colours. Default: none.
	Color bool
	// Clock is the source of the time. Default: the real clock.
	Clock clock.PassiveClock
}

// Run starts a sandbox, runs both scenarios concurrently, prints what happens, and stops the sandbox. It blocks until all of
// this is done. When ctx ends, it cleans up and returns the partial report and the cause.
func Run(ctx context.Context, o Options) (report *scenario.Report, err error) {
	scenarios, err := load()
	if err != nil {
		return nil, err
	}
	if _, err := sandbox.Inspect(ctx, o.Home, o.Name, false); !errors.Is(err, sandbox.ErrNotUp) {
		return nil, errors.Join(
			fmt.Errorf("there is a sandbox %q already, and the demo wants its own: take it down with: koupsandbox "+
				"down --name %s; or give the demo another --name",
				o.Name, o.Name), err)
	}
	config := &v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: o.Name}}
	one := 1 // the scenarios bring their own
	config.Spec.Bases.Count, config.Spec.Wait = &one, &metav1.Duration{Duration: waitTime}
	if o.Binaries.ControlPlane != "" {
		config.Spec.Provider = v1alpha1.ProviderEmbedded // there in seconds; kind, the default where it can be, is not
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
	return play(ctx, up, scenarios, o)
}

// down ends the sandbox, after Ctrl-C too.
func down(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
	defer cancel()
	_, err := sandbox.Down(ctx, sandbox.DownOptions{Home: o.Home, Name: o.Name})
	return err
}

func play(ctx context.Context, up *sandbox.Sandbox, scenarios []*source.Scenario, o Options) (*scenario.Report, error) {
	t := newTeller(o)
	t.begin()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- watch.Follow(watching, watch.Options{Source: up.Client},
			func(e events.Event) error { t.seen(e); return nil })
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
		run.Again = "koupsandbox demo" // its scenarios are in no file
	}
	t.end(report)
	return report, nil
}

// load reads the scenarios, which are a part of the program.
func load() (scenarios []*source.Scenario, err error) {
	folder, err := os.MkdirTemp("", "koupsandbox-demo-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the demo's scenarios: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	inner, err := fs.Sub(files, "scenarios")
	if err == nil {
		err = os.CopyFS(folder, inner)
	}
	if err != nil {
		return nil, fmt.Errorf("writing the demo's scenarios: %w", err)
	}
	scenarios, err = source.Load([]string{folder}, source.Options{})
	if err != nil {
		return nil, fmt.Errorf("reading the demo's scenarios: %w", err)
	}
	for _, s := range scenarios {
		s.File, s.Folder = "demo/"+filepath.Base(s.File), "" // what they need is in them
	}
	return scenarios, nil
}

// Verdict returns nil when the demo has shown what it is to show: that the
// Deployment loses nothing, and that the DaemonSet is caught losing requests.
func Verdict(r *scenario.Report) error {
	var errs []error
	for _, run := range r.Runs {
		lost, sent := 0, 0
		for _, t := range run.Traffic {
			lost, sent = lost+t.Summary.Lost, sent+t.Sent
		}
		switch {
		case run.Scenario == deployment && (run.Verdict != scenario.Passed || sent == 0):
			errs = append(errs, fmt.Errorf("the Deployment was to lose nothing, but %s", because(run)))
		case run.Scenario == daemonSet && (run.Verdict != scenario.Failed || lost == 0):
			errs = append(errs, fmt.Errorf("the DaemonSet was to be caught losing requests, but %s", because(run)))
		}
	}
	if len(r.Runs) != 2 {
		errs = append(errs, fmt.Errorf("there were to be 2 runs, but there are %d", len(r.Runs)))
	}
	return errors.Join(errs...)
}

func because(run *scenario.Run) string {
	if run.Failure != "" {
		return "its run has " + string(run.Verdict) + ": " + run.Failure
	}
	return "its run has " + string(run.Verdict)
}
