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
	// Problem is one mistake, with its file, line and field.
	Problem = strictyaml.Problem
	// Problems are all mistakes; Load returns them as its error.
	Problems = strictyaml.Problems
)

// Options of Load.
type Options struct {
	// Vars override variables of the scenarios. A string is read as YAML for a variable that is no
	// string. Default: none.
	Vars map[string]any
	// Select leaves out scenarios that it is false for; they are not checked either. Default: all
	// are taken.
	Select func(name string, labels map[string]string) bool
}

// Load reads scenario files and folders: of those, all scenario files in them, not in their
// subfolders. The error is of type Problems and tells every mistake that can be found without
// running anything.
func Load(paths []string, o Options) ([]*Scenario, error) {
	files, problems := find(paths)
	var scenarios []*Scenario
	first := map[string]string{}
	used := map[string]bool{}
	for _, f := range files {
		if f.source.Empty() {
			problems = append(problems, f.problems...)
			continue
		}
		s, found := read(f)
		if o.Select != nil && s.Scenario.Metadata.Name != "" &&
			!o.Select(s.Scenario.Metadata.Name, s.Scenario.Metadata.Labels) {
			continue
		}
		found = append(found, s.prepare(o)...)
		if name := s.Scenario.Metadata.Name; name != "" {
			if other, twice := first[name]; twice {
				found = append(found,
					s.problem("metadata.name", fmt.Sprintf("%q is the name of the scenario in %s too", name, other)))
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
				Detail: "no scenario has such a variable" + plain.DidYouMean(name, slices.Collect(maps.Keys(used)))})
		}
	}
	if len(scenarios) == 0 && len(problems) == 0 {
		problems = append(problems,
			Problem{Detail: "no scenario is selected: look at their names and labels with koupsandbox scenario list"})
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

// find reads the files at paths. In a directory it reads the files of kind Scenario.
func find(paths []string) (files []file, problems Problems) {
	for _, path := range paths {
		names := []string{path}
		entries, notFolder := os.ReadDir(path)
		if notFolder == nil {
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
			} else if notFolder != nil || IsScenario(text) {
				files = append(files, parse(name, text))
			}
		}
		if len(files)+len(problems) == before {
			problems = append(problems, Problem{Source: path, Detail: "there is no scenario file in this folder"})
		}
	}
	return files, problems
}

// parse parses a file. It explains the syntax error of an unquoted expression within { } or [ ].
func parse(path string, text []byte) file {
	source, problems := strictyaml.Parse(path, text)
	lines := strings.Split(string(text), "\n")
	for i, p := range problems {
		last := min(len(lines), p.Line+1)
		if near := lines[max(0, min(last, p.Line-2)):last]; source.Empty() && expr.Has(strings.Join(near, "\n")) {
			problems[i].Detail += "; within { } or [ ] put a text with ${{ }} in quotes"
		}
	}
	return file{path, source, problems}
}

func unreadable(path string, err error) Problem {
	if errors.Is(err, fs.ErrNotExist) {
		return Problem{Source: path, Detail: "there is no such file or folder"}
	}
	if wrapped := (*fs.PathError)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return Problem{Source: path, Detail: "cannot be read: " + err.Error()}
}

func read(f file) (*Scenario, Problems) {
	s := &Scenario{File: f.path, Folder: filepath.Dir(f.path), source: f.source}
	scenario, doc, problems := v1alpha1.DecodeScenario(f.path, f.source)
	s.Scenario, s.doc = scenario, doc
	return s, append(f.problems, problems...)
}
