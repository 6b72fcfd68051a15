package fuzz

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// The names of the results in a corpus: of Run, as JSON and as a page, and of Compare.
const (
	ResultFile     = "fuzz.json"
	PageFile       = "index.html"
	ComparisonFile = "compare.json"
)

// Covered is a pair of moves that there was.
type Covered struct {
	// First move; empty = Second was the first of its schedule.
	First  string `json:"first,omitempty"`
	Second string `json:"second"`
	// When is the trigger of Second.
	When  Trigger `json:"when"`
	Times int     `json:"times"`
}

// list returns the pairs that there were, sorted.
func (c *coverage) list() []Covered {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Covered, 0, len(c.pairs))
	for p, n := range c.pairs {
		list = append(list, Covered{First: p.First, Second: p.Second, When: p.When, Times: n})
	}
	slices.SortFunc(list, func(a, b Covered) int {
		return cmp.Or(strings.Compare(a.First, b.First), strings.Compare(a.Second, b.Second), strings.Compare(string(a.When), string(b.When)))
	})
	return list
}

var other = regexp.MustCompile(`[^a-z0-9]+`)

// fileName is the name of the scenario of a failure.
func (f *Failure) fileName() string {
	name := strings.Trim(other.ReplaceAllString(strings.ToLower(f.Invariant), "-"), "-")
	if len(name) > 30 {
		name = strings.TrimRight(name[:30], "-")
	}
	return fmt.Sprintf("%s-%d.yaml", name, f.Seed%1e6)
}

// name is that of the scenario.
func (f *Failure) name() string { return strings.TrimSuffix(f.File, ".yaml") }

// log is the name of the file with what its controllers logged.
func (f *Failure) log() string { return f.name() + ".log" }

// page is the name of the report's file; empty = there is none.
func (f *Failure) page() string {
	if f.Report == nil {
		return ""
	}
	return f.name() + ".html"
}

// runs are those of the report, as runs of the scenario that the corpus has: the file that they were
// read from is gone.
func (f *Failure) runs() (list []*scenario.Run) {
	for _, run := range f.Report.Runs {
		run := *run
		run.Scenario, run.File, run.Again = f.name(), f.File, "koupsandbox scenario run --up --repeat 20 "+f.File
		list = append(list, &run)
	}
	return list
}

// save writes the failures as scenarios, with their reports, and the result. The caller holds the
// lock, if others run.
func (r *run) save() error {
	r.result.Started, r.result.Covered = r.began, r.seen.list()
	r.result.Pairs, r.result.Features = r.seen.size()
	var errs []error
	for _, f := range r.result.Failures {
		errs = append(errs, r.saveOne(f))
	}
	return errors.Join(append(errs,
		report.Save(filepath.Join(r.o.Corpus, ResultFile), &r.result, writeJSON),
		report.Save(filepath.Join(r.o.Corpus, PageFile), &r.result, WriteHTML))...)
}

func (r *run) saveOne(f *Failure) error {
	comments := []string{
		"Found by koupsandbox fuzz, seed " + fmt.Sprint(f.Seed) + ".",
		"Broken: " + f.Invariant + ".",
		"Seen: " + f.Seen,
	}
	if f.Repeated > 0 {
		comments = append(comments, fmt.Sprintf("It failed like this in %d of %d repetitions.", f.Failed, f.Repeated))
	}
	ours := r.o.Config == nil || len(r.o.Config.Spec.Controller.Command) == 0
	text, err := f.Smallest.YAML(f.name(), ours, comments...)
	if err == nil {
		err = report.Save(filepath.Join(r.o.Corpus, f.File), text, func(w io.Writer, text []byte) error { _, err := w.Write(text); return err })
	}
	if err == nil && f.Log != "" {
		err = report.Save(filepath.Join(r.o.Corpus, f.log()), f.Log, func(w io.Writer, text string) error { _, err := io.WriteString(w, text); return err })
	}
	if err != nil || f.Report == nil {
		return err
	}
	page := *f.Report
	page.Runs = f.runs()
	return report.Save(filepath.Join(r.o.Corpus, f.page()), &page, report.WriteHTML)
}

// forget removes the files of a failure that has become one with another.
func (r *run) forget(f *Failure) error {
	for _, name := range []string{f.File, f.page(), f.log()} {
		if name == "" {
			continue
		}
		if err := os.Remove(filepath.Join(r.o.Corpus, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a failure that is like another: %w", err)
		}
	}
	return nil
}

// writeJSON writes a value as indented JSON.
func writeJSON[T any](w io.Writer, value T) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
