package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	results "github.com/koupleless/koupsandbox/sandbox/scenario"
)

const (
	drainTarget   = 2  // seconds: MODULE_DRAIN
	restartTarget = 10 // seconds
	// gapTarget is the install time of a comparison over MQTT, in seconds: there is no command there
	// that switches, so the old version has to go before the new one can be active.
	gapTarget = 0.2

	existingRestart = "not in 180" // seconds

	// What of comparison.yaml counts: its module, two cases and some steps.
	comparisonFile  = "e2e/bench/comparison.yaml"
	comparedModule  = "order"
	caseDefaultMQTT = "default, MQTT"
	caseCrash       = "kill -9"
	stepUpdate      = "update"
	stepStartAgain  = "start again"
	stepEverywhere  = "the second version is everywhere"
	stepComplete    = "the Deployment is complete"
)

// existing is what a run of its authors gave for the existing controller, by case, before this
// project began; empty = nobody has measured that.
var existing = map[string]struct{ wrong, without, gap, left, lost string }{
	"activate.new.module=true": {wrong: "9 to 12", without: "11 to 15", gap: "2.6", left: "30"},
	caseDefaultMQTT:            {lost: "21"},
}

// comparison rolls an update out over 30 bases, for each way that bases treat a second version, and
// once more with a crash of the controller.
func comparison(ctx context.Context, b *bench) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	s, err := b.show(ctx, filepath.FromSlash(comparisonFile))
	if err != nil {
		return err
	}
	for _, run := range s.report.Runs {
		values, _ := run.Cell["case"].(map[string]any)
		name, _ := values["name"].(string)
		if run.Verdict != results.Passed { // show has told why
			b.judge(name+": rolling updates that were not complete in time", 1, "rolling updates", 0)
			continue
		}
		if err := b.compare(name, run); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// compare notes how often and how long things were wrong in a run.
func (b *bench) compare(name string, run *results.Run) error {
	update, everywhere, complete := stepOf(run.Steps, stepUpdate), stepOf(run.Steps, stepEverywhere), stepOf(run.Steps, stepComplete)
	if update == nil || everywhere == nil || complete == nil {
		return errors.New("the run lacks a step")
	}
	of := func(what string) string { return name + ": " + what }
	beside := func(existing string) { b.figures[len(b.figures)-1].Existing = existing }
	was := existing[name]
	r := play(run.Timeline, comparedModule, complete.Started.Add(complete.Elapsed))
	b.note(of("rolling update"), fromTo(update, everywhere), "s")
	if name == caseCrash {
		again := stepOf(run.Steps, stepStartAgain)
		if again == nil {
			return errors.New("the controller was not started again")
		}
		b.judge(of("every Pod Ready if and only if its version is active, after the restart"), consistent(r.apart, again.Started), "s", restartTarget)
		beside(existingRestart)
	} else {
		b.judge(of("Pods that turned Ready before their version was active"), float64(len(r.early)), "Pods", 0)
		beside(was.wrong)
		b.judge(of(fmt.Sprintf("Pods Ready without their version being active, for more than %s", lag)), longer(r.wrong, lag), "Pods", 0)
		beside(was.wrong)
		b.note(of("  at all, from the base's switch to the Pod's Not Ready"), longer(r.wrong, 0), "Pods")
		b.note(of("  longest"), longest(r.wrong)*1e3, "ms")
	}
	if name == caseDefaultMQTT {
		b.note(of("bases that had no active version"), subjects(r.gaps), "bases")
		b.judge(of("  longest"), longest(r.gaps), "s", gapTarget+lag.Seconds())
	} else {
		b.judge(of("bases that had no active version"), subjects(r.gaps), "bases", 0)
		beside(was.without)
		b.note(of("  longest"), longest(r.gaps), "s")
		beside(was.gap)
	}
	b.judge(of("an old Pod Ready after its module was gone, longest"), longest(r.left), "s", drainTarget)
	beside(was.left)
	b.judge(of("bases without the module when the Deployment is complete"), r.without(), "bases", 0)
	beside(was.lost)
	return nil
}

// consistent is how many seconds after a restart a Pod's readiness was last not what its base
// served. What came later and was short is the lag of any change.
func consistent(apart []span, again time.Time) float64 {
	seconds := 0.0
	for _, one := range apart {
		if one.to.After(again) && (one.from.Before(again) || one.length() > lag) {
			seconds = max(seconds, one.to.Sub(again).Seconds())
		}
	}
	return seconds
}

// fromTo is how many seconds passed from the beginning of a step to the end of a later one.
func fromTo(first, last *results.Step) float64 {
	return last.Started.Add(last.Elapsed).Sub(first.Started).Seconds()
}

// stepOf finds a step by its name, within groups too.
func stepOf(steps []*results.Step, name string) *results.Step {
	for _, s := range steps {
		if s.Name == name {
			return s
		}
		if inner := stepOf(s.Steps, name); inner != nil {
			return inner
		}
	}
	return nil
}
