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

// filesOf returns the names of the files in a corpus.
func filesOf(t *testing.T, corpus string) (names []string) {
	t.Helper()
	enruns, err := os.ReadDir(corpus)
	if err != nil {
		t.Error(err)
	}
	for _, e := range enruns {
		names = append(names, e.Name())
	}
	return names
}

// readResult reads a result file.
func readResult[T any](t *testing.T, file string) (value T) {
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

// TestFailuresAreSaved checks that a failure is saved before the next schedule runs, because the process may be
// killed, and that the corpus contains all failures after Ctrl-C.
func TestFailuresAreSaved(t *testing.T) {
	for name, tc := range map[string]struct {
		// count is the number of schedules. stopAt is the number of the run, from 1, that Ctrl-C interrupts.
		count, stopAt int
		schedules     int // expected number of schedules with a result
	}{
		"while schedules run":       {count: 10, stopAt: 3, schedules: 2},
		"while a failure is shrunk": {count: 1, stopAt: 4, schedules: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Seed: 7, Count: tc.count, Parallel: 1, Corpus: filepath.Join(t.TempDir(), "corpus")}.Complete()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			runs := 0
			var killed []string
			r := serial(o, func(context.Context, Schedule) (runResult, *scenario.Report, error) {
				runs++
				if runs == 2 {
					killed = filesOf(t, o.Corpus)
				}
				if runs == tc.stopAt {
					stop()
				}
				if runs == 1 {
					return runResult{invariant: "order", seen: "it was", log: "module-controller: why\n"},
						&scenario.Report{Runs: []*scenario.Run{{Result: scenario.Failed}}}, nil
				}
				return runResult{}, &scenario.Report{}, nil
			})
			if err := r.runAll(ctx); err != nil {
				t.Fatal(err)
			}
			want := []string{"order-7.html", "order-7.log", "order-7.yaml", ResultFile}
			slices.Sort(want)
			if diff := cmp.Diff(want, killed); diff != "" {
				t.Errorf("corpus of a killed process (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want, filesOf(t, o.Corpus)); diff != "" {
				t.Errorf("corpus after Ctrl-C (-want +got):\n%s", diff)
			}
			if r.result.Schedules != tc.schedules {
				t.Errorf("schedules = %d, want %d", r.result.Schedules, tc.schedules)
			}
			saved := readResult[Result](t, filepath.Join(o.Corpus, ResultFile))
			for _, f := range r.result.Failures {
				f.Report, f.Log = nil, "" // saved in separate files
			}
			r.result.Started = saved.Started // equal except the monotonic clock
			if diff := cmp.Diff(r.result, saved); diff != "" || len(saved.Failures) != 1 {
				t.Errorf("%s (-returned +saved):\n%s", ResultFile, diff)
			}
			if _, err := source.Load([]string{filepath.Join(o.Corpus, "order-7.yaml")}, source.Options{}); err != nil {
				t.Errorf("loading the saved scenario: %v", err)
			}
		})
	}
}

// TestFilesOfMergedFailures checks that the files of a failure are removed when the failure is merged with another
// failure.
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
		t.Fatalf("failures = %d, files = %v", found, files)
	}
	if err := r.shrinkAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.result.Failures) != 1 {
		t.Fatalf("failures = %d, want 1", len(r.result.Failures))
	}
	f := r.result.Failures[0]
	want := []string{f.File, f.page(), ResultFile}
	slices.Sort(want)
	if diff := cmp.Diff(want, filesOf(t, o.Corpus)); diff != "" {
		t.Errorf("corpus (-want +got):\n%s", diff)
	}
}

func TestCorpusWriteErrorEndsRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runs := 0
	r := serial(Options{Seed: 1, Count: 9, Parallel: 1, Corpus: file}.Complete(),
		func(context.Context, Schedule) (runResult, *scenario.Report, error) {
			runs++
			return runResult{invariant: "order"}, &scenario.Report{}, nil
		})
	if err := r.runAll(t.Context()); err == nil || runs != 1 || r.result.Error == "" {
		t.Errorf("error = %v, runs = %d, error in the result = %q", err, runs, r.result.Error)
	}
}
