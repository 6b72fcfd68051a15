// Package examples has what a repository of a user's own begins with, as files that work where they
// are:
//
//	module/   a module: its manifests, scenarios of its releases, CI files, a Makefile
//
// koupsandbox init writes them elsewhere, with another name of the module and its own version.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"strings"
)

// all: the names of some files begin with a dot.
//
//go:embed all:module
var files embed.FS

const (
	// module and version are what the files call the module, and the release of koupsandbox that CI uses.
	module, version = "stock", "v0.1.0"
	// schema is where the scenarios find their schema in this repository.
	schema = "../../../sandbox/api/v1alpha1/"
)

// CI names a system that runs the scenarios of a repository.
type CI string

// The systems that there are files for.
const (
	GitHub CI = "github"
	GitLab CI = "gitlab"
	None   CI = "none"
)

// ciFiles are the files of each, which the others leave out.
var ciFiles = map[CI]string{GitHub: ".github/workflows/scenarios.yml", GitLab: ".gitlab-ci.yml"}

// Systems are all values of CI.
func Systems() []CI { return []CI{GitHub, GitLab, None} }

// Options of Module.
type Options struct {
	// Name of the module, a DNS label. Required.
	Name string
	// Version is the release of koupsandbox that CI uses, such as v1.2.3. Default: that of the files.
	Version string
	// CI chooses the file for it. Default: none.
	CI CI
}

// Module returns the files of a module's repository by their paths, which have slashes. The scenarios
// expect their schema next to them, as scenario.schema.json.
func Module(o Options) (map[string][]byte, error) {
	pairs := []string{module, o.Name, schema, ""}
	if o.Version != "" {
		pairs = append(pairs, version, o.Version)
	}
	fit := strings.NewReplacer(pairs...)
	leftOut := maps.Clone(ciFiles)
	delete(leftOut, o.CI)
	out := map[string][]byte{}
	root, err := fs.Sub(files, "module")
	if err != nil {
		return nil, fmt.Errorf("reading the examples: %w", err)
	}
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		for _, other := range leftOut {
			if path == other {
				return nil
			}
		}
		text, err := fs.ReadFile(root, path)
		out[path] = []byte(fit.Replace(string(text)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the examples: %w", err)
	}
	return out, nil
}
