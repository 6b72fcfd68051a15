package fuzz

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// ResultFile is the name of the result in a corpus.
const ResultFile = "fuzz.json"

var other = regexp.MustCompile(`[^a-z0-9]+`)

// fileName is the name of the scenario of a failure.
func (f *Failure) fileName() string {
	name := strings.Trim(other.ReplaceAllString(strings.ToLower(f.Invariant), "-"), "-")
	if len(name) > 30 {
		name = strings.TrimRight(name[:30], "-")
	}
	return fmt.Sprintf("%s-%d.yaml", name, f.Seed%1e6)
}

// save writes the failures as scenarios, with their reports, and the result.
func (r *run) save() error {
	if err := os.MkdirAll(r.o.Corpus, 0o755); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("making the corpus: %w", err)
	}
	var errs []error
	for _, f := range r.result.Failures {
		errs = append(errs, r.saveOne(f))
	}
	text, err := json.MarshalIndent(&r.result, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(r.o.Corpus, ResultFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("writing the result: %w", err))
	}
	return errors.Join(errs...)
}

func (r *run) saveOne(f *Failure) error {
	name := strings.TrimSuffix(f.File, ".yaml")
	comments := []string{
		"Found by koupsandbox fuzz, seed " + fmt.Sprint(f.Seed) + ".",
		"Broken: " + f.Invariant + ".",
		"Seen: " + f.Seen,
	}
	if f.Repeated > 0 {
		comments = append(comments, fmt.Sprintf("It failed like this in %d of %d repetitions.", f.Failed, f.Repeated))
	}
	text, err := f.Smallest.YAML(name, comments...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.o.Corpus, f.File), text, 0o600); err != nil {
		return fmt.Errorf("writing a failure: %w", err)
	}
	if kept := r.kept[f.File]; kept != nil {
		return report.Save(filepath.Join(r.o.Corpus, name+".html"), kept, report.WriteHTML)
	}
	return nil
}
