package fuzz

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// filesOf are the names of the files in a corpus.
func filesOf(t *testing.T, corpus string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(corpus)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// read reads a result from its file.
func read[T any](t *testing.T, file string) (value T) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		t.Error(err)
	}
	return value
}

// A failure is in the corpus before the next try begins, so a process that is killed loses nothing;
// and Ctrl-C leaves everything that was found until then.
func TestWhatIsFoundIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		count, stopAt int // schedules, and the try in which Ctrl-C is pressed
		schedules     int // that have ended
	}{
		"while schedules run":        {count: 10, stopAt: 3, schedules: 2},
		"while a failure is reduced": {count: 1, stopAt: 4, schedules: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Seed: 7, Count: tc.count, Parallel: 1, Corpus: filepath.Join(t.TempDir(), "corpus")}.Complete()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			tries := 0
			var killed []string
			r := serial(o, func(context.Context, Schedule) (runResult, *scenario.Report, error) {
				tries++
				if tries == 2 {
					killed = filesOf(t, o.Corpus)
				}
				if tries == tc.stopAt {
					stop()
				}
				if tries == 1 {
					return runResult{invariant: "order", seen: "it was", log: "module-controller: why\n"},
						&scenario.Report{Runs: []*scenario.Run{{Verdict: scenario.Failed}}}, nil
				}
				return runResult{}, &scenario.Report{}, nil
			})
			if err := r.runAll(ctx); err != nil {
				t.Fatal(err)
			}
			want := []string{"order-7.html", "order-7.log", "order-7.yaml", ResultFile}
			slices.Sort(want)
			if diff := cmp.Diff(want, killed); diff != "" {
				t.Errorf("the corpus of a process that is killed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, filesOf(t, o.Corpus)); diff != "" {
				t.Errorf("the corpus after Ctrl-C (-want +got):\n%s", diff)
			}
			if r.result.Schedules != tc.schedules {
				t.Errorf("%d schedules have ended, want %d", r.result.Schedules, tc.schedules)
			}
			kept := read[Result](t, filepath.Join(o.Corpus, ResultFile))
			for _, f := range r.result.Failures {
				f.Report, f.Log = nil, "" // they are files of their own
			}
			r.result.Started = kept.Started // the same, but for the clock of this process
			if diff := cmp.Diff(r.result, kept); diff != "" || len(kept.Failures) != 1 {
				t.Errorf("%s (-returned +kept):\n%s", ResultFile, diff)
			}
			if _, err := source.Load([]string{filepath.Join(o.Corpus, "order-7.yaml")}, source.Options{}); err != nil {
				t.Errorf("the failure cannot be run again: %v", err)
			}
		})
	}
}

// Failures that become one leave the files of one.
func TestFilesOfMergedFailures(t *testing.T) {
	o := Options{Seed: 1, Count: 12, Parallel: 1, Corpus: t.TempDir(), MaxFailures: 100}.Complete()
	r := serial(o, func(_ context.Context, s Schedule) (runResult, *scenario.Report, error) {
		if !s.has(func(m *actionSpec) bool { return m.name == release }) {
			return runResult{}, &scenario.Report{}, nil
		}
		return runResult{invariant: "requests", seen: "5 were lost"}, &scenario.Report{}, nil
	})
	r.began = time.Now()
	if err := r.workers(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := len(r.result.Failures)
	if files := filesOf(t, o.Corpus); found < 2 || len(files) != 2*found+1 {
		t.Fatalf("%d failures were found, and the corpus has %v", found, files)
	}
	if err := r.reduceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.result.Failures) != 1 {
		t.Fatalf("%d failures are left", len(r.result.Failures))
	}
	f := r.result.Failures[0]
	want := []string{f.File, f.page(), ResultFile}
	slices.Sort(want)
	if diff := cmp.Diff(want, filesOf(t, o.Corpus)); diff != "" {
		t.Errorf("the corpus (-want +got):\n%s", diff)
	}
}

// A corpus that cannot be written ends the run.
func TestCorpusThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tries := 0
	r := serial(Options{Seed: 1, Count: 9, Parallel: 1, Corpus: file}.Complete(),
		func(context.Context, Schedule) (runResult, *scenario.Report, error) {
			tries++
			return runResult{invariant: "order"}, &scenario.Report{}, nil
		})
	if err := r.runAll(t.Context()); err == nil || tries != 1 || r.result.Error == "" {
		t.Errorf("error %v after %d tries, %q in the result", err, tries, r.result.Error)
	}
}
