package board

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// scenarioAction is the action that runs one of the scenarios in Options.Scenarios. Other files are not allowed,
// because a scenario can run scripts on this machine. The action responds immediately, and the scenario runs in the
// background.
func scenarioAction(files []string) act {
	return act{
		Action: Action{ID: "scenario.run", On: kindBoard, Title: "Run a scenario", Danger: true,
			Params: []ActionParam{{Name: "scenario", Choices: names(files)}}},
		target: func(params) string { return "the scenarios" },
		do: func(_ context.Context, b *Board, p params) (ActionResult, error) {
			file := files[slices.Index(names(files), p["scenario"])]
			scenarios, err := source.Load([]string{file}, source.Options{})
			if err != nil {
				return ActionResult{}, invalid("%s is invalid: %v", file, err)
			}
			release, err := b.acts.reserve("this sandbox", "scenario.run")
			if err != nil {
				return ActionResult{}, err
			}
			b.acts.running.Go(func() {
				defer release()
				b.run(scenarios)
			})
			return ActionResult{p["scenario"] + " was started", b.koupsandbox("scenario", "run", file)}, nil
		},
	}
}

// names returns file names without their directories and extensions.
func names(files []string) []string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f[len(filepath.Dir(f))+1 : len(f)-len(filepath.Ext(f))]
	}
	return list
}

func (b *Board) run(scenarios []*source.Scenario) {
	r, err := scenario.Execute(b.acts.ctx,
		scenario.Options{Sandbox: b.o.Sandbox, Scenarios: scenarios, Progress: b.logRun})
	switch {
	case err != nil:
		b.logStep(b.now(), "scenario", events.StepFailed, err.Error())
	default:
		for _, run := range r.Runs {
			b.logStep(b.now(), run.Namespace, events.StepState(run.Result), run.Failure)
		}
	}
}

func (b *Board) logRun(e scenario.ProgressEvent) {
	switch e.Kind {
	case scenario.RunStarted:
		b.logStep(b.now(), e.Run.Namespace, events.StepBegan, e.Run.Scenario) // it has no time of its own yet
	case scenario.StepEnded:
		name := e.Run.Namespace + ": " + e.Step.Name
		b.logStep(e.Step.Started, name, events.StepBegan, "")
		b.logStep(e.Step.Started.Add(e.Step.Elapsed), name, events.StepState(e.Step.Result), e.Step.Message)
	}
}

func (b *Board) logStep(at time.Time, name string, state events.StepState, message string) {
	b.state.addEvent(events.Event{Time: at, Step: &events.StepEvent{Name: name, State: state, Message: message}})
}
