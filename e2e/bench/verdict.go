package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	catalogueFolder = "scenarios"
	// verdictTarget and catalogueTarget are seconds, the latter on two cores.
	verdictTarget   = 5
	catalogueTarget = 6 * 60
	verdictTimes    = 9
	verdictQuick    = 3
	// atOnce is how many scenarios run side by side: most of the time they wait.
	atOnce = "4"
)

// verdict runs the catalogue's rolling update again and again, with bases over
// MQTT whose new version is the active one.
func verdict(ctx context.Context, b *bench) error {
	file, err := b.oneCell("rolling-update.yaml", "- {tunnel: ", "- {tunnel: mqtt, activation: newModule}")
	if err != nil {
		return err
	}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	times := verdictTimes
	if b.o.quick {
		times = verdictQuick
	}
	var verdicts, whole []float64
	var t tally
	for range times {
		s, err := b.show(ctx, file)
		if err != nil {
			return err
		}
		t.add(&s.report)
		verdicts, whole = append(verdicts, s.verdict.Seconds()), append(whole, s.whole.Seconds())
	}
	slices.Sort(verdicts)
	slices.Sort(whole)
	b.note("from run to verdict, shortest", verdicts[0], "s")
	b.note("  median", verdicts[times/2], "s")
	b.judge("  longest", verdicts[times-1], "s", verdictTarget)
	b.note("until all it made is gone, median", whole[times/2], "s")
	b.noteTally(t)
	return nil
}

// oneCell copies a scenario of the catalogue with one cell of its matrix only: of the lines that
// begin with cells it keeps the one that is kept. The manifests stay where they are.
func (b *bench) oneCell(name, cells, kept string) (string, error) {
	text, err := os.ReadFile(filepath.Join(catalogueFolder, name))
	manifests, absErr := filepath.Abs(filepath.Join(catalogueFolder, "manifests"))
	from, relErr := filepath.Rel(b.Home, manifests)
	if err := errors.Join(err, absErr, relErr); err != nil {
		return "", fmt.Errorf("reading a scenario: %w", err)
	}
	var copied strings.Builder
	found := 0
	for line := range strings.Lines(string(text)) {
		switch cell := strings.TrimSpace(line); {
		case cell == kept:
			found++
		case strings.HasPrefix(cell, cells):
			continue
		}
		copied.WriteString(strings.ReplaceAll(line, "file: manifests/", "file: "+filepath.ToSlash(from)+"/"))
	}
	if found != 1 {
		return "", fmt.Errorf("scenario %s has the cell %q %d times", name, kept, found)
	}
	file := filepath.Join(b.Home, name)
	return file, os.WriteFile(file, []byte(copied.String()), 0o600)
}

// catalogue runs every scenario once.
func catalogue(ctx context.Context, b *bench) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	args := []string{"--parallel", atOnce}
	if b.o.quick {
		args = append(args, "--selector", "group=rollout")
	}
	s, err := b.show(ctx, append(args, catalogueFolder)...)
	if err != nil {
		return err
	}
	b.judgeScale("from run to the last verdict", s.report.Elapsed.Seconds(), "s", catalogueTarget)
	var t tally
	t.add(&s.report)
	b.noteTally(t)
	return b.noteLoad(ctx, "load of the machine at the end")
}
