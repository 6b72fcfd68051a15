package source

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

type (
	// Problem is one error in a file, with its file, line and field.
	Problem = strictyaml.Problem
	// Problems lists all errors. It is the type of the errors that Load returns.
	Problems = strictyaml.Problems
)

// Options configures Load.
type Options struct {
	// Vars overrides variables of the scenarios. If an override is a string but the variable is not, the override is
	// parsed as YAML. Default: none.
	Vars map[string]any
	// Select reports whether to load a scenario. Other scenarios are not validated. Default: all scenarios are loaded.
	Select func(name string, labels map[string]string) bool
}

// Load reads scenario files. For a directory, it reads all scenario files in the directory, but not in its
// subdirectories. The error is of type Problems and lists all errors that can be found without running a scenario.
func Load(paths []string, o Options) ([]*Scenario, error) {
	files, problems := findFiles(paths)
	var scenarios []*Scenario
	first := map[string]string{}
	used := map[string]bool{}
	for _, f := range files {
		if f.source.Empty() {
			problems = append(problems, f.problems...)
			continue
		}
		s, found := decodeFile(f)
		if o.Select != nil && s.Scenario.Metadata.Name != "" &&
			!o.Select(s.Scenario.Metadata.Name, s.Scenario.Metadata.Labels) {
			continue
		}
		found = append(found, s.prepare(o)...)
		if name := s.Scenario.Metadata.Name; name != "" {
			if other, twice := first[name]; twice {
				found = append(found,
					s.problem("metadata.name",
						fmt.Sprintf("duplicate name %q, which the scenario in %s already has; choose another name",
							name, other)))
			}
			first[name] = s.File
		}
		problems = append(problems, found...)
		for name := range s.Scenario.Spec.Vars {
			used[name] = true
		}
		scenarios = append(scenarios, s)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Vars)) {
		if !used[name] && len(scenarios) > 0 {
			problems = append(problems, Problem{Source: "--var " + name,
				Detail: "no scenario has this variable" + plain.DidYouMean(name, slices.Collect(maps.Keys(used)))})
		}
	}
	if len(scenarios) == 0 && len(problems) == 0 {
		problems = append(problems,
			Problem{Detail: "no scenario matches; koupsandbox scenario list shows names and labels"})
	}
	if err := unique(problems).Err(); err != nil {
		return nil, err
	}
	return scenarios, nil
}

func unique(problems Problems) Problems {
	seen := map[Problem]bool{}
	return slices.DeleteFunc(problems, func(p Problem) bool {
		twice := seen[p]
		seen[p] = true
		return twice
	})
}

type file struct {
	path     string
	source   *strictyaml.Source
	problems Problems
}

// findFiles reads the files with the given paths. If a path is a directory, findFiles reads only the files of kind
// Scenario in this directory.
func findFiles(paths []string) (files []file, problems Problems) {
	for _, path := range paths {
		names := []string{path}
		entries, notDir := os.ReadDir(path)
		if notDir == nil {
			names = nil
		}
		for _, entry := range entries {
			if ext := filepath.Ext(entry.Name()); ext == ".yaml" || ext == ".yml" {
				names = append(names, filepath.Join(path, entry.Name()))
			}
		}
		before := len(files) + len(problems)
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				problems = append(problems, unreadable(name, err))
			} else if notDir != nil || IsScenario(text) {
				files = append(files, parse(name, text))
			}
		}
		if len(files)+len(problems) == before {
			problems = append(problems, Problem{Source: path, Detail: "no scenario files in this directory"})
		}
	}
	return files, problems
}

// parse parses a scenario file. If an unquoted expression in { } or [ ] causes a syntax error, parse adds an
// explanation to the error.
func parse(path string, text []byte) file {
	source, problems := strictyaml.Parse(path, text)
	lines := strings.Split(string(text), "\n")
	for i, p := range problems {
		last := min(len(lines), p.Line+1)
		if near := lines[max(0, min(last, p.Line-2)):last]; source.Empty() &&
			expr.HasExpression(strings.Join(near, "\n")) {
			problems[i].Detail += "; in { } or [ ], put a string with ${{ }} in quotes"
		}
	}
	return file{path, source, problems}
}

func unreadable(path string, err error) Problem {
	if errors.Is(err, fs.ErrNotExist) {
		return Problem{Source: path, Detail: "no such file or directory"}
	}
	if wrapped := (*fs.PathError)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return Problem{Source: path, Detail: "cannot read: " + err.Error()}
}

func decodeFile(f file) (*Scenario, Problems) {
	s := &Scenario{File: f.path, Dir: filepath.Dir(f.path), source: f.source}
	scenario, doc, problems := v1alpha1.DecodeScenario(f.path, f.source)
	s.Scenario, s.doc = scenario, doc
	return s, append(f.problems, problems...)
}
