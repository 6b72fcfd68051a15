package fuzz

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

// The names of the result files in the corpus.
const (
	ResultFile     = "fuzz.json"    // of Run
	ComparisonFile = "compare.json" // of Compare
)

// notInFileName matches characters that are not used in the names of corpus files.
var notInFileName = regexp.MustCompile(`[^a-z0-9]+`)

func (f *Failure) fileName() string {
	name := strings.Trim(notInFileName.ReplaceAllString(strings.ToLower(f.Invariant), "-"), "-")
	if len(name) > 30 {
		name = strings.TrimRight(name[:30], "-")
	}
	return fmt.Sprintf("%s-%d.yaml", name, f.Seed%1e6)
}

func (f *Failure) name() string { return strings.TrimSuffix(f.File, ".yaml") }

func (f *Failure) log() string { return f.name() + ".log" }

// page returns the file name of the HTML report, or the empty string if there is no report.
func (f *Failure) page() string {
	if f.Report == nil {
		return ""
	}
	return f.name() + ".html"
}

// runs returns copies of the runs in the report. Their name, file and rerun command refer to the scenario in the
// corpus, because the scenario file that was executed is deleted.
func (f *Failure) runs() (list []*scenario.Run) {
	for _, run := range f.Report.Runs {
		run := *run
		run.Scenario, run.File, run.RerunCommand = f.name(), f.File, "koupsandbox scenario run --up --repeat 20 "+f.File
		list = append(list, &run)
	}
	return list
}

// save writes the result to the corpus, and each failure as a scenario with its report. The caller must hold the lock
// while schedules are running.
func (r *run) save() error {
	r.result.Started = r.began
	var errs []error
	for _, f := range r.result.Failures {
		errs = append(errs, r.saveOne(f))
	}
	return errors.Join(append(errs, report.Save(filepath.Join(r.o.Corpus, ResultFile), &r.result, writeJSON))...)
}

func (r *run) saveOne(f *Failure) error {
	comments := []string{
		"Found by koupsandbox fuzz, seed " + fmt.Sprint(f.Seed) + ".",
		"Failed check: " + f.Invariant + ".",
		"Result: " + f.Seen,
	}
	if f.Repeated > 0 {
		comments = append(comments,
			fmt.Sprintf("The same failure occurred in %d of %d repetitions.", f.Failed, f.Repeated))
	}
	bundled := r.o.Config == nil || len(r.o.Config.Spec.Controller.Command) == 0
	text, err := f.Smallest.YAML(f.name(), bundled, comments...)
	if err == nil {
		err = report.Save(filepath.Join(r.o.Corpus, f.File), text,
			func(w io.Writer, text []byte) error { _, err := w.Write(text); return err })
	}
	if err == nil && f.Log != "" {
		err = report.Save(filepath.Join(r.o.Corpus, f.log()), f.Log,
			func(w io.Writer, text string) error { _, err := io.WriteString(w, text); return err })
	}
	if err != nil || f.Report == nil {
		return err
	}
	page := *f.Report
	page.Runs = f.runs()
	return report.Save(filepath.Join(r.o.Corpus, f.page()), &page, report.WriteHTML)
}

// removeFiles removes the files of a failure that was merged with another failure.
func (r *run) removeFiles(f *Failure) error {
	for _, name := range []string{f.File, f.page(), f.log()} {
		if name == "" {
			continue
		}
		if err := os.Remove(filepath.Join(r.o.Corpus, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the files of a merged failure: %w", err)
		}
	}
	return nil
}

func writeJSON[T any](w io.Writer, value T) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// PerHour returns the number of completed schedules per hour, or 0 if no time has passed.
func (r *Result) PerHour() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Schedules) / r.Elapsed.Hours()
}
