package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
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
	file, err := b.oneCell("rolling-update.yaml", map[string]any{"base": []any{map[string]any{"tunnel": "mqtt", "activation": "newModule"}}})
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

// oneCell copies a scenario of the catalogue with another matrix, and the
// manifests with it.
func (b *bench) oneCell(name string, matrix map[string]any) (file string, err error) {
	text, err := os.ReadFile(filepath.Join(catalogueFolder, name))
	if err != nil {
		return "", fmt.Errorf("reading a scenario: %w", err)
	}
	var copied struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   any            `json:"metadata"`
		Spec       map[string]any `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &copied); err != nil {
		return "", fmt.Errorf("reading scenario %s: %w", name, err)
	}
	copied.Spec["matrix"] = matrix
	file = filepath.Join(b.Home, name)
	if text, err = yaml.Marshal(copied); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(b.Home, "manifests"), os.DirFS(filepath.Join(catalogueFolder, "manifests")))
	}
	if err != nil {
		return "", fmt.Errorf("copying scenario %s: %w", name, err)
	}
	return file, nil
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
