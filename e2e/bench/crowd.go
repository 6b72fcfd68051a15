package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	results "github.com/koupleless/koupsandbox/sandbox/scenario"
)

const (
	crowdFile  = "e2e/bench/crowd.yaml"
	stepDone   = "complete" // of it
	crowdBases = 10_000
	mostBases  = 20_000
	crowdQuick = 100
)

// crowd rolls an update out over very many bases, as a scenario with every check, and then brings
// up as many bases as one sandbox runs.
func crowd(ctx context.Context, b *bench) error {
	bases := crowdBases
	if b.o.quick {
		bases = crowdQuick
	}
	s, err := b.show(ctx, "--up", "--provider", "embedded", "--var", fmt.Sprintf("bases=%d", bases), filepath.FromSlash(crowdFile))
	if err != nil {
		return err
	}
	var t tally
	t.add(&s.report)
	b.noteTally(t)
	for _, run := range s.report.Runs {
		update, complete := stepOf(run.Steps, stepUpdate), stepOf(run.Steps, stepDone)
		if run.Verdict != results.Passed {
			continue // show has told why
		}
		if update == nil || complete == nil {
			return errors.New("the run lacks a step")
		}
		seconds := fromTo(update, complete)
		b.note(fmt.Sprintf("rolling update of %d Pods", bases), seconds, "s")
		b.note("Pods turned over", float64(bases)/seconds, "a second")
	}
	if b.o.quick {
		return nil
	}
	return b.most(ctx)
}

// most brings 20,000 bases up.
func (b *bench) most(ctx context.Context) error {
	up, err := b.upTime(ctx, mostBases)
	if err != nil {
		return err
	}
	b.note("up, 20,000 bases, all Nodes Ready", up, "s")
	parts, err := b.parts(ctx)
	if err != nil {
		return err
	}
	b.note("  memory of all processes", together(parts).megabytes(), "MB")
	return nil
}
